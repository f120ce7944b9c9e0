"""Takes out of texts what belongs to one machine or one person, the same way everywhere in a snapshot.

A replacement has the form of what it replaces and is the same at each place, so that what
is decided from the texts stays the same. Addresses are replaced by those that are set
aside for documentation (RFC 5737, RFC 3849, RFC 7042).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

NODE = "node-1"
"""The name of every recorded node."""

_VOCABULARY = """
    nvidia-container-runtime nvidia-cuda-mps-server nvidia-desktop nvidia.com tegra-ubuntu jetson-desktop jetson-nano
    tegra234 orin-nano orin-nx agx-orin xavier thor geforce kubepods.slice burstable besteffort guaranteed pod
    cri-containerd.scope crio docker libpod system.slice user.slice init session service daemon dbus cgroup memory
    k3s-agent k3s-server kubelet-arg data-dir config.yaml node-name with-node-id containerd.sock rancher etc var lib usr
    local bin sbin home root run proc dev system-reserved kube-reserved eviction-hard memory.available
    edgeagent.dev/gpu-memory igpu-memory gpu-milli gpu-memory-limit latency-port latency-path latency-metric
    kubernetes.io hostname beta arch os linux amd64 arm64 hami.io kube-share kubeshare runai sharedgpu tensor-fusion.ai
    default kube-system kthreadd localhost.localdomain ubuntu debian raspberrypi admin operator master worker edge
    containers plugins runtimes options true false null none node-1 host-1 user-1
"""
"""Words that say nothing about anybody. A name inside one of them is not looked for in texts: a host called ``nvidia``
would else take the driver's name with it. Where a name itself stands, as a node's does, it is replaced all the same."""

_SHORTEST = 3
"""Characters of the shortest name that is looked for in texts."""
_LOOSE = 6
"""Characters from which on a name is found inside words too, and with other separators."""
_COMM = 15
"""Bytes that the kernel keeps of a process name (TASK_COMM_LEN less one)."""
_CUT = 4
"""Characters of a name at the end of a cut process name that give it away."""

_SEPARATOR = r"(?:\\x2d|%2d|[-_.])"
_HOME = re.compile(r"(?<!\w)(home/)([^/\s\"':,;=]+)")
_UUID = re.compile(r"(?P<kind>(?:GPU-|MIG-)*)(?P<core>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_TOKEN = re.compile(r"K10[0-9a-f]{16,}(?:::\S*)?|eyJ[\w-]{8,}(?:\.[\w-]*){1,2}")
_URL = re.compile(r"\b(https?|wss?)://[^\s/\"'<>]+")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.(?!(?:service|slice|scope|socket|mount)\b)[A-Za-z]{2,}")
_MAC = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}(?![0-9A-Za-z])", re.IGNORECASE)
_COLONS = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f:.]{2,}(?![0-9A-Za-z])")
_IPV4 = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)|(?<![0-9A-Za-z])ip-\d{1,3}(?:-\d{1,3}){3}(?!\d)")
_HEXADECIMAL = re.compile(r"[0-9a-f]+")
_LONGEST_IPV6 = 45
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a machine and its people are known by."""

    hosts: tuple[str, ...] = ()
    """Names of the node and of the host, the node's first."""
    users: tuple[str, ...] = ()
    serials: tuple[str, ...] = ()
    """Serial numbers and machine ids."""
    gpus: tuple[str, ...] = ()
    """UUIDs of GPUs, in any form in which NVML spells them."""
    uuids: tuple[str, ...] = ()
    """Other UUIDs of this machine."""


class Redactor:
    """Replaces what identifies. One redactor serves a whole snapshot: it remembers what stands for what."""

    def __init__(self, identity: Identity) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        gpus = (match["core"].lower() for text in identity.gpus for match in _UUID.finditer(text))
        for core in (*sorted(gpus), *map(str.lower, identity.uuids)):  # devices are told in the order of their UUIDs
            self._uuid(core)
        self._names = {**self._of_hosts(identity.hosts), **self._of_users(identity.users)}
        self._by_letters = {_letters(name): neutral for name, neutral in self._names.items()}
        serials = [serial for serial in identity.serials if len(serial) >= _LOOSE]
        self._by_letters |= {_letters(serial): self.serial(serial) for serial in serials}
        patterns = {name: _loosely(name) for name in self._names} | {serial: _alone(serial) for serial in serials}
        longest_first = sorted(patterns, key=lambda name: (-len(name), name))
        self._pattern = re.compile("|".join(patterns[name] for name in longest_first) or r"(?!)", re.IGNORECASE)

    # --- what is asked for ---

    def text(self, text: str) -> str:
        """``text`` without anything that identifies."""
        text = _UUID.sub(self._known_uuid, self.names(text))
        text = _TOKEN.sub("token", text)
        text = _URL.sub(r"\1://server.invalid", text)
        text = _MAIL.sub("user@host.invalid", text)
        text = _COLONS.sub(lambda match: self._ipv6_in(match[0]) if match[0].count(":") > 1 else match[0], text)
        text = _MAC.sub(lambda match: self._mac(match[0]), text)
        return _IPV4.sub(lambda match: self._ipv4(match[0]), text)

    def names(self, text: str) -> str:
        """``text`` without names and serial numbers only: for texts in which numbers with dots are versions."""
        return self._pattern.sub(lambda match: self._by_letters[_letters(match[0])], _HOME.sub(self._home, text))

    def comm(self, name: str) -> str:
        """The name of a process, which may end in the beginning of a name that the kernel cut off."""
        text = self.names(name)
        if text == name and not _common(name) and len(name.encode(errors="surrogateescape")) >= _COMM:
            text = self._without_cut_name(name)
        return text if text == name else text[:_COMM]

    def content(self, content: bytes) -> bytes:
        """As ``text``; bytes that are no text are kept."""
        return self.text(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def uuid(self, text: str) -> str:
        """The UUID of a GPU. Its form is kept: it tells an integrated from a discrete one."""
        found, count = _UUID.subn(lambda match: match["kind"] + self._uuid(match["core"]), text)
        return found if count else self._numbered("device", text)

    def serial(self, text: str) -> str:
        """A serial number, or a machine id (32 digits), by another one."""
        is_id = _MACHINE_ID.fullmatch(text.lower())
        return self._new("machine", text, "{:032x}") if is_id else self._numbered("serial", text)

    # --- how each kind is replaced ---

    def _of_hosts(self, hosts: tuple[str, ...]) -> dict[str, str]:
        """Each name whole, its part before the first dot, and the domain behind that."""
        found: dict[str, str] = {}
        for host in hosts:
            short, _, domain = host.lower().partition(".")
            own = short == hosts[0].lower().partition(".")[0]
            neutral = NODE if own else self._numbered("host", short)
            found |= {host.lower(): neutral, short: neutral}
            if "." in domain:
                found[domain] = "domain.invalid"
        return {name: neutral for name, neutral in found.items() if _searched(name)}

    def _of_users(self, users: Iterable[str]) -> dict[str, str]:
        return {
            name: self._numbered("user", name) for name in sorted({name.lower() for name in users if _searched(name)})
        }

    def _without_cut_name(self, comm: str) -> str:
        for name, neutral in self._names.items():
            for length in range(min(len(name) - 1, _COMM), _CUT - 1, -1):
                if comm.lower().endswith(name[:length]):
                    return comm[:-length] + neutral
        return comm

    def _home(self, match: re.Match[str]) -> str:
        """A folder below ``home`` is a user's, whether that user is known or not."""
        own = match[2] if _common(match[2]) else self._names.get(match[2].lower())
        return match[1] + (own or self._numbered("user", match[2]))

    def _known_uuid(self, match: re.Match[str]) -> str:
        """Those of GPUs are known by what stands in front; of the bare ones those of pods stay."""
        known = ("uuid", match["core"].lower()) in self._given
        return match["kind"] + self._uuid(match["core"]) if match["kind"] or known else match[0]

    def _uuid(self, core: str) -> str:
        # By its first digit a bare UUID stands before or after those with GPU- in front.
        return self._new("uuid", core, ("0" if core[0].isdigit() else "a") + "0000000-0000-4000-8000-{:012d}")

    def _mac(self, text: str) -> str:
        return self._new("mac", text.replace("-", ":"), "00:00:5e:00:53:{:02x}", most=0xFF)

    def _ipv6_in(self, run: str) -> str:
        """``run`` with every address in it replaced, the longest that can begin at a place first."""
        done, start = "", 0
        while start < len(run):
            address = next(filter(None, map(_ipv6, _beginnings(run, start))), None)
            if address is None:
                done, start = done + run[start], start + 1
            else:
                done, start = done + self._new("ipv6", address, "2001:db8::{:x}"), start + len(address)
        return done

    def _ipv4(self, text: str) -> str:
        parts = [int(part) for part in re.findall(r"\d+", text)]
        if max(parts) > 255 or parts[0] == 127 or not any(parts):  # noqa: PLR2004 (no address, loopback, any)
            return text
        number = self._new("ipv4", ".".join(map(str, parts)), "{}", most=len(_DOCUMENTATION))
        neutral = _DOCUMENTATION[int(number) - 1]
        return f"ip-{neutral.replace('.', '-')}" if text.startswith("ip-") else neutral

    def _numbered(self, kind: str, text: str) -> str:
        return self._new(kind, text, kind + "-{}")

    def _new(self, kind: str, text: str, form: str, *, most: int = 10**12) -> str:
        """What stands for ``text``: given once, then the same. Beyond ``most`` of a kind all get the last."""
        key = (kind, text.lower())
        if key not in self._given:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[key] = form.format(min(number, most))
        return self._given[key]


_DOCUMENTATION = tuple(
    str(address) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
    for address in ipaddress.ip_network(block).hosts()
)  # fmt: skip


def _searched(name: str) -> bool:
    return len(name) >= _SHORTEST and not _common(name)


def _common(name: str) -> bool:
    return name.lower() in _VOCABULARY


def _letters(name: str) -> str:
    return re.sub(_SEPARATOR, "", name.lower())


def _loosely(name: str) -> str:
    """A pattern for ``name``: a long one with any separators or none, a short one as a word of its own.

    One of hexadecimal digits alone, as a container's host name is, may stand in any id by chance.
    """
    words = [re.escape(word) for word in re.split(_SEPARATOR, name) if word]
    if len(_letters(name)) >= _LOOSE and not _HEXADECIMAL.fullmatch(_letters(name)):
        return f"{_SEPARATOR}*".join(words)
    return _alone(name)


def _alone(name: str) -> str:
    return f"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"


def _beginnings(run: str, start: int) -> Iterable[str]:
    """What may be an address at ``start``: it begins there at a group, the longest first."""
    if start and run[start - 1] not in ":.":
        return ()
    ends = range(min(len(run), start + _LONGEST_IPV6), start + 1, -1)
    return (run[start:end] for end in ends if end == len(run) or run[end] in ":.")


def _ipv6(text: str) -> str | None:
    """``text`` if it is an IPv6 address that is some machine's."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified else text
