"""openat2(2): the kernel walks a path inside a root, links included, in one step. Linux 5.6 and later have it."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_NUMBER = 437
"""include/uapi/asm-generic/unistd.h; the same on x86-64."""
_RESOLVE_IN_ROOT = 0x10
"""include/uapi/linux/openat2.h"""
_HOW = struct.Struct("QQQ")
"""``struct open_how`` of the same file: flags, mode, resolve."""

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def inside(root: int, path: str, flags: int) -> int | None:
    """A descriptor of what ``path`` names below the directory ``root``.

    None where the kernel does not tell: it is older, may not be asked, or refuses the path. To go there step by step
    shows what is there, or what is wrong.

    Raises:
        FileNotFoundError: nothing is there.
    """
    try:
        encoded = os.fsencode(path or ".")
    except UnicodeEncodeError:
        return None
    if b"\0" in encoded:
        return None
    descriptor: int = _syscall(_NUMBER, root, encoded, _HOW.pack(flags, 0, _RESOLVE_IN_ROOT), _HOW.size)
    if descriptor >= 0:
        return descriptor
    if ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return None
