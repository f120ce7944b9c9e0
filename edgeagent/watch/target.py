"""Where a pod shows its own latency, by its annotations."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.facts import PREFIX

if TYPE_CHECKING:
    from edgeagent.facts import PodFacts

PORT = PREFIX + "latency-port"
PATH = PREFIX + "latency-path"
METRIC = PREFIX + "latency-metric"
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,255}")
_PATH = re.compile(r"/[!-\"$-~]{0,1023}")
"""Printable ASCII without a blank and without ``#``, which would begin what is not sent."""
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Target:
    """A histogram of a pod."""

    url: str
    """``http://`` and the pod's own address, always."""
    metric: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why what a pod's annotations ask for cannot be done."""

    why: str


def target(pod: PodFacts) -> Target | Refused | None:
    """What the annotations of ``pod`` ask for; None: nothing."""
    told = pod.annotations
    if not {PORT, PATH, METRIC} & told.keys():
        return None
    port, path = told.get(PORT, ""), told.get(PATH, "/metrics")
    # Queries name a histogram with the ending of its buckets.
    metric = told.get(METRIC, "").removesuffix("_bucket")
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= _HIGHEST_PORT):
        return Refused(f"{PORT} is no port")
    if not _PATH.fullmatch(path):
        return Refused(f"{PATH} is no path")
    if not _METRIC.fullmatch(metric):
        return Refused(f"{METRIC} is no name of a metric")
    host = _host(pod.ip)
    return Target(f"http://{host}:{int(port[:6])}{path}", metric) if host else Refused("the pod has no address")


def _host(ip: str | None) -> str:
    """The address as it stands in a URL; "" for one that is no pod's."""
    try:
        address = ipaddress.ip_address(ip or "")
    except ValueError:
        return ""
    # Such an address reaches the IPv4 one in it, and before Python 3.13 it is not seen to be loopback or link-local.
    address = (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return ""
    return f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 (IPv6)
