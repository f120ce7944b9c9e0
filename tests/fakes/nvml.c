/* An NVML library (libnvidia-ml.so.1) whose answers come from a text file.
 *
 * The file is named by FAKE_NVML and looked at anew at every call. A line is a key and, after
 * blanks, the return code and the values of a function; texts are in hexadecimal. A key that
 * is not there is a function that the library does not have. Devices are "0.", "1." ..., the
 * second MIG instance of the first is "0.mig1.". Switches:
 *
 *   hang KEY SECONDS   the function sleeps first
 *   grow N             a process list has become longer between its two calls, N times
 *   stride 32          process lists of version 3 have 8 bytes more per record than declared
 *   kernel VERSION     the version of the loaded kernel module; the library wants its own
 *   starts             the CUDA version is the number of initialisations so far
 *   log                every key that is asked for is written to the file FAKE_NVML.log
 *
 * Compiled with -DDRIVER=470 it lacks what came later, as the library of that driver does:
 * before 450 MIG and process lists of version 2, before 510 those of version 3 and the second
 * memory query. -DVERSION="..." is what it wants of the kernel module.
 *
 * Signatures and structures: nvml.h of the NVIDIA GPU driver, as the public header has them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#ifndef DRIVER
#define DRIVER 580
#endif
#ifndef VERSION
#define VERSION "580.82.09"
#endif

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, FUNCTION_NOT_FOUND = 13, MISMATCH = 18 };
enum { TEXT = 1 << 20, LINE = 65536, KEY = 128 };

typedef unsigned long long u64;
typedef void *device_t;

static int initialised;
static unsigned starts;
static int grown;

/* The content of the file. */
static const char *answers(void)
{
    static char text[TEXT];
    static struct stat seen;
    const char *path = getenv("FAKE_NVML");
    struct stat now;
    FILE *file;

    if (!path || stat(path, &now))
        return "";
    if (now.st_ino == seen.st_ino && !memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim))
        return text;
    file = fopen(path, "r");
    if (file) {
        text[fread(text, 1, TEXT - 1, file)] = 0;
        fclose(file);
        seen = now;
    }
    return text;
}

static void note(const char *key)
{
    char path[LINE];
    FILE *file;

    snprintf(path, LINE, "%s.log", getenv("FAKE_NVML"));
    file = fopen(path, "a");
    if (file) {
        fprintf(file, "%s\n", key);
        fclose(file);
    }
}

static void hang(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* The rest of the line that begins with key, in out; whether there is one. */
static int look_up(const char *key, char *out)
{
    static char line[LINE], first[KEY], second[KEY];
    double seconds;
    int found = 0, length;

    for (const char *at = answers(), *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        snprintf(line, LINE, "%.*s", (int)(end - at), at);
        if (sscanf(line, "hang %127s %lf", second, &seconds) == 2 && !strcmp(second, key))
            hang(seconds);
        if (sscanf(line, "%127s %n", first, &length) == 1 && !strcmp(first, key)) {
            strcpy(out, line + length);
            found = 1;
        }
    }
    return found;
}

/* The return code of key; the values after it in rest. */
static int answer(const char *key, char *rest)
{
    static char line[LINE];
    char *end;
    int code;

    if (look_up("log", line))
        note(key);
    if (!look_up(key, line))
        return FUNCTION_NOT_FOUND;
    code = (int)strtol(line, &end, 10);
    strcpy(rest, end);
    return initialised ? code : UNINITIALIZED;
}


static void device_key(device_t device, const char *field, char *key)
{
    size_t number = (size_t)device;
    int index = (int)(number & 0xffff) - 1, instance = (int)(number >> 16) - 1;

    if (instance < 0)
        snprintf(key, KEY, "%d.%s", index, field);
    else
        snprintf(key, KEY, "%d.mig%d.%s", index, instance, field);
}

static int device_answer(device_t device, const char *field, char *rest)
{
    char key[KEY];

    device_key(device, field, key);
    return answer(key, rest);
}

static int handle_answer(device_t device)
{
    static char rest[LINE];
    char key[KEY];

    device_key(device, "handle", key);
    return look_up(key, rest) ? answer(key, rest) : NOT_FOUND;
}

static void from_hex(const char *hex, char *text, unsigned size)
{
    unsigned at = 0, byte;

    while (*hex == ' ')
        hex++;
    for (; at + 1 < size && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        text[at++] = (char)byte;
    text[at] = 0;
}

static int text_of(int code, const char *rest, char *text, unsigned size)
{
    if (code == SUCCESS)
        from_hex(rest, text, size);
    return code;
}

static int number_of(int code, const char *rest, unsigned *number)
{
    if (code == SUCCESS)
        *number = (unsigned)strtoul(rest, NULL, 10);
    return code;
}

/* --- the system --- */

int nvmlInitWithFlags(unsigned flags)
{
    static char line[LINE];
    int code = look_up("init", line) ? atoi(line) : SUCCESS;

    (void)flags;
    if (look_up("log", line))
        note("init");
    if (look_up("kernel", line) && strcmp(line, VERSION))
        code = MISMATCH;
    initialised = code == SUCCESS;
    starts++;
    return code;
}

int nvmlShutdown(void)
{
    initialised = 0;
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    static char rest[LINE];
    return text_of(answer("driver_version", rest), rest, text, size);
}

int nvmlSystemGetCudaDriverVersion(int *number)
{
    static char rest[LINE];

    if (look_up("starts", rest)) {
        *number = (int)starts;
        return SUCCESS;
    }
    return number_of(answer("cuda_version", rest), rest, (unsigned *)number);
}

int nvmlDeviceGetCount_v2(unsigned *number)
{
    static char rest[LINE];
    return number_of(answer("count", rest), rest, number);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device)
{
    *device = (device_t)(size_t)(index + 1);
    return handle_answer(*device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device_t *device)
{
    static char rest[LINE], text[KEY];

    for (unsigned index = 0; index < 16; index++) {
        *device = (device_t)(size_t)(index + 1);
        if (device_answer(*device, "pci_bus_id", rest) != SUCCESS)
            continue;
        from_hex(rest, text, KEY);
        /* The library prints eight digits of the domain and takes four as well. */
        if (!strcasecmp(text, bus_id) || !strcasecmp(text + 4, bus_id))
            return device_answer(*device, "handle", rest);
    }
    return NOT_FOUND;
}

/* --- a device --- */

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(device_t device, struct pci *pci)
{
    static char rest[LINE];
    return text_of(device_answer(device, "pci_bus_id", rest), rest, pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetName(device_t device, char *text, unsigned size)
{
    static char rest[LINE];
    return text_of(device_answer(device, "name", rest), rest, text, size);
}

int nvmlDeviceGetUUID(device_t device, char *text, unsigned size)
{
    static char rest[LINE];
    return text_of(device_answer(device, "uuid", rest), rest, text, size);
}

int nvmlDeviceGetMinorNumber(device_t device, unsigned *number)
{
    static char rest[LINE];
    return number_of(device_answer(device, "minor", rest), rest, number);
}

int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor)
{
    static char rest[LINE];
    int code = device_answer(device, "cuda_capability", rest);

    if (code == SUCCESS)
        sscanf(rest, "%d %d", major, minor);
    return code;
}

struct memory {
    u64 total, free, used;
};

struct memory_v2 {
    unsigned version;
    u64 total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo(device_t device, struct memory *memory)
{
    static char rest[LINE];
    int code = device_answer(device, "memory", rest);

    if (code == SUCCESS)
        sscanf(rest, "%llu %llu %llu", &memory->total, &memory->used, &memory->free);
    return code;
}

#if DRIVER >= 510
int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *memory)
{
    static char rest[LINE];
    int code = device_answer(device, "memory_v2", rest);

    if (code == SUCCESS)
        sscanf(rest, "%llu %llu %llu %llu", &memory->total, &memory->reserved, &memory->used, &memory->free);
    return code;
}

#endif

/* --- processes --- */

struct process {
    unsigned pid;
    u64 used;
    unsigned gi, ci;
};

/* Values: the number of processes, then pid:used:gi:ci of each. */
static int processes(device_t device, const char *field, unsigned *count, void *out, size_t stride)
{
    static char rest[LINE], line[LINE];
    char *at;
    unsigned number, wanted = *count;
    int code = device_answer(device, field, rest);

    if (code != SUCCESS)
        return code;
    number = (unsigned)strtoul(rest, &at, 10);
    *count = number;
    if (number == 0)
        return SUCCESS;
    if (!out || wanted < number)
        return INSUFFICIENT_SIZE;
    if (look_up("grow", line) && grown < atoi(line)) {
        grown++;
        return INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < number; i++) {
        struct process process = {0};
        char *record = (char *)out + i * stride;

        process.pid = (unsigned)strtoul(at, &at, 10);
        process.used = strtoull(at + 1, &at, 10);
        process.gi = (unsigned)strtoul(at + 1, &at, 10);
        process.ci = (unsigned)strtoul(at + 1, &at, 10);
        memset(record, 0xff, stride);
        memcpy(record, &process, stride < sizeof process ? stride : sizeof process);
    }
    return SUCCESS;
}

/* The oldest kind ends before the instances. */
#define LIST(kind, version, field, stride)                                                     \
    int nvmlDeviceGet##kind##RunningProcesses##version(device_t device, unsigned *count, void *out) \
    {                                                                                         \
        return processes(device, field, count, out, stride);                                   \
    }
#define LISTS(version, stride)                    \
    LIST(Compute, version, "compute", stride)     \
    LIST(Graphics, version, "graphics", stride)   \
    LIST(MPSCompute, version, "mps", stride)

LISTS(, 16)
#if DRIVER >= 450
LISTS(_v2, sizeof(struct process))
#endif
#if DRIVER >= 510
static size_t stride(void)
{
    static char line[LINE];
    return look_up("stride", line) ? (size_t)atoi(line) : sizeof(struct process);
}

LISTS(_v3, stride())
#endif

/* --- activity --- */

struct rates {
    unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(device_t device, struct rates *rates)
{
    static char rest[LINE];
    int code = device_answer(device, "utilization", rest);

    if (code == SUCCESS)
        sscanf(rest, "%u %u", &rates->gpu, &rates->memory);
    return code;
}

int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned *celsius)
{
    static char rest[LINE];

    (void)sensor;
    return number_of(device_answer(device, "temperature", rest), rest, celsius);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device_t device, u64 *reasons)
{
    static char rest[LINE];
    int code = device_answer(device, "clocks", rest);

    if (code == SUCCESS)
        *reasons = strtoull(rest, NULL, 10);
    return code;
}

struct sample {
    unsigned pid;
    u64 at;
    unsigned sm, memory, encoder, decoder;
};

/* Values: the number of samples, then pid:at:sm of each. Those are given that are newer than since. */
int nvmlDeviceGetProcessUtilization(device_t device, struct sample *out, unsigned *count, u64 since)
{
    static char rest[LINE];
    char *at;
    unsigned number, found = 0;
    int code = device_answer(device, "process_utilization", rest);

    if (code != SUCCESS)
        return code;
    number = (unsigned)strtoul(rest, &at, 10);
    if (!out) {
        *count = number ? number : 1;
        return INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < number; i++) {
        struct sample sample = {0};

        sample.pid = (unsigned)strtoul(at, &at, 10);
        sample.at = strtoull(at + 1, &at, 10);
        sample.sm = (unsigned)strtoul(at + 1, &at, 10);
        if (sample.at > since && found < *count)
            out[found++] = sample;
    }
    *count = found;
    return found ? SUCCESS : NOT_FOUND;
}

#if DRIVER >= 450
/* --- MIG --- */

int nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending)
{
    static char rest[LINE];
    int code = number_of(device_answer(device, "mig", rest), rest, current);

    if (code == SUCCESS)
        *pending = *current;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned *count)
{
    (void)device;
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned index, device_t *instance)
{
    *instance = (device_t)((size_t)device | ((size_t)(index + 1) << 16));
    return handle_answer(*instance);
}
#endif
