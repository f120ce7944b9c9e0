"""What a process can reach: prints, as JSON, for each thing that it tries the name of the error, "" for none.

The first argument is a JSON object with lists of paths to ``read``, ``list``, ``follow``, ``open`` (a device, for
reading), ``write`` (a folder to make a file in, or a file) or ``change`` (on a file system that is mounted for writing;
whether this process may write this file is not asked), and of [host, port] to ``connect`` to.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def tried(action: Callable[[Any], object], on: Any) -> str:
    try:
        action(on)
    except TimeoutError:
        return "ETIMEDOUT"  # without an errno where it was Python that gave up
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def write(path: str) -> None:
    place = Path(path)
    os.close(os.open(place / "new" if place.is_dir() else place, os.O_WRONLY | os.O_CREAT))


def change(path: str) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, path)


def connect(address: list[Any]) -> None:
    socket.create_connection((address[0], address[1]), timeout=3).close()


ACTIONS: dict[str, Callable[[Any], object]] = {
    "read": lambda path: Path(path).read_bytes(),
    "list": os.listdir,
    "follow": os.readlink,
    "open": lambda path: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)),
    "write": write,
    "change": change,
    "connect": connect,
}

if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    found = {f"{verb} {on}": tried(ACTIONS[verb], on) for verb, many in asked.items() for on in many}
    sys.stdout.write(json.dumps(found))
