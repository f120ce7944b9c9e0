"""Nodes of each kind on which nothing is wrong, and what is found on them once something is.

Everything is asked of ``edgeagent explain --format json``, so a case is a folder of files and an answer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.holders import CLIENTS, Link, table
from tests.cases.machines import COMPATIBLE, GB10_KIB, IGX_ORIN, NVIDIA_CARD, THOR, card, gb10, pci
from tests.cases.making import KEY, about, device, explain, meminfo, node, nvml
from tests.diagnose.making import healthy, without

if TYPE_CHECKING:
    from collections.abc import Iterable

Capture = pytest.CaptureFixture[str]
Files = dict[str, Any]
Finding = dict[str, Any]

GPU = "nvidia.com/gpu"
NODE_NAMED = "node edge-07"
ABOVE_NOTES = ("error", "warning")

CARD_OFFER = "24064Mi"
"""24576 MiB of one RTX A5000, less the 512 that its driver reserves."""
GB10_OFFER = "117509Mi"
"""127600748 kB = 124610.1 MiB, less os 4096, k3s 512 and headroom 2 % = 2492.2: 117509.9, down to whole MiB."""
THOR_KIB = 128651324
THOR_OFFER = "118515Mi"
"""128651324 kB = 125636.1 MiB, less os 4096, k3s 512 and headroom 2 % = 2512.7: 118515.3, down to whole MiB."""
IGX_OFFER = {KEY: "48516Mi", "edgeagent.dev/igpu-memory": "57299Mi"}
"""The card: 49140 MiB less the driver's 624. 64347136 kB = 62839 MiB, less os 6 % = 3770.4, k3s 512 and headroom 2 % =
1256.8: 57299.8, down to whole MiB."""


def orin(**files: Any) -> Files:
    """An Orin Nano with JetPack 6: no NVML, one memory."""
    return {**healthy(), **files}


def thor(**files: Any) -> Files:
    """A Jetson Thor, whose NVML knows no memory."""
    chip = nvml(device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000002"))
    has = {COMPATIBLE: THOR, "host/proc/meminfo": meminfo(THOR_KIB), "nvml.json": chip, CLIENTS: table()}
    return {**healthy(), **has, "cluster/node.json": node({KEY: THOR_OFFER}), **files}


def spark(**files: Any) -> Files:
    """A GB10: one memory, and no Jetson."""
    has = {
        "host/proc/meminfo": meminfo(GB10_KIB),
        "nvml.json": nvml(gb10()),
        **pci("000f:01:00.0", "0x10de", "0x030000"),
    }
    return {**_no_jetson(), **has, "cluster/node.json": node({KEY: GB10_OFFER}), **files}


def igx(**files: Any) -> Files:
    """A Jetson with a card beside it: two pools."""
    compatible, kib, chip, big = IGX_ORIN
    has = {COMPATIBLE: compatible, "host/proc/meminfo": meminfo(kib), "nvml.json": nvml(chip, big), CLIENTS: table()}
    return {**healthy(), **has, **NVIDIA_CARD, "cluster/node.json": node(IGX_OFFER), **files}


def tower(**files: Any) -> Files:
    """A PC with one card."""
    has = {"snapshot.yaml": about(arch="x86_64"), "host/proc/meminfo": meminfo(64 << 20), "nvml.json": nvml(card(0))}
    return {**_no_jetson(), **has, **NVIDIA_CARD, "cluster/node.json": node({KEY: CARD_OFFER}), **files}


def pi(**files: Any) -> Files:
    """A Raspberry in the same cluster, without a GPU and without anything of NVIDIA's."""
    has = {COMPATIBLE: b"raspberrypi,4-compute-module\0brcm,bcm2711\0", "cluster/node.json": node()}
    return {**_no_jetson(), **has, **files}


KINDS = {"orin": orin, "thor": thor, "gb10": spark, "igx": igx, "card": tower}
WITH_A_GPU = list(KINDS.values())


def _no_jetson() -> Files:
    files = healthy()
    return without(files, COMPATIBLE, *(name for name in files if "host-files-for-container.d" in name))


def also(files: Files, **capacity: str) -> Files:
    """The node offers this too; ``gpu`` stands for ``nvidia.com/gpu``."""
    has = {name: size for name, size in files["cluster/node.json"]["status"]["capacity"].items() if "/" in name}
    more = {GPU if name == "gpu" else name: size for name, size in capacity.items()}
    metadata = {key: files["cluster/node.json"]["metadata"][key] for key in ("labels",)}
    return {**files, "cluster/node.json": node({**has, **more}, **metadata)}


def told(capsys: Capture, folder: Path, files: Files, *, dated: Iterable[tuple[str, int]] = ()) -> list[Finding]:
    """All findings of the last sample. ``dated``: when a file of the host was written, seconds since 1970."""
    document = shown(capsys, folder, files, dated=dated)
    found: list[Finding] = document["findings"]
    assert all(one["summary"] and one["evidence"] and one["remedy"] for one in found)
    return found


def shown(capsys: Capture, folder: Path, files: Files, *, dated: Iterable[tuple[str, int]] = ()) -> Any:
    """The last document."""
    for name, second in dated:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name])
        os.utime(path, (second, second))
    skip = {name for name, _ in dated}
    for name, content in files.items():
        if isinstance(content, Link):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(content)
    plain = {name: one for name, one in files.items() if name not in skip and not isinstance(one, Link)}
    return explain(capsys, folder, plain)[-1]


def ids(found: list[Finding], severities: Iterable[str] = ("error", "warning", "info")) -> list[str]:
    """What was found, notes left out if told so."""
    return [one["id"] for one in found if one["severity"] in severities]


def the(found: list[Finding], name: str) -> Finding:
    """The only finding of a rule."""
    (one,) = [one for one in found if one["id"] == name]
    return one


def judged(one: Finding) -> tuple[str, str, str]:
    """Severity, certainty and subject."""
    return one["severity"], one["certainty"], one["subject"]


def proof(one: Finding) -> str:
    """What was looked at."""
    return "\n".join(one["evidence"])


def whole(one: Finding) -> str:
    """All words of a finding."""
    return "\n".join([one["summary"], *one["evidence"], one["remedy"]])
