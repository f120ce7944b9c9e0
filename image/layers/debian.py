"""The lowest layer: Debian's C library and Python, without a shell, without a package manager, with its bytecode."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from layers.lock import Deb, Lock
from layers.places import CACHE, Machine

_APT_HELPER = "/usr/lib/apt/apt-helper"
_DPKG_DEB = "/usr/bin/dpkg-deb"

LEFT_OUT = (
    # programs: the interpreter is the only one
    *("usr/bin/[!p]*", "usr/bin/pldd", "usr/sbin/*"),
    # for people and for package managers; the licences stay
    *("usr/share/man", "usr/share/info", "usr/share/lintian", "usr/share/binfmts", "usr/share/base-files"),
    *("usr/share/gcc", "usr/share/gdb"),
    *("usr/share/doc/*/[!c]*", "usr/share/doc/*/changelog*", "usr/share/libc-bin", "usr/share/dict"),
    *("etc/dpkg", "etc/issue*", "etc/skel", "etc/profile.d", "etc/update-motd.d", "etc/ca-certificates", "etc/default"),
    *("usr/share/ca-certificates", "usr/src", "usr/games", "usr/include", "var/backups", "var/cache/*"),
    # character sets that only iconv(3) reads: Python has its own
    "usr/lib/*/gconv",
    # modules whose libraries are not here
    *("usr/lib/python3.*/lib-dynload/_curses*", "usr/lib/python3.*/lib-dynload/readline*", "usr/lib/python3.*/curses"),
    *("usr/lib/python3.*/lib-dynload/_dbm*", "usr/lib/python3.*/lib-dynload/_sqlite3*", "usr/lib/python3.*/sqlite3"),
    # a hook for crash reports to Ubuntu
    *("usr/lib/python3.*/sitecustom*", "etc/python3.*"),
    # Python's tests and what is for interactive use
    *("usr/lib/python3.*/test", "usr/lib/python3.*/lib-dynload/*test*", "usr/lib/python3.*/lib-dynload/xx*"),
    *("usr/lib/python3.*/pydoc_data", "usr/lib/python3.*/_pyrepl", "usr/lib/python3.*/turtle.py"),
)
"""Paths of the packages that the image does without."""

_TEGRA_LIBRARIES = """\
# Where NVIDIA's container runtime puts the driver's libraries of a Jetson; it runs ldconfig when it has done so.
/usr/lib/aarch64-linux-gnu/nvidia
/usr/lib/aarch64-linux-gnu/tegra
"""


def tree(machine: Machine, lock: Lock, root: Path) -> None:
    """Make ``root`` the lowest layer for a machine, still without bytecode.

    Raises:
        RuntimeError: a package cannot be had, or is not the pinned one.
    """
    root.mkdir(parents=True)
    certificates = root / "usr/share/ca-certificates"
    for deb in (deb for deb in lock.debs if deb.arch == machine.arch):
        _unpack(_fetch(lock, deb), root)
    _write(root / "etc/ssl/certs/ca-certificates.crt", _bundle(certificates))
    (root / "usr/lib/ssl").mkdir(exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    _write(root / "etc/nsswitch.conf", (root / "usr/share/libc-bin/nsswitch.conf").read_text())
    _write(root / "etc/passwd", "root:x:0:0:root:/root:/nonexistent\n")
    _write(root / "etc/group", "root:x:0:\n")
    if machine.arch == "arm64":
        _write(root / "etc/ld.so.conf.d/tegra.conf", _TEGRA_LIBRARIES)
    for path in (path for pattern in LEFT_OUT for path in root.glob(pattern)):
        _remove(path)


def _fetch(lock: Lock, deb: Deb) -> Path:
    """The package's file in the cache."""
    file = CACHE / "debs" / unquote(Path(deb.path).name)
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == deb.sha256:
        return file
    fresh = file.with_name(f".{os.getpid()}-{file.name}")  # another build may be looking
    said = ""
    for url in lock.urls(deb):
        # apt's own downloader: it knows the machine's proxies, and refuses a file with another hash.
        command = [_APT_HELPER, "download-file", url, str(fresh), f"SHA256:{deb.sha256}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return fresh.replace(file)
        said += done.stderr
    raise RuntimeError(f"{deb.path} cannot be had; image/pin chooses newer versions\n{said}")


def _unpack(file: Path, root: Path) -> None:
    with subprocess.Popen([_DPKG_DEB, "--fsys-tarfile", file], stdout=subprocess.PIPE) as archive:
        subprocess.run(
            ["/usr/bin/tar", "--extract", "--no-same-owner", "--directory", root], stdin=archive.stdout, check=True
        )
    if archive.returncode:
        raise RuntimeError(f"{file} cannot be unpacked")
    # Where scanners for vulnerable packages look in an image that has no package manager.
    control = subprocess.run([_DPKG_DEB, "--field", file], check=True, capture_output=True, text=True).stdout
    _write(root / "var/lib/dpkg/status.d" / file.name.partition("_")[0], control)


def _bundle(certificates: Path) -> str:
    """What update-ca-certificates makes of them."""
    texts: Iterator[str] = (file.read_text() for file in sorted(certificates.glob("*/*.crt")))
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
