"""What a process may do: printed as JSON by a process in the sandbox. The argument is a pid of another user."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from edgeagent.system import shield

LIBC = ctypes.CDLL(None, use_errno=True)
OTHER = int(sys.argv[1])
CAPABILITIES = {
    1: "cap_dac_override",
    2: "cap_dac_read_search",
    5: "cap_kill",
    14: "cap_ipc_lock",
    19: "cap_sys_ptrace",
}
_PTRACE_SEIZE = 0x4206
_CLONE_NEWNET = 0x40000000


def works(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def call(name: str, *arguments: object) -> None:
    """A function of the C library that answers -1 for an error.

    Raises:
        OSError: it did.
    """
    if getattr(LIBC, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def capabilities() -> list[str]:
    rows = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    held = int(rows["CapEff"], 16)
    return sorted(CAPABILITIES.get(bit, f"capability {bit}") for bit in range(64) if held >> bit & 1)


def pidfd_signal() -> None:
    descriptor = os.pidfd_open(OTHER)
    signal.pidfd_send_signal(descriptor, 0)  # asks whether a signal could be sent
    os.close(descriptor)


sys.stdout.write(
    json.dumps(
        {
            "capabilities": capabilities(),
            "memory is locked": shield.lock_memory() == "",
            "files of other users' processes": works(lambda: Path(f"/proc/{OTHER}/fd/0").readlink()),
            "signals to other users": works(pidfd_signal),
            "writable code": works(lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)),
            "writing outside its folders": works(lambda: Path(__file__).parents[2].joinpath("x").touch()),
            "changing priorities": works(lambda: os.setpriority(os.PRIO_PROCESS, 0, 5)),
            "tracing a process": works(lambda: call("ptrace", _PTRACE_SEIZE, OTHER, 0, 0)),
            "mounting": works(lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None)),
            "a new namespace": works(lambda: call("unshare", _CLONE_NEWNET)),
        }
    )
)
