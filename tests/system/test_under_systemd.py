"""The unit under a real systemd: started, watched, reloaded, stopped, killed; and what its sandbox lets through.

Not shown here: names of device groups (``char-nvhost*``), for which a driver of that name has to be loaded, and
OOMScoreAdjust where whoever runs the tests lacks CAP_SYS_RESOURCE; systemd passes over it then. Not shut by the unit is
/dev/shm, which ProtectSystem= leaves as it is.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.waiting import wait_for
from tests.faults.conftest import write_kubeconfig
from tests.faults.server import ScriptedServer, refuses, serving

from . import hold, reach
from .machine import UNIT, Machine
from .requirements import ROOT
from .service import QUICK
from .unit import ALLOWED, capabilities, section

pytestmark = ROOT

CONFIG = "etc/edgeagent/config.yaml"
WATCHDOG = "WatchdogSec=10\n"
"""For the tests' sake; the unit's own is 15. A busy machine must not take longer for what they do meanwhile."""
ELSEWHERE = "192.0.2.1"
"""An address of the machine that is not its loopback (TEST-NET-1, RFC 5737)."""
PROGRAM = "/opt/edgeagent/bin/edgeagent"
PROBE = "/opt/edgeagent/bin/python3 /opt/reach.py"
_SIOCSIFADDR = 0x8916


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """The machine with the unit as it is installed, not started, and a configuration that samples quickly."""
    booted.write(CONFIG, QUICK)
    booted.drop_in("")
    booted.begin_log()
    yield booted
    sys.stdout.write(booted.log())  # what a failing test shows
    booted.run("systemctl", "stop", UNIT)
    booted.run("systemctl", "reset-failed", UNIT, check=False)
    booted.run("rm", "-rf", "/var/lib/edgeagent")


@pytest.fixture
def agent(machine: Machine) -> Machine:
    """The machine with the agent started; Type=notify: it has said READY."""
    machine.run("systemctl", "start", UNIT)
    return machine


def metric(agent: Machine, name: str) -> float:
    match = re.search(rf"^edgeagent_{name}(?:{{.*}})? (\S+)$", agent.get("/metrics")[1], re.MULTILINE)
    assert match is not None
    return float(match[1])


def wait_restarted(agent: Machine, before: int) -> None:
    """Wait until another process than ``before`` has said READY; it is the first one after it."""
    wait_for("another process", lambda: agent.main_pid not in (0, before), every=0.1)
    wait_for("READY", lambda: agent.show("ActiveState") == ["active"], every=0.1)
    assert agent.main_pid != before
    assert agent.show("NRestarts", "ActiveState", "SubState") == ["1", "active", "running"]
    assert agent.get("/healthz")[0] == 200


def machine_cgroups() -> set[Path]:
    return set(Path("/sys/fs/cgroup").glob("**/edgeagent-machine-*"))


def test_a_machine_leaves_nothing_behind(booted: Machine, tmp_path: Path) -> None:
    """Neither it nor the tests that use it can be trusted otherwise; ``booted``: there may be several at a time."""
    assert booted.run("systemctl", "is-system-running") == "running\n"
    mounts, cgroups = Path("/proc/self/mountinfo").read_text(), machine_cgroups()
    with Machine(tmp_path) as machine:
        pid = machine.pid
        machine.run("systemctl", "start", UNIT)
        assert Path("/proc/self/mountinfo").read_text() == mounts
    assert not Path(f"/proc/{pid}").exists()
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert machine_cgroups() == cgroups


def test_it_starts_without_k3s_as_its_own_user(agent: Machine) -> None:
    pid = agent.main_pid
    assert agent.show("ActiveState", "SubState", "NRestarts") == ["active", "running", "0"]
    assert "Active: active (running)" in agent.run("systemctl", "status", "--no-pager", UNIT)
    assert agent.get("/healthz") == (200, '{"status":"ok","reasons":[]}\n')
    owners = agent.run("stat", "-c", "%U %a %n", f"/proc/{pid}", "/run/edgeagent", "/var/lib/edgeagent").splitlines()
    assert owners == [f"edgeagent 555 /proc/{pid}", "edgeagent 755 /run/edgeagent", "edgeagent 700 /var/lib/edgeagent"]


def test_a_stopped_process_is_killed_and_started_anew(machine: Machine) -> None:
    machine.drop_in(WATCHDOG)
    machine.run("systemctl", "start", UNIT)
    before = machine.main_pid

    machine.signal("STOP")

    wait_restarted(machine, before)
    assert "Watchdog timeout (limit 10s)" in machine.log()


@contextmanager
def readers_held(machine: Machine) -> Iterator[None]:
    """Every thread of the agent but the one of its event loop hangs, until the agent is gone."""
    pid = machine.main_pid
    enter = ["nsenter", f"--target={machine.pid}", "--pid", "--"]
    held: set[str] = set()
    with ExitStack() as holders:
        # Threads may have been started while others were being held.
        while others := set(machine.run("ls", f"/proc/{pid}/task").split()) - {str(pid)} - held:
            argv = [*enter, sys.executable, "-I", hold.__file__, *others]
            holder = holders.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
            holders.callback(holder.kill)
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            held |= others
        assert held
        yield


def test_a_dead_loop_beside_a_living_server_is_noticed(machine: Machine) -> None:
    machine.drop_in(WATCHDOG)
    machine.run("systemctl", "start", UNIT)
    before = machine.main_pid

    with readers_held(machine):
        # A cycle that was under way may still end.
        cycles = [metric(machine, "cycles_total") for _ in range(2)][-1]
        assert machine.get("/healthz")[0] == 200
        assert metric(machine, "cycles_total") == cycles
        assert machine.main_pid == before, "nobody has noticed yet, and it has answered"

        wait_restarted(machine, before)


def test_a_reload_takes_a_good_configuration_and_no_bad_one(agent: Machine) -> None:
    pid = agent.main_pid
    assert metric(agent, "observe") == 0

    agent.write(CONFIG, QUICK + "mode: observe\n")
    agent.run("systemctl", "reload", UNIT)
    wait_for("the new mode", lambda: metric(agent, "observe") == 1)
    assert metric(agent, "config_last_reload_successful") == 1

    agent.write(CONFIG, QUICK + "mode: enforce\npolicy: {grace: soon}\n")
    agent.run("systemctl", "reload", UNIT)
    wait_for("the refusal", lambda: metric(agent, "config_last_reload_successful") == 0)
    assert metric(agent, "observe") == 1, "the half that could be used was not taken either"
    assert "policy.grace" in agent.log()
    assert agent.show("ActiveState", "NRestarts", "MainPID") == ["active", "0", str(pid)]


def test_a_stop_leaves_the_state_and_nothing_else(agent: Machine) -> None:
    state = agent.path("var/lib/edgeagent/state.json")
    wait_for("the state", state.exists)
    assert agent.path("run/edgeagent/lock").exists()

    agent.run("systemctl", "stop", UNIT)

    assert agent.show("ActiveState", "Result", "ExecMainCode", "ExecMainStatus") == ["inactive", "success", "1", "0"]
    # Else it would have been killed.
    assert "Stopping timed out" not in agent.log()
    # The lock's file stays for those who may hold it; it says nothing of an agent that is gone.
    assert agent.run("ls", "/run/edgeagent") == "lock\n"
    assert agent.path("run/edgeagent/lock").read_bytes() == b""
    agent.run("flock", "--nonblock", "/run/edgeagent/lock", "true")
    assert json.loads(state.read_text())


def test_a_bad_configuration_is_not_tried_again(machine: Machine) -> None:
    machine.write(CONFIG, "policy: {grace: soon}\n")

    machine.run("systemctl", "start", UNIT, check=False)

    # Were it to be tried again, its state would be "activating".
    assert machine.show("ActiveState", "SubState") == ["failed", "failed"]
    assert machine.show("Result", "ExecMainStatus", "NRestarts") == ["exit-code", "2", "0"]
    assert "policy.grace" in machine.log()


def test_after_a_kill_it_runs_again(agent: Machine) -> None:
    before = agent.main_pid

    agent.signal("KILL")

    wait_restarted(agent, before)


def test_a_file_system_that_is_mounted_later_is_seen(agent: Machine) -> None:
    agent.run("mkdir", "-p", "/sys/kernel/debug/late")
    agent.run("mount", "-t", "tmpfs", "tmpfs", "/sys/kernel/debug/late")
    try:
        agent.write("sys/kernel/debug/late/clients", "")
        assert agent.run("ls", f"/proc/{agent.main_pid}/root/sys/kernel/debug/late") == "clients\n"
    finally:
        agent.run("umount", "--lazy", "/sys/kernel/debug/late")


# --- beside the pod of a DaemonSet ------------------------------------------------------

BESIDE = "--bind=127.0.0.1:9844"
"""Their ports must not be what keeps them apart."""


def run_pod(machine: Machine, *properties: str) -> subprocess.CompletedProcess[str]:
    """Start an agent as the manifest does: root with four capabilities, and a lock and state of the host's."""
    container = [
        f"CapabilityBoundingSet={section('Service')['CapabilityBoundingSet']}",
        "NoNewPrivileges=yes",
        *properties,
    ]
    options = [f"--property={line}" for line in container]
    return machine.tried("systemd-run", "--unit=pod", "--collect", *options, "--", PROGRAM, "run", BESIDE)


@pytest.fixture
def pod(machine: Machine) -> Iterator[Machine]:
    """The machine with a pod's agent that has said READY, where the service never was."""
    machine.run("rm", "-rf", "/run/edgeagent", "/var/lib/edgeagent")
    started = run_pod(machine, "Type=notify")
    assert started.returncode == 0, started.stderr
    yield machine
    machine.run("systemctl", "stop", "pod", check=False)


def test_a_service_beside_a_pod_waits_until_the_pod_ends(pod: Machine) -> None:
    pid = pod.run("systemctl", "show", "--property=MainPID", "--value", "pod").strip()
    address = pod.path("run/edgeagent/address").read_text()

    pod.run("systemctl", "start", UNIT, check=False)
    wait_for("a third attempt", lambda: int(pod.show("NRestarts")[0]) >= 2)

    assert pod.show("ExecMainStatus", "ActiveState") != ["0", "active"]
    assert f"another instance (pid {pid}) runs" in pod.log()
    assert "listening on" not in pod.log()
    assert address == "127.0.0.1:9844\n"
    assert pod.path("run/edgeagent/address").read_text() == address
    pod.run("systemctl", "stop", UNIT)
    pod.run("systemctl", "start", UNIT, check=False)
    wait_for("another attempt", lambda: int(pod.show("NRestarts")[0]) >= 1)
    assert "listening on" not in pod.log()

    pod.run("systemctl", "stop", "pod")
    wait_for("the service", lambda: pod.show("ActiveState") == ["active"])
    assert pod.get("/healthz")[0] == 200


def test_a_pod_beside_the_service_is_refused_and_may_run_when_it_has_ended(agent: Machine) -> None:
    pid = agent.main_pid

    agent.run("systemctl", "reset-failed", "pod", check=False)
    refused = run_pod(agent, "Type=exec", "StandardError=truncate:/run/said")
    assert refused.returncode == 0, refused.stderr
    said = agent.path("run/said")
    wait_for("a sentence", lambda: said.exists() and said.read_text())

    assert said.read_text() == (
        f"edgeagent: another instance (pid {pid}) runs with the runtime directory /run/edgeagent\n"
    )
    wait_for("its end", lambda: "status=75" in agent.run("journalctl", "--output=cat", "--unit=pod"))
    assert agent.get("/healthz")[0] == 200

    # The lock is still the file of the service's user.
    agent.run("systemctl", "stop", UNIT)
    started = run_pod(agent, "Type=notify")
    assert started.returncode == 0, started.stderr
    try:
        agent.run("systemctl", "start", UNIT, check=False)
        wait_for("an attempt", lambda: int(agent.show("NRestarts")[0]) >= 1)
        # The pod cannot write its pid there, and the one that was there is gone.
        assert "another instance runs with" in agent.log()
    finally:
        agent.run("systemctl", "stop", "pod")


# --- with K3s' own credential ----------------------------------------------------------


@contextmanager
def api_server(machine: Machine) -> Iterator[ScriptedServer]:
    """In the machine's network, refusing everything."""
    started: list[tuple[ScriptedServer, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with serving(refuses(403, "no")) as server:
            end = asyncio.Event()
            started.append((server, asyncio.get_running_loop(), end))
            await end.wait()

    thread = threading.Thread(target=lambda: machine.inside(lambda: asyncio.run(serve())))
    thread.start()
    server, loop, end = wait_for("the server", lambda: started[0] if started else None)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def test_it_uses_the_credential_that_only_root_may_read(machine: Machine, tmp_path: Path) -> None:
    with api_server(machine) as server:
        credential = write_kubeconfig(tmp_path / "kubeconfig", server.url, token="kubelet-s").read_text()
        machine.write("var/lib/rancher/k3s/agent/kubelet.kubeconfig", credential, mode=0o600)
        machine.path("var/lib/rancher").chmod(0o700)
        try:
            machine.write(CONFIG, QUICK + "node: {name: edge-1}\n")
            machine.run("systemctl", "start", UNIT)
            wait_for("a request", lambda: bool(server.requests))
        finally:
            machine.run("rm", "-r", "/var/lib/rancher")
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer kubelet-s"}


# --- the sandbox -----------------------------------------------------------------------

SECRETS = {
    "sys/kernel/debug/nvmap/iovmm/clients": 0o400,
    "etc/rancher/k3s/config.yaml": 0o600,
    "srv/root/kubelet.kubeconfig": 0o600,
}
"""Files of root's; the agent has to read such. The last one is in a folder of root's alone."""
OPEN = ("etc", "opt", "run", "srv", "usr/src", "var", "var/lib", "sys/kernel/debug")
"""Folders in each of which anybody may write into ``open``."""
THEIRS = "/tmp/theirs"  # noqa: S108 (a name in the machine)
CGROUP = "/sys/fs/cgroup/open/cgroup.max.depth"
"""A file that anybody may write."""


def disk() -> tuple[int, int]:
    """Major and minor number of a block device that root may open here, one with a size if there is any."""
    found = sorted(Path("/sys/class/block").iterdir(), key=lambda path: int((path / "size").read_text()) == 0)
    opened = (path for path in found if not reach.tried(reach.ACTIONS["open"], f"/dev/{path.name}"))
    device = next(opened, None)
    if device is None:
        pytest.fail("no block device may be opened here: the tests need one in /dev, and a cgroup that allows it")
    major, _, minor = (device / "dev").read_text().strip().partition(":")
    return int(major), int(minor)


def add_address(address: str) -> None:
    """To the loopback device, of the network that the calling thread is in."""
    request = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFADDR, request)


@pytest.fixture
def furnished(machine: Machine) -> Machine:
    for name, mode in SECRETS.items():
        machine.write(name, "secret\n", mode=mode)
    machine.path("srv/root").chmod(0o700)
    for name in OPEN:
        folder = machine.path(name) / "open"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    machine.run("sh", "-c", f"mkdir -p {Path(CGROUP).parent} && chmod 666 {CGROUP}")
    major, minor = disk()
    machine.run("sh", "-c", f"cd /dev && rm -f disk gpu && mknod -m 600 disk b {major} {minor} && mknod gpu c 195 0")
    machine.inside(lambda: add_address(ELSEWHERE))
    machine.write("opt/reach.py", Path(reach.__file__).read_text())
    machine.write(THEIRS[1:], "")
    return machine


@contextmanager
def other_user(machine: Machine) -> Iterator[int]:
    """The pid, in the machine, of a process of nobody's."""
    machine.run("systemd-run", "--unit=other", "--property=User=nobody", "sleep", "infinity")
    try:
        yield int(machine.run("systemctl", "show", "--property=MainPID", "--value", "other"))
    finally:
        machine.run("systemctl", "stop", "other")


@contextmanager
def listeners(machine: Machine) -> Iterator[list[tuple[str, int]]]:
    """Addresses in the machine's network at which somebody listens: its loopback and another one."""
    opened = [machine.inside(partial(socket.create_server, (host, 0))) for host in ("127.0.0.1", ELSEWHERE)]
    try:
        yield [one.getsockname() for one in opened]
    finally:
        for one in opened:
            one.close()


def outside(machine: Machine, asked: dict[str, list[Any]], caps: str) -> dict[str, str]:
    """What goes wrong when the unit's user tries it without the sandbox."""
    command = f"{PROBE} '{json.dumps(asked)}'"
    user = "setpriv --reuid=edgeagent --regid=edgeagent --init-groups"
    prefix = f"{user} --inh-caps={caps} --ambient-caps={caps} --"
    return failed(machine.run("sh", "-c", f"exec {prefix} {command}"))


def in_the_unit(machine: Machine, command: str) -> str:
    """What a command prints in the place of the agent, with all the rest of the unit as it is."""
    start = f"ExecStart=\nExecStart={command}\n"
    machine.drop_in(f"Type=oneshot\nRestart=no\n{start}StandardOutput=truncate:/run/found\n")
    machine.run("systemctl", "start", UNIT)
    return machine.path("run/found").read_text()


def boxed(machine: Machine, asked: dict[str, list[Any]]) -> dict[str, str]:
    """What goes wrong when the unit tries it."""
    return failed(in_the_unit(machine, f"{PROBE} '{json.dumps(asked)}'"))


def failed(printed: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(printed)
    return {what: error for what, error in found.items() if error}


def test_what_the_sandbox_lets_through(furnished: Machine) -> None:
    """The same is tried by the unit's user without rights, then with its capabilities, then by the unit itself.

    So what the unit is refused it is refused by its sandbox, and by nothing else. The exception is /proc/sys, which is
    read-only in this machine; the unit sees a procfs of its own, where its sandbox alone decides.
    """
    kept = ",".join(f"+{name.removeprefix('cap_')}" for name in capabilities())
    own = ["/var/lib/edgeagent", "/run/edgeagent", "/tmp", "/var/tmp"]  # noqa: S108 (private ones)
    with other_user(furnished) as pid, listeners(furnished) as (loopback, elsewhere):
        secrets = {
            "read": [f"/{name}" for name in SECRETS],
            "list": [f"/proc/{pid}/fd"],
            "follow": [f"/proc/{pid}/fd/0"],
        }
        asked: dict[str, list[Any]] = {
            **secrets,
            "write": [*(f"/{name}/open" for name in OPEN), CGROUP],
            "open": ["/dev/disk", "/dev/null"],
            "connect": [loopback, elsewhere],
        }
        powerless = outside(furnished, asked, "-all")
        free = outside(furnished, asked, kept)
        more = {"read": [*asked["read"], THEIRS], "write": [*asked["write"], *own], "change": ["/proc/sys", "/sys"]}
        inside = boxed(furnished, {**asked, **more})

    of_root = [f"{verb} {path}" for verb, paths in secrets.items() for path in paths]
    assert powerless == dict.fromkeys([*of_root, "open /dev/disk"], "EACCES")
    assert free == {}
    assert inside == {
        **{f"write {path}": "EROFS" for path in asked["write"]},
        "change /proc/sys": "EROFS",
        "change /sys": "EROFS",
        f"read {THEIRS}": "ENOENT",
        "open /dev/disk": "EPERM",
        f"connect {list(elsewhere)}": "ETIMEDOUT",  # the filter drops what is sent
    }
    assert not furnished.path("tmp/new").exists()


def test_the_driver_s_devices_are_open(furnished: Machine) -> None:
    """195 is NVIDIA's number. Where the driver is not loaded the kernel finds nothing there, which is no refusal."""
    asked: dict[str, list[Any]] = {"open": ["/dev/gpu"]}
    found = boxed(furnished, asked)
    assert found == outside(furnished, asked, "-all")
    assert "EPERM" not in found.values()


def test_what_a_process_of_the_unit_may_do(machine: Machine) -> None:
    # It tries to write two folders above its own, which are none of the unit's.
    machine.write("opt/a/b/probe.py", Path(__file__).with_name("probe.py").read_text())
    with other_user(machine) as pid:
        found = json.loads(in_the_unit(machine, f"/opt/edgeagent/bin/python3 /opt/a/b/probe.py {pid}"))

    assert found == {**ALLOWED, "capabilities": capabilities()}
