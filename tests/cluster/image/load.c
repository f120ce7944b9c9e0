/* The one program of the tests' only image: without arguments it waits, as a pause container does.
 *
 *   --hold MIB      first fill MIB mebibytes of anonymous memory and keep them
 *   --ignore-term   live on after SIGTERM
 *   --burn          spin instead of waiting
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first process of a container gets only the signals it has a handler for. */
static void leave(int signal) {
    (void)signal;
    _exit(0);
}

static void hold(long mib) {
    size_t size = (size_t)mib << 20;
    volatile char *memory = malloc(size);
    if (!memory) {
        perror("load: --hold");
        exit(1);
    }
    /* Not memset: the compiler may drop a store that nobody reads. */
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = 1;
}

int main(int argc, char **argv) {
    int burn = 0;
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--hold") && i + 1 < argc) {
            hold(atol(argv[++i]));
        } else if (!strcmp(argv[i], "--ignore-term")) {
            signal(SIGTERM, SIG_IGN);
        } else if (!strcmp(argv[i], "--burn")) {
            burn = 1;
        } else {
            fprintf(stderr, "load: unknown argument %s\n", argv[i]);
            return 2;
        }
    }
    for (;;)
        if (!burn)
            pause();
}
