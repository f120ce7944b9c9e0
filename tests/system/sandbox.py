"""Runs a command inside the unit's sandbox, as far as that goes without systemd as the first process.

Taken from the unit file: capabilities, system calls, MemoryDenyWriteExecute, NoNewPrivileges, the read-only tree,
the hidden process table, umask. Not imitated: device and network filters, the user's name.

Used in two steps. As root in a mount namespace of its own, ``sandbox.py enter WRITABLE... -- COMMAND...`` makes the
tree read-only but for the folders WRITABLE and drops to nobody with the four capabilities; then, as ``sandbox.py
seal``, the process gives up what it may do and becomes the command.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

from tests.system.unit import section

MODULE = "tests.system.sandbox"
NOBODY = "65534"
_MASKED_EQ = 7  # SCMP_CMP_MASKED_EQ
_ALLOW = 0x7FFF0000  # SCMP_ACT_ALLOW
_EPERM = 0x00050001  # SCMP_ACT_ERRNO(EPERM)


def prefix(writable: list[Path]) -> list[str]:
    """What to put before a command, as root."""
    enter = [sys.executable, "-m", MODULE, "enter", *map(str, writable), "--"]
    return ["unshare", "--mount", "--propagation", "slave", "--", *enter]


def _enter(writable: list[str], command: list[str]) -> None:
    service = section("Service")
    for folder in writable:
        _mount("--bind", folder, folder)
    _mount("-o", "remount,bind,ro", "/")
    _mount("-t", "proc", "-o", f"hidepid={service['ProtectProc']}", "proc", "/proc")
    capabilities = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in service["AmbientCapabilities"].split())
    sets = [f"--{kind}=-all,{capabilities}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    os.umask(int(service["UMask"], 8))
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *sets, "--no-new-privs"]
    allowed = json.dumps(_calls(service["SystemCallFilter"]))
    os.execvp(drop[0], [*drop, sys.executable, "-m", MODULE, "seal", allowed, *command])  # noqa: S606


def _mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def _calls(filters: str) -> list[str]:
    """The system calls that a list of filters leaves, one filter per line, each after the first taking away."""
    allowed: set[str] = set()
    for line in filters.splitlines():
        names = set(_expand(line.removeprefix("~").split()))
        allowed = allowed - names if line.startswith("~") else allowed | names
    return sorted(allowed)


def _expand(names: list[str]) -> list[str]:
    found = []
    for name in names:
        if not name.startswith("@"):
            found.append(name)
            continue
        listed = subprocess.run(
            ["systemd-analyze", "syscall-filter", "--no-pager", name], check=True, capture_output=True, text=True
        )
        rows = [row.strip() for row in listed.stdout.splitlines()[1:]]
        found += _expand([row for row in rows if row and not row.startswith("#")])
    return found


class _Condition(ctypes.Structure):
    """``struct scmp_arg_cmp``: argument number, comparison, mask, value."""

    _fields_ = (  # type: ignore[mutable-override]  # ctypes reads it once
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


# What MemoryDenyWriteExecute means: each call is allowed if the argument has none of the bits of one of the masks.
_PROTECTION = 2
_NOT_BOTH = {
    "mmap": (mmap.PROT_WRITE, mmap.PROT_EXEC),
    "mprotect": (mmap.PROT_EXEC,),
    "pkey_mprotect": (mmap.PROT_EXEC,),
    "shmat": (0o100000,),  # SHM_EXEC
}


def _seal(allowed: list[str], command: list[str]) -> None:
    """Give up all but the allowed system calls, and of those what would make writable memory executable.

    Raises:
        OSError: the filter is not taken.
    """
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(_EPERM))
    for name in allowed:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            continue  # a call of another architecture
        masks = _NOT_BOTH.get(name, ())
        for mask in masks:
            condition = _Condition(_PROTECTION, _MASKED_EQ, mask, 0)
            seccomp.seccomp_rule_add_array(context, _ALLOW, number, 1, ctypes.byref(condition))
        if not masks:
            seccomp.seccomp_rule_add_array(context, _ALLOW, number, 0, None)
    if (code := seccomp.seccomp_load(context)) != 0:
        raise OSError(-code, "seccomp_load")
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    if sys.argv[1] == "enter":
        at = sys.argv.index("--")
        _enter(sys.argv[2:at], sys.argv[at + 1 :])
    else:
        _seal(json.loads(sys.argv[2]), sys.argv[3:])
