"""What a snapshot keeps of each file: of the kernel's nearly all, of people's only the settings that are read.

A file of a kind that is not known keeps none of its content: configuration holds tokens
and passwords, and a new reader must not carry them out unnoticed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgeagent.host import nvmap, powermode
from edgeagent.snapshot.record import diagnosed, k3s_settings, runtimes

if TYPE_CHECKING:
    from edgeagent.snapshot.record.redact import Redactor

_KERNEL = ("proc/", "sys/", "dev/")
_CGROUPS = "sys/fs/cgroup/"
_AS_THEY_ARE = (
    "proc/meminfo",
    "proc/device-tree/compatible",
    "proc/device-tree/model",
    "sys/class/dmi/id/product_name",
)
"""What a board is told by. Only its maker names anything here."""
_TELLING = ("k3s", "libnvidia-ml.so")
_VERSIONS = ("proc/sys/kernel/osrelease", "proc/driver/nvidia/version", "etc/nv_tegra_release")
_MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
_NODE_ID = "etc/rancher/node/id"
_GPU_LINK = re.compile(r"/dev/nv[\w./-]*(?: \(deleted\))?")
_STATUS_ROWS = ("Name:", "State:", "VmSize:", "RssAnon:", "RssShmem:")
_RECORD, _PROCESS = 59, slice(19, 37)
"""nvmap's table: bytes of a record, and where in it the name of the process stands."""


def listed(path: str) -> bool:
    """Whether the name alone of a file says something: the kernel's do, and few of others."""
    return path.startswith(_KERNEL) or path.rpartition("/")[2].startswith(_TELLING)


def path(redactor: Redactor, path: str) -> str:
    """Where a file stands in the snapshot. The kernel's own names are kept; cgroups are named by people."""
    if path.startswith(_CGROUPS):
        return _CGROUPS + redactor.text(path.removeprefix(_CGROUPS))
    return path if path.startswith(_KERNEL) else redactor.text(path)


def link(redactor: Redactor, path: str, target: str) -> str | None:
    """What is kept of a link; None for a file that a process has open: it is nobody's affair, a GPU's node excepted."""
    if re.fullmatch(r"proc/\d+/fd/\d+", path):
        if "/dev/nv" not in target:
            return None
        return target if _GPU_LINK.fullmatch(target) else redactor.text(target)
    return target if path.startswith(_KERNEL) else redactor.names(target)


def content(redactor: Redactor, path: str, found: bytes) -> bytes:
    """What is kept of a file's content; nothing of an empty one, which stands for a file that was not read."""
    process = re.match(r"proc/\d+/(.+)", path)
    if not found or path in _AS_THEY_ARE:
        return found
    if path == nvmap.PATH:
        return _nvmap(redactor, found)
    text = found.decode(errors="surrogateescape")
    if process:
        kept = _of_process(redactor, process[1], text)
    elif path in _VERSIONS:
        # Behind the version, in brackets, stands who built the module and on which machine.
        kept = redactor.names(re.sub(r"\([^()]*@[^()]*\)", "", text.partition("\n")[0])) + "\n"
    elif path in _MACHINE_IDS:
        kept = redactor.serial(text.strip()) + "\n"
    elif path in (powermode.STATUS, powermode.CONFIG):
        kept = "".join(f"{line}\n" for line in powermode.told(text))
    elif path == _NODE_ID:
        kept = "00000000\n"
    elif path.startswith(_KERNEL):
        kept = redactor.text(text)
    else:
        kept = _settings(redactor, path, text)
    return kept.encode(errors="surrogateescape")


def _settings(redactor: Redactor, path: str, text: str) -> str:
    special = diagnosed.known(path)
    if special:
        return special(redactor, text)
    if path.endswith(".service") or ".service.d/" in path:
        return k3s_settings.unit(redactor, text)
    if path.endswith(".toml"):
        return runtimes.toml(redactor, text)
    return (
        k3s_settings.mapping(redactor, text)
        or k3s_settings.environment(redactor, text)
        or runtimes.toml(redactor, text)
    )


def _of_process(redactor: Redactor, name: str, text: str) -> str:
    if name == "stat":
        head, closed, rest = text.rpartition(")")
        pid, opened, comm = head.partition("(")
        return f"{pid}{opened}{redactor.comm(comm)}{closed}{rest}"
    if name == "comm":
        return redactor.comm(text.removesuffix("\n")) + "\n"
    if name == "status":
        rows = [row for row in text.split("\n") if row.startswith(_STATUS_ROWS)]
        return "".join(f"{_named(redactor, row)}\n" for row in rows)
    if name == "statm":
        return text
    if name == "cgroup":
        return "\n".join(_cgroup(redactor, row) for row in text.split("\n"))
    return ""


def _named(redactor: Redactor, row: str) -> str:
    key, tab, comm = row.partition("\t")
    return f"{key}{tab}{redactor.comm(comm)}" if key == "Name:" else row


def _cgroup(redactor: Redactor, row: str) -> str:
    hierarchy, first, rest = row.partition(":")
    controllers, second, below = rest.partition(":")
    return f"{hierarchy}{first}{controllers}{second}{redactor.text(below)}"


def _nvmap(redactor: Redactor, table: bytes) -> bytes:
    """The table with every record as long as it was: only its place tells what a byte belongs to."""
    records = (table[start : start + _RECORD] for start in range(0, len(table), _RECORD))
    return b"".join(_nvmap_record(redactor, record) for record in records)


def _nvmap_record(redactor: Redactor, record: bytes) -> bytes:
    told = record[_PROCESS].strip(b" ")
    kept = redactor.comm(told.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return record if kept == told else record[: _PROCESS.start] + kept.rjust(18) + record[_PROCESS.stop :]
