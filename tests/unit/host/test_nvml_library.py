"""The library's own file: older ones that lack functions, and one that is replaced while it is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgeagent.host.nvml import RETRY
from tests.fakes.nvml import build
from tests.unit.host.nvml_documents import T4, document, replayed, without

OLD, NEW = '-DVERSION="570.195.03"', '-DVERSION="580.126.09"'


@pytest.mark.parametrize(
    ("driver", "lacks"),
    [
        # nvml.h of the drivers 440, 470 and 580: what came when.
        (440, ["memory_v2", "mig", "compute", "graphics", "mps"]),  # it has lists, but in records of 16 bytes only
        (470, ["memory_v2"]),
        (580, []),
    ],
)
def test_what_an_older_library_lacks_is_missing_and_nothing_else(tmp_path: Path, driver: int, lacks: list[str]) -> None:
    library = build(tmp_path, f"-DDRIVER={driver}")
    library.say(document(T4))
    with library.samples() as sampler:
        sample = sampler.at(0.0)
    assert sample == replayed(document(without(T4, *lacks)))
    names = {"mig_mode" if name == "mig" else name for name in lacks}
    # T4 does not support MIG: code 3. A function that is not there: code 13.
    assert sample["devices"][0]["errors"] == {"mig_mode": 3} | dict.fromkeys(names, 13)


def mapped(pid: int) -> list[str]:
    """Files of the library that a process has mapped."""
    rows = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({row.split(maxsplit=5)[5] for row in rows if "libnvidia-ml" in row})


def failed(init: int) -> Any:
    return replayed({"library": "present", "init": init})


def test_after_an_upgrade_the_new_library_takes_the_place_of_the_old_without_a_restart(tmp_path: Path) -> None:
    library = build(tmp_path, OLD)
    old = document(T4, driver_version="570.195.03")
    new = document(T4, driver_version="580.126.09")
    with library.samples() as sampler:
        library.say(old, "kernel 570.195.03")
        assert sampler.at(0.0) == replayed(old)
        # The package was replaced, the module was not: the library in use still fits it, and stays in use.
        build(tmp_path, NEW)
        library.say(document(T4, count={"code": 999}), "kernel 570.195.03")
        assert sampler.at(2.0)["count"] is None
        library.say(old, "kernel 570.195.03")
        assert sampler.at(2.0 + RETRY) == replayed(old)
        # The module is loaded anew: nobody that has the old file mapped can ever talk to it.
        library.say(document(T4, count={"code": 999}), "kernel 580.126.09")
        assert sampler.at(4.0 + RETRY)["count"] is None
        library.say(new, "kernel 580.126.09")
        assert sampler.at(4.0 + 2 * RETRY) == failed(18)
        assert mapped(sampler.process.pid) == []
        assert sampler.at(4.0 + 3 * RETRY) == replayed(new)
        assert mapped(sampler.process.pid) == [str(tmp_path / "libnvidia-ml.so.1")]


def test_a_library_that_forbids_to_be_unloaded_stays_until_the_process_ends(tmp_path: Path) -> None:
    library = build(tmp_path, OLD, "-Wl,-z,nodelete")
    with library.samples() as sampler:
        library.say(document(T4), "kernel 570.195.03")
        assert sampler.at(0.0)["init"] == 0
        build(tmp_path, NEW)
        library.say(document(T4, count={"code": 999}), "kernel 580.126.09")
        assert sampler.at(2.0)["count"] is None
        assert [sampler.at(2.0 + number * RETRY) for number in (1, 2, 3)] == [failed(18)] * 3
    with library.samples() as sampler:
        library.say(document(T4), "kernel 580.126.09")
        assert sampler.at(0.0)["init"] == 0


def test_an_agent_that_starts_between_upgrade_and_reboot_waits_for_the_module(tmp_path: Path) -> None:
    library = build(tmp_path, NEW)
    new = document(T4, driver_version="580.126.09")
    with library.samples() as sampler:
        library.say(new, "kernel 570.195.03")
        assert [sampler.at(at) for at in (0.0, RETRY, 2 * RETRY)] == [failed(18)] * 3
        library.say({"init": 9})  # the module is being replaced
        assert sampler.at(3 * RETRY) == failed(9)
        library.say(new, "kernel 580.126.09")
        assert sampler.at(3 * RETRY + 2) == failed(9)  # not asked faster
        assert sampler.at(4 * RETRY) == replayed(new)


def test_a_day_of_waiting_for_a_reboot_leaves_nothing_behind(tmp_path: Path) -> None:
    library = build(tmp_path, NEW)
    library.say(document(T4), "kernel 570.195.03")
    with library.samples() as sampler:
        opened = []
        for number in range(2880):  # every 30 s
            assert sampler.at(number * RETRY)["init"] == 18
            if number in (10, 2879):
                opened.append(len(list(Path(f"/proc/{sampler.process.pid}/fd").iterdir())))
        assert opened[0] == opened[1]
        assert mapped(sampler.process.pid) == []


def test_a_library_that_is_installed_later_is_found(tmp_path: Path) -> None:
    library = build(tmp_path)
    library.say(document(T4))
    file, hidden = tmp_path / "libnvidia-ml.so.1", tmp_path / "hidden"
    file.rename(hidden)
    with library.samples() as sampler:
        assert sampler.at(0.0) == replayed({"library": "absent"})
        hidden.rename(file)
        assert sampler.at(RETRY) == replayed(document(T4))


def test_records_longer_than_declared_are_read_by_the_older_call_and_one_process_by_any(tmp_path: Path) -> None:
    # Drivers 535.43 to 535.86 fill 32 bytes where 24 are declared (XuehaiPan/nvitop#88), so that the second pid
    # would be 4294967295. The first record lies where it must.
    library = build(tmp_path, "-DDRIVER=535")
    two = [{"pid": 4242, "used": 1610612736}, {"pid": 5151, "used": 805306368}]
    with library.samples() as sampler:
        for number in (1, 2):
            value = document({**T4, "compute": {"code": 0, "processes": two[:number]}})
            library.say(value, "stride 32")
            assert sampler.at(2.0 * number) == replayed(value)
