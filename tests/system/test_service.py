"""The agent as systemd sees it: ready, reloaded, watched, stopped; in its sandbox too."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import sandbox
from .requirements import ROOT
from .service import QUICK, Service, command, furnish, running
from .unit import ALLOWED, capabilities


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    furnish(tmp_path)
    return tmp_path


@pytest.fixture(params=["plain", pytest.param("sandbox", marks=ROOT)])
def service(request: pytest.FixtureRequest, folder: Path) -> Iterator[Service]:
    """The running agent, once as it is and once with all that the unit takes from it."""
    before = sandbox.prefix([folder]) if request.param == "sandbox" else None
    with running(folder, before=before) as started:
        yield started


def reserve(service: Service, name: str) -> int:
    """Bytes of a reserve line of the only pool."""
    (pool,) = json.loads(service.get("/api/v1/pools")[1])["pools"]
    return next(int(line["bytes"]) for line in pool["reserves"] if line["name"] == name)


def test_from_ready_to_stopped(service: Service) -> None:
    # READY has come. What it stands for has to be true by now.
    assert service.get("/readyz") == (200, '{"status":"ok","reasons":[]}\n')
    assert f"listening on {service.address}" in (service.folder / "log").read_text().splitlines()[0]
    # MemTotal of the recording is 7802736 kB, without huge pages.
    assert json.loads(service.get("/api/v1/pools")[1])["pools"][0]["total_bytes"] == 7802736 * 1024

    for _ in range(3):
        service.manager.until("WATCHDOG")
    cycles = service.metric("cycles_total")
    assert cycles >= 2, "only completed cycles ping"

    assert service.stop() == 0


def test_a_reload_takes_a_configuration_whole_or_not_at_all(service: Service) -> None:
    default = reserve(service, "os")

    service.configure(QUICK + "reserves: {os: 1Gi}\n")
    began, _ = service.reload()
    service.manager.until("WATCHDOG")
    service.manager.until("WATCHDOG")

    assert int(began["MONOTONIC_USEC"]) > 0
    assert (default, reserve(service, "os")) == (768 * 1024**2, 1024**3)
    assert service.metric("config_last_reload_successful") == 1

    service.configure(QUICK + "reserves: {os: 2Gi}\npolicy: {grace: soon}\n")
    service.reload()
    service.manager.until("WATCHDOG")
    service.manager.until("WATCHDOG")

    assert reserve(service, "os") == 1024**3, "also the half that could be used was not taken"
    assert service.metric("config_last_reload_successful") == 0
    assert "policy.grace" in (service.folder / "log").read_text()


def test_a_reload_shows_at_once(folder: Path) -> None:
    slow = "sampling: {interval: 60s, fast: 100ms, max_age: 120s}\n"  # beyond the 30 s that a message is waited for
    (folder / "config.yaml").write_text(slow)
    with running(folder) as service:
        service.configure(f"{slow}mode: observe\n")
        service.reload()

        assert service.manager.until("STATUS")["STATUS"].endswith(", mode observe")
        assert json.loads(service.get("/api/v1/state")[1])["mode"] == "observe"


def test_a_second_instance_is_refused(service: Service) -> None:
    second = subprocess.run(command(service.folder), capture_output=True, text=True, check=False, timeout=60)

    assert (second.returncode, second.stdout) == (75, "")
    assert second.stderr.count("\n") == 1
    assert f"(pid {service.process.pid})" in second.stderr
    assert service.get("/livez")[0] == 200


def test_after_a_kill_the_next_one_starts_at_once(folder: Path) -> None:
    with running(folder) as first:
        first.process.kill()
        first.process.wait()
    with running(folder) as second:
        assert second.get("/readyz")[0] == 200


def test_a_pipe_that_nobody_reads_stops_nothing(folder: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"." * 4096)
    try:
        with running(folder, stderr=writing) as service:
            service.manager.until("WATCHDOG")
            service.manager.until("WATCHDOG")

            assert service.get("/readyz")[0] == 200
            assert service.stop() == 0
    finally:
        os.close(reading)
        os.close(writing)


@ROOT
def test_full_disks_stop_nothing(folder: Path) -> None:
    # Both directories on a file system without a free byte.
    state, run = folder / "state", folder / "run"
    full = folder / "full.sh"
    full.write_text(
        f"for at in {state} {run}; do\n"
        "    mount -t tmpfs -o size=4k,mode=777 full $at\n"
        "    head -c 4096 /dev/zero >$at/fill\n"
        "done\n"
        'exec "$@"\n'
    )
    before = ["unshare", "--mount", "--propagation", "slave", "--", "sh", "-e", str(full)]
    with running(folder, before=before) as service:
        log = (folder / "log").read_text()

        assert "run/address: No space left on device" in log
        service.manager.until("WATCHDOG")
        service.manager.until("WATCHDOG")
        assert service.stop() == 0


@ROOT
def test_what_the_sandbox_leaves(folder: Path) -> None:
    """The sandbox of these tests takes away what the unit takes away, and leaves what the agent needs."""
    shutil.copy(Path(__file__).with_name("probe.py"), folder)
    argv = [*sandbox.prefix([folder]), sys.executable, str(folder / "probe.py"), str(os.getpid())]
    found = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)

    assert found == {**ALLOWED, "capabilities": capabilities()}
