"""What a board is known by: looked up so that it can be taken out of a snapshot. None of it is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from edgeagent.host.files import names
from edgeagent.snapshot.record.redact import Identity

if TYPE_CHECKING:
    from edgeagent.host.files import Files

_HOST_NAMES = ("etc/hostname", "proc/sys/kernel/hostname")
_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
_SERIALS = (
    "proc/device-tree/serial-number",
    "sys/class/dmi/id/product_serial",
    "sys/class/dmi/id/board_serial",
    "sys/class/dmi/id/chassis_serial",
)
_UUIDS = ("proc/sys/kernel/random/boot_id", "sys/class/dmi/id/product_uuid")
_ACCOUNT = 3
"""Fields of a row of passwd(5) up to the user's number."""
_PEOPLE = range(1000, 60000)
"""User numbers of people (login.defs(5), UID_MIN to UID_MAX); the others are the system's own."""


def identity(
    files: Files,
    *,
    hosts: Iterable[str | None],
    users: Iterable[str | None],
    serials: Iterable[str | None],
    gpus: Iterable[str],
    uuids: Iterable[str | None],
) -> Identity:
    """What this board is known by: what is given, of the hosts the node's name first, and what its own files say."""
    known = [*hosts, *(_line(files, path) for path in _HOST_NAMES)]
    return Identity(
        hosts=tuple(dict.fromkeys(name for name in known if name)),
        users=tuple(filter(None, [*users, *_accounts(files), *names(files, "home")])),
        serials=tuple(filter(None, [*serials, *(_line(files, path) for path in (*_IDS, *_SERIALS))])),
        gpus=tuple(gpus),
        uuids=tuple(filter(None, [*uuids, *(_line(files, path) for path in _UUIDS)])),
    )


def _accounts(files: Files) -> Iterator[str]:
    for row in _text(files, "etc/passwd").splitlines():
        fields = row.split(":")
        if len(fields) > _ACCOUNT and fields[2].isdecimal() and int(fields[2]) in _PEOPLE:
            yield fields[0]


def _line(files: Files, path: str) -> str:
    return _text(files, path).partition("\n")[0].strip("\0 \t\r")


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode(errors="replace")
    except OSError:
        return ""
