"""Devices by name (Container Device Interface): what is defined, and what takes what away.

As cncf-tags/container-device-interface has it, pkg/cdi/cache.go and spec-dirs.go: files that end in .json and .yaml
are read, in ``/etc/cdi`` and in ``/var/run/cdi``. A name in the second folder takes the place of the same in the
first; one that two files of one folder define is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.facts.diagnosis import CdiSpec

STATIC = "/etc/cdi"
DYNAMIC = "/var/run/cdi"
_SAME = {"/run/cdi": DYNAMIC}
_READ = (".json", ".yaml")


def is_read(spec: CdiSpec) -> bool:
    """Whether runtimes take the file for one."""
    return spec.path.endswith(_READ)


def folder(spec: CdiSpec) -> str:
    """The folder that it is in, by the name that runtimes have for it."""
    found = spec.path.rpartition("/")[0]
    return _SAME.get(found, found)


def kind(name: str) -> str:
    """``nvidia.com/gpu`` of ``nvidia.com/gpu=0``."""
    return name.partition("=")[0]


def is_name(text: str) -> bool:
    """It is a device's name in full."""
    vendor, slash, rest = text.partition("/")
    cls, equals, device = rest.partition("=")
    return bool(vendor and slash and cls and equals and device)


def is_nvidia(kind: str) -> bool:
    """A kind of NVIDIA's, or of one of its components."""
    vendor = kind.partition("/")[0]
    return vendor == "nvidia.com" or vendor.endswith(".nvidia.com")


def defined(specs: Iterable[CdiSpec]) -> Mapping[str, tuple[CdiSpec, ...]]:
    """The specifications that define each name."""
    found: dict[str, tuple[CdiSpec, ...]] = {}
    for spec in filter(is_read, specs):
        for device in dict.fromkeys(spec.devices):
            name = f"{spec.kind}={device}"
            found[name] = (*found.get(name, ()), spec)
    return found


def repeated(spec: CdiSpec) -> tuple[str, ...]:
    """The names that one specification has more than once, for which it is refused as a whole."""
    return tuple(f"{spec.kind}={name}" for name, count in Counter(spec.devices).items() if count > 1)
