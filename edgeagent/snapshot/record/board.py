"""Records the real board: what the readers read in one sample or several, redacted, as a snapshot."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edgeagent.cluster import node as nodes
from edgeagent.snapshot.record import taking, verify, writing
from edgeagent.snapshot.record.entries import entries
from edgeagent.snapshot.record.identity import identity
from edgeagent.snapshot.record.redact import Redactor

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.host.files import Files
    from edgeagent.snapshot.live import Source
    from edgeagent.snapshot.record.taking import Sample

_NAMELESS = Path("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was written."""

    files: int
    bytes: int
    unread: tuple[str, ...]
    """What could not be read, one line each."""
    differing: tuple[str, ...]
    """Parts of the explain document that say other things of the snapshot than of the board; there should be none."""


def record(target: Path | BinaryIO, config: Config, source: Source, *, frames: int = 1, every: float = 0.0) -> Recorded:
    """Writes a snapshot of the board to ``target``: one sample, or ``frames`` of them.

    ``target``: a folder or a ``.tar.gz``, or a stream that gets the content of the latter. ``every``: seconds from one
    sample to the next.

    Raises:
        InputError: ``target`` exists or cannot be written, or the board cannot be found. Nothing is left behind.
        ClusterError: the API server could not be asked.
    """
    if isinstance(target, Path):
        writing.check(target)
    files, nvml = source.open()
    times = [every * number for number in range(frames)]
    try:
        samples = asyncio.run(taking.samples(files, nvml, config, source, times))
        redactor = _redactor(files, config, samples)
    finally:
        files.close()
    found = entries(redactor, config, samples)
    if isinstance(target, Path):
        differing = verify.differences(config, samples[0], target, found)
        writing.write(target, found, samples[0].wall)
    else:
        differing = verify.differences(config, samples[0], _NAMELESS, found)
        target.write(writing.archive(found, samples[0].wall))
    contents = [entry for entry in found.values() if isinstance(entry, bytes)]
    return Recorded(
        files=len(contents),
        bytes=sum(map(len, contents)),
        unread=tuple(taking.unread(samples)),
        differing=tuple(differing),
    )


def _redactor(files: Files, config: Config, samples: list[Sample]) -> Redactor:
    first = samples[0]
    found = nodes.parse(first.node) if first.node is not None else None
    people = (os.environ.get(name) for name in ("SUDO_USER", "USER", "LOGNAME"))
    return Redactor(
        identity(
            files,
            hosts=[found.name if found else None, config.node.name, first.host.kubelet.node_name, socket.gethostname()],
            users=people,
            serials=[found.machine_id if found else None],
            gpus=_gpus(samples),
            uuids=[found.uid if found else None],
        )
    )


def _gpus(samples: list[Sample]) -> Iterator[str]:
    for sample in samples:
        for device in sample.host.nvml.value.devices if sample.host.nvml.value else ():
            told = (device.uuid, *(instance.uuid for instance in device.mig))
            yield from (uuid for uuid in told if uuid)
