"""Which cards sleep, and which would if nobody looked."""

from __future__ import annotations

import pytest

from edgeagent.facts import Nvml, Reading
from edgeagent.host import power
from edgeagent.host.files import Entry, TreeFiles
from edgeagent.host.power import Power
from edgeagent.host.sampler import HostSampler
from tests.unit.host.trees import FaultyFiles

A, B = "0000:01:00.0", "0000:65:00.0"
STAT = b"%d (%s) S 1 1 1 0 -1 4194304 5 6 7 8 9 10 11 12 20 0 1 0 881234 4096 25 0\n"
SHELL: dict[str, Entry] = {"proc/100/stat": STAT % (100, b"sh"), "proc/100/fd/0": "/dev/null"}
USER: dict[str, Entry] = {"proc/4242/stat": STAT % (4242, b"infer"), "proc/4242/fd/3": "/dev/nvidia0"}


def card(address: str, **files: bytes | str) -> dict[str, Entry]:
    """A card by what is said of it below its folder; ``__`` stands for a slash."""
    folder = f"sys/bus/pci/devices/{address}"
    given: dict[str, bytes | str] = {"vendor": b"0x10de\n", "class": b"0x030000\n", **files}
    return {f"{folder}/{name.replace('__', '/')}": content for name, content in given.items()}


def runtime_d3(address: str, status: str) -> dict[str, Entry]:
    # As the driver 580 prints it (beclab/Olares#3803, NVIDIA/open-gpu-kernel-modules#907).
    text = f"Runtime D3 status:          {status}\nVideo Memory:               Active\n"
    return {f"proc/driver/nvidia/gpus/{address}/power": text.encode()}


def state(entries: dict[str, Entry]) -> Power:
    return HostSampler(TreeFiles(entries), clock=lambda: 50.0, arch="x86_64").power()


@pytest.mark.parametrize(
    ("files", "asleep"),
    [
        ({}, False),
        ({"power__runtime_status": b"active\n", "power_state": b"D0\n"}, False),
        ({"power__runtime_status": b"suspended\n", "power_state": b"D3cold\n"}, True),
        ({"power__runtime_status": b"suspended\n", "power_state": b"D3hot\n"}, True),
        ({"power__runtime_status": b"suspended\n"}, True),
        ({"power_state": b"D3cold\n"}, True),
        ({"power__runtime_status": b"suspending\n", "power_state": b"D0\n"}, False),
        ({"power__runtime_status": b"resuming\n", "power_state": b"D3hot\n"}, False),
        ({"power__runtime_status": b"unsupported\n"}, False),
        ({"power__runtime_status": b"error\n"}, False),
        ({"power__runtime_status": b""}, False),
        ({"power__runtime_status": b"suspended\n", "driver": "../../../bus/pci/drivers/nvidia"}, True),
        # kept for virtual machines: NVML knows nothing of it, asleep or not
        ({"power__runtime_status": b"suspended\n", "driver": "../../../bus/pci/drivers/vfio-pci"}, False),
    ],
)
def test_a_card_sleeps_when_the_kernel_says_so(files: dict[str, bytes | str], asleep: bool) -> None:  # noqa: FBT001 (a table's column)
    assert power.asleep(TreeFiles(card(A, **files)), [A]) == ((A,) if asleep else ())


def test_each_card_by_itself() -> None:
    entries = {**card(A, power__runtime_status=b"suspended\n"), **card(B, power__runtime_status=b"active\n")}
    assert state(entries) == Power(busy=(B,), asleep=(A,))


@pytest.mark.parametrize(
    ("status", "processes", "expected"),
    [
        ("Enabled (fine-grained)", SHELL, Power(idle=(A,))),
        ("Enabled (coarse-grained)", SHELL, Power(idle=(A,))),
        ("Enabled (fine-grained)", {**SHELL, **USER}, Power(busy=(A,))),
        ("Enabled (fine-grained)", {}, Power(busy=(A,))),  # without a process table nothing is proven
        # A server's card is never powered down: it is asked, so that its loss is seen.
        ("Not supported", SHELL, Power(busy=(A,))),
        ("Disabled by default", SHELL, Power(busy=(A,))),
        ("?", SHELL, Power(busy=(A,))),
    ],
)
def test_a_card_that_would_sleep_is_idle_while_nobody_holds_it(
    status: str, processes: dict[str, Entry], expected: Power
) -> None:
    assert state({**card(A), **runtime_d3(A, status), **processes}) == expected


@pytest.mark.parametrize(
    "sign", [{"dev/nvmap": b""}, {"proc/device-tree/compatible": b"nvidia,p3834-0008\0nvidia,tegra264\0"}]
)
def test_the_gpu_of_a_tegra_is_always_asked(sign: dict[str, Entry]) -> None:
    # What it holds stays in the board's memory, whatever its power.
    entries = {**card(A, power__runtime_status=b"suspended\n"), **runtime_d3(A, "Enabled"), **SHELL, **sign}
    assert state(entries) == Power(busy=(A,))


def test_open_files_are_not_looked_through_for_cards_that_never_sleep() -> None:
    files = FaultyFiles({**card(A), **runtime_d3(A, "Not supported"), **USER})
    HostSampler(files, clock=lambda: 50.0, arch="x86_64").power()
    assert ("links", "proc/4242/fd") not in files.calls


def test_the_power_of_a_card_is_read_in_every_sample() -> None:
    files = FaultyFiles(card(A, power__runtime_status=b"active\n"))
    now = 50.0
    subject = HostSampler(files, clock=lambda: now, arch="x86_64")
    reading: Reading[Nvml] = Reading(50.0, None)
    seen = [subject.sample(reading, ()).files.pci_asleep for _ in range(3)]
    files.change(card(A, power__runtime_status=b"suspended\n"))
    now = 52.0
    seen.append(subject.sample(reading, ()).files.pci_asleep)
    files.change(card(A, power__runtime_status=b"active\n"))
    seen.append(subject.sample(reading, ()).files.pci_asleep)
    assert seen == [(), (), (), (A,), ()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),  # a domain beyond 16 bits, as of a VMD controller
        ("0000:01:00.0", "0000:01:00.0"),
        ("N/A", None),
        ("", None),
    ],
)
def test_an_address_as_sysfs_spells_it(text: str, expected: str | None) -> None:
    assert power.address(text) == expected
