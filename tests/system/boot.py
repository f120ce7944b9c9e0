"""Starts a real systemd as the first process of a machine of its own: the part that runs outside the tests' process.

``boot.py keep FOLDER`` makes a cgroup, starts the machine in it, prints the machine's first pid, and, when its stdin
ends for whatever reason, kills all that lives in the cgroup and removes it. ``boot.py init FOLDER`` is that first
process: it builds the machine's root in memory and becomes systemd.

The root is what a container manager would give (systemd, "The Container Interface"): /usr of this machine, read-only;
/proc/sys and /sys read-only, so that nothing of the real kernel is changed; a /dev with the harmless devices.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

import edgeagent
from tests.cluster.reaper import reap
from tests.system.unit import FOLDER

MODULE = "tests.system.boot"
NAMESPACES = ("--pid", "--fork", "--cgroup", "--ipc", "--uts", "--net", "--mount", "--propagation", "private")
_HERE = "/opt/edgeagent"
_PYTHON = "/opt/python"
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_WANTED = frozenset({"systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"})
"""All that is started besides the tests' own units."""
_UNITS = Path("/usr/lib/systemd/system")
_GENERATORS = Path("/usr/lib/systemd/system-generators")


def keep(folder: Path) -> None:
    """Run the machine until stdin ends; in a mount namespace of its own."""
    hierarchy = folder / "cgroup"
    hierarchy.mkdir()
    mount("-t", "cgroup2", "cgroup2", hierarchy)
    cgroup = hierarchy / f"edgeagent-machine-{os.getpid()}"
    cgroup.mkdir()
    try:
        # A cgroup namespace has the cgroup for its root in which the process stands at that moment.
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(cgroup / "cgroup.procs")]
        init = ["unshare", *NAMESPACES, "--", sys.executable, "-m", MODULE, "init", str(folder)]
        with (folder / "boot.log").open("w") as log:
            starter = subprocess.Popen([*enter, *init], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not (children := psutil.Process(starter.pid).children()) and starter.poll() is None:
            time.sleep(0.01)
        print(children[0].pid if children else "", flush=True)  # noqa: T201 (the answer to who started it)
        sys.stdin.read()
        for process in children:
            process.kill()  # and with the first process of a pid namespace all others
        starter.wait()
    finally:
        if left := reap([cgroup]):
            sys.exit(f"not removed: {left}")


def init(folder: Path) -> None:
    """Build the root and become systemd."""
    root = folder / "root"
    root.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for name in ("dev", "etc", "home", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var/lib", "var/log", "old"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(0o1777)
    (root / "var/run").symlink_to("/run")
    _usr(root)
    _kernel(root)
    _devices(root / "dev")
    _etc(root / "etc")
    _program(root)
    _service(root)
    _become(root)


def _usr(root: Path) -> None:
    _show(Path("/usr"), root / "usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        host = Path("/", name)
        if host.is_symlink():
            (root / name).symlink_to(host.readlink())
        elif host.is_dir():
            _show(host, root / name)


def _kernel(root: Path) -> None:
    mount("-t", "proc", "proc", root / "proc")
    mount("--bind", root / "proc/sys", root / "proc/sys")
    mount("-o", "remount,bind,ro", root / "proc/sys")
    mount("-t", "sysfs", "-o", "ro", "sysfs", root / "sys")
    mount("-t", "cgroup2", "cgroup2", root / "sys/fs/cgroup")
    # For files that a test wants to see there.
    for name in ("sys/kernel/debug", "usr/src"):
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / name)


def _devices(dev: Path) -> None:
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", dev)
    os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(0o022)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=666", "devpts", dev / "pts")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", dev / "shm")
    (dev / "ptmx").symlink_to("pts/ptmx")
    (dev / "fd").symlink_to("/proc/self/fd")


def _etc(etc: Path) -> None:
    """As much as systemd asks for. Every unit that the distribution would start by itself is masked."""
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (etc / "hostname").write_text("machine\n")
    (etc / "os-release").write_text("ID=machine\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\n")
    (etc / "passwd").write_text("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n")
    (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for path in _UNITS.glob("*.target.wants/*"):
        if path.name not in _WANTED:
            _mask(etc / "systemd/system" / path.name)
    for path in _GENERATORS.glob("*"):
        _mask(etc / "systemd/system-generators" / path.name)


def _mask(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to("/dev/null")


def _program(root: Path) -> None:
    """/opt/edgeagent as the how-to makes it: a virtual environment with the package and what it depends on."""
    base = Path(sys.base_prefix)
    if not base.is_relative_to("/usr"):
        # The interpreter may stand in a home directory, which the unit does not see.
        _show(base, root / _PYTHON[1:])
        (root / "etc/ld.so.conf").write_text(f"{_PYTHON}/lib\n")
        base = Path(_PYTHON)
    subprocess.run(["ldconfig", "-r", root], check=True)
    home = root / _HERE[1:]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = home / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "pyvenv.cfg").write_text(f"home = {base}/bin\ninclude-system-site-packages = false\n")
    (home / "bin/python3").symlink_to(base / "bin" / version)
    _show(Path(psutil.__file__).parents[1], home / "packages")
    _show(Path(edgeagent.__file__).parent, home / "own/edgeagent")
    (site / "edgeagent.pth").write_text(f"{_HERE}/own\n{_HERE}/packages\n")
    program = home / "bin/edgeagent"
    program.write_text(f"#!{_HERE}/bin/python3\nimport sys\nfrom edgeagent.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)


def _service(root: Path) -> None:
    for name, place in (
        ("edgeagent.sysusers.conf", "etc/sysusers.d/edgeagent.conf"),
        ("edgeagent.tmpfiles.conf", "etc/tmpfiles.d/edgeagent.conf"),
        ("edgeagent.service", "etc/systemd/system/edgeagent.service"),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / name, root / place)


def _become(root: Path) -> None:
    subprocess.run(["pivot_root", root, root / "old"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/old"], check=True)
    Path("/old").rmdir()
    # As on a real machine, so that a later mount arrives in the sandbox of a service.
    mount("--make-rshared", "/")
    environment = {"container": "edgeagent-tests", "PATH": os.defpath, "LANG": "C.UTF-8"}
    os.execve("/usr/lib/systemd/systemd", ["systemd", "--system", "--unit=multi-user.target"], environment)  # noqa: S606


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def _show(source: Path, target: Path) -> None:
    """A folder of this machine, read-only."""
    target.mkdir(parents=True, exist_ok=True)
    mount("--bind", source, target)
    mount("-o", "remount,bind,ro", target)


if __name__ == "__main__":
    {"keep": keep, "init": init}[sys.argv[1]](Path(sys.argv[2]))
