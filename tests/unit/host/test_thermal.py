"""How the board is, as the files of sysfs and of nvpmodel tell it."""

from __future__ import annotations

import errno

import pytest

from edgeagent.facts.vitals import BoardReadings
from edgeagent.host.files import Entry, TreeFiles
from edgeagent.host.powermode import power_mode, told
from edgeagent.host.thermal import readings
from tests.unit.host.trees import FaultyFiles

THERMAL = "sys/class/thermal"
HWMON = "sys/class/hwmon"
CONF = b"""\
# < POWER_MODEL ID=9 NAME=OUT >
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online

< POWER_MODEL ID=0 NAME=15W >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=1 NAME=25W >
< POWER_MODEL ID=2 NAME=MAXN_SUPER >
< PM_CONFIG DEFAULT=1 >
"""


def zone(number: int, kind: str, temp: str) -> dict[str, Entry]:
    folder = f"{THERMAL}/thermal_zone{number}"
    return {f"{folder}/type": f"{kind}\n".encode(), f"{folder}/temp": f"{temp}\n".encode()}


def cooling(number: int, kind: str, state: int) -> dict[str, Entry]:
    folder = f"{THERMAL}/cooling_device{number}"
    return {f"{folder}/type": f"{kind}\n".encode(), f"{folder}/cur_state": f"{state}\n".encode()}


ORIN: dict[str, Entry] = {
    **zone(0, "cpu-thermal", "49781"),
    **zone(1, "gpu-thermal", "47500"),
    **zone(2, "cv0-thermal", "-256000"),
    **zone(10, "tj-thermal", "50312"),
    **cooling(0, "cpufreq-cpu0", 0),
    **cooling(1, "cpufreq-cpu4", 3),
    **cooling(2, "devfreq-17000000.gpu", 0),
    **cooling(3, "gpu-throttle-alert", 1),
    **cooling(4, "pwm-fan", 3),
    f"{HWMON}/hwmon0/name": b"pwmfan\n",
    f"{HWMON}/hwmon0/pwm1": b"102\n",
    f"{HWMON}/hwmon0/pwm1_enable": b"1\n",
    f"{HWMON}/hwmon3/name": b"soctherm_oc\n",
    f"{HWMON}/hwmon3/oc1_event_cnt": b"0\n",
    f"{HWMON}/hwmon3/oc1_throt_en": b"1\n",
    f"{HWMON}/hwmon3/oc2_event_cnt": b"9\n",
    f"{HWMON}/hwmon3/oc2_throt_en": b"0\n",
    f"{HWMON}/hwmon3/oc3_event_cnt": b"37\n",
    f"{HWMON}/hwmon3/oc3_throt_en": b"1\n",
    "sys/class/devfreq/17000000.gpu/device/load": b"413\n",
    "var/lib/nvpmodel/status": b"pmode:0002 fmode:quiet\n",
    "etc/nvpmodel.conf": CONF,
}


def test_an_orin_tells_all_of_it() -> None:
    assert readings(TreeFiles(ORIN)) == BoardReadings(
        power_mode="MAXN_SUPER",
        # thousandths of a degree; cv0 is powered down
        temperatures=(("cpu-thermal", 49.781), ("gpu-thermal", 47.5), ("cv0-thermal", None), ("tj-thermal", 50.312)),
        # a fan that turns slows nothing down
        cooling=(("cpufreq-cpu0", 0), ("cpufreq-cpu4", 3), ("devfreq-17000000.gpu", 0), ("gpu-throttle-alert", 1)),
        over_current=(("oc1", 0), ("oc3", 37)),  # the second does not slow the board down
        fan=0.4,  # 102 / 255
        gpu_busy=0.413,  # thousandths
    )


def test_a_machine_without_any_of_it_tells_nothing() -> None:
    assert readings(TreeFiles({"proc/meminfo": b""})) == BoardReadings()


def test_links_lead_to_the_sensors() -> None:
    # In sysfs the entries of a class are links.
    files: dict[str, Entry] = {
        f"{THERMAL}/thermal_zone0": "../../devices/virtual/thermal/thermal_zone0",
        "sys/devices/virtual/thermal/thermal_zone0/type": b"CPU-therm\n",
        "sys/devices/virtual/thermal/thermal_zone0/temp": b"31000\n",
    }
    assert readings(TreeFiles(files)).temperatures == (("CPU-therm", 31.0),)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EINVAL, errno.ENODATA])
def test_a_zone_that_cannot_be_read_is_there_and_unknown(code: int) -> None:
    files = FaultyFiles(ORIN, {f"{THERMAL}/thermal_zone1/temp": code})
    assert dict(readings(files).temperatures)["gpu-thermal"] is None


def test_what_can_be_no_temperature_is_none() -> None:
    for temp in ("", "hot", "4e3", "151000", "-50001", "99999999999999999999"):
        assert readings(TreeFiles(zone(0, "x", temp))).temperatures == (("x", None),)


def test_the_power_chip_that_always_says_100_is_left_out() -> None:
    assert readings(TreeFiles(zone(0, "PMIC-Die", "100000"))).temperatures == ()


def test_two_zones_of_one_name_are_told_apart() -> None:
    both = {**zone(3, "iwlwifi", "40000"), **zone(4, "iwlwifi", "41000")}
    assert readings(TreeFiles(both)).temperatures == (("iwlwifi", 40.0), ("iwlwifi-4", 41.0))


@pytest.mark.parametrize(
    ("kind", "slows"),
    [
        # Documentation/driver-api/thermal/*-cooling*.rst and drivers of NVIDIA's and of ACPI
        ("cpu-throttle-alert", True),
        ("soc012-throttle-alert", True),
        ("thermal-cpufreq-0", True),
        ("cpufreq-cpu12", True),
        ("thermal-devfreq-0", True),
        ("devfreq-gpu-gpc-0", True),
        ("Processor", True),
        ("intel_powerclamp", True),
        ("gpu-balanced", True),
        ("pwm-fan", False),
        ("Fan", False),
        ("LCD", False),
        ("hot-surface-alert", False),
        ("TCC Offset", False),
    ],
)
def test_what_slows_a_processor_down(kind: str, slows: bool) -> None:  # noqa: FBT001 (a table)
    expected = ((kind, 2),) if slows else None
    assert readings(TreeFiles(cooling(0, kind, 2))).cooling == expected


def test_the_fan_of_older_releases() -> None:
    assert readings(TreeFiles({"sys/devices/pwm-fan/cur_pwm": b"255\n"})).fan == 1.0
    assert readings(TreeFiles({"sys/devices/pwm-fan/cur_pwm": b"256\n"})).fan is None


@pytest.mark.parametrize(
    ("status", "conf", "mode"),
    [
        (b"pmode:0002\n", CONF, "MAXN_SUPER"),
        (b"pmode:0000 fmode:cool\n", CONF, "15W"),
        (b"pmode:0008\n", CONF, "8"),  # a mode that has no name here
        (b"pmode:0009\n", CONF, "9"),  # the name in a comment is none
        (None, CONF, "25W"),  # nothing was ever set
        (b"", CONF, "25W"),
        (b"pmode:0001\n", None, "1"),
        (None, None, None),
        (b"\xff\xfe", b"\x00" * 100, None),
    ],
)
def test_the_power_mode(status: bytes | None, conf: bytes | None, mode: str | None) -> None:
    files = {"var/lib/nvpmodel/status": status, "etc/nvpmodel.conf": conf}
    assert power_mode(TreeFiles({path: text for path, text in files.items() if text is not None})) == mode


def test_what_of_the_power_modes_is_read() -> None:
    assert told("pmode:0002 fmode:quiet\n") == ["pmode:0002"]
    assert told(CONF.decode())[0] == "< POWER_MODEL ID=0 NAME=15W >"
    assert len(told(CONF.decode())) == 4
