"""K3s is told our reserves, so that the scheduler's own figure of the node's memory is exact too.

What is written has been read back before: by the very code that reads K3s' settings on a board. Nothing that others
have told the kubelet is lost by it, or nothing is written.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent import config, quantity
from edgeagent.errors import ConfigError, InputError
from edgeagent.facts import Facts
from edgeagent.host import k3s
from edgeagent.host.overlay import OverlayFiles
from edgeagent.host.reader import BoardReader, nvml_source
from edgeagent.install import places
from edgeagent.install.files import File, content
from edgeagent.install.marks import author, marked
from edgeagent.plan import messages
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.facts import KubeletSettings
    from edgeagent.host.files import Files
    from edgeagent.host.nvml import NvmlSource
    from edgeagent.memory.types import Pool

_KEYS = {"system-reserved": "memory", "kube-reserved": "memory", "eviction-hard": "memory.available"}
_SEPARATORS = {"system-reserved": "=", "kube-reserved": "=", "eviction-hard": "<"}
_ABOUT = """\
# edgeagent's reserves, for the kubelet: then the scheduler counts this node's memory as edgeagent does.
# Each line has the whole map, because a flag replaces all of one. K3s reads this file at its start only.
"""
_OURS = """\
# K3s' system-reserved has the pages of CMA since edgeagent told it so: they are not subtracted twice.
reserves:
  cma: 0
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What has to be written, and what the node's memory will be.

    Our own configuration last: without it the pages of CMA are subtracted twice, without the other not at all.
    """

    files: tuple[File, ...]
    allocatable: int
    """Bytes that the node will have for the requests of pods."""


def told(root: Path, *, force: bool) -> Told:
    """The files that tell K3s the reserves of the board below ``root``. ``force`` writes over those that were edited.

    Raises:
        InputError: no K3s, no memory that CPU and GPU share, or others' settings would take these back.
    """
    found = places.host_files(root)
    candidates = {path.strip("/"): None for path in (*places.k3s_files(root), places.RESERVES)}
    # Looked at as it is without us: our own earlier figures must not pass for the kubelet's.
    without = OverlayFiles(found, candidates)
    documents = [(name, text) for name, text in configuration(root) if name != _shown(root, places.RESERVES)]
    settings = config.load(documents)
    before = k3s.arguments(without, settings.k3s.data_dir)
    if before is None:
        raise InputError("--k3s-reserves: there is no K3s on this machine")
    if settings.unified.gpu_from_hugepages:
        raise InputError("--k3s-reserves: huge pages are the GPU's here, which are no part of the scheduler's memory")
    pool = asyncio.run(_pool(settings, without, nvml_source(None, time.monotonic)))
    if pool is None:
        raise InputError("--k3s-reserves: no memory is known here that CPU and GPU share, so there is nothing to tell")
    amounts = messages.kubelet_amounts(pool)
    maps = {flag: _map(flag, before.maps[flag], amount) for flag, amount in amounts.items()}
    body = _ABOUT + "kubelet-arg+:\n" + "".join(f"  - {json.dumps(_line(flag, maps[flag]))}\n" for flag in maps)
    files = [File(f"{before.folder}/{places.K3S_NAME}", marked(body))]
    if any(line.name == "cma" and line.bytes for line in pool.reserves):
        files.append(File(places.RESERVES, marked(_OURS)))
    # What will really be there: an edited file stays, and says what it says.
    left = [] if force else [file.path for file in files if _edited(root, file.path)]
    there = [File(file.path, content(root, file.path) or b"") if file.path in left else file for file in files]
    after = OverlayFiles(without, {file.path.strip("/"): file.content for file in there})
    try:
        _check(after, settings.k3s.data_dir, maps)
        _check_ours(documents, there, root)
    except InputError as error:
        stays = [f"{path} was edited, so neither of the two files is written; --force replaces it" for path in left]
        raise InputError([*error.problems, *stays]) from error
    return Told(tuple(files), pool.total - sum(quantity.parse(amount) for amount in amounts.values()))


def _edited(root: Path, path: str) -> bool:
    found = content(root, path)
    return found is not None and author(found) == "edited"


def configuration(root: Path) -> list[tuple[str, str]]:
    """(name, text) of each of our own configuration files below ``root``, in the order in which they count.

    Raises:
        ConfigError: one cannot be read.
    """
    folder = root / places.CONFIG_FOLDER.lstrip("/")
    main = root / places.CONFIG.lstrip("/")
    documents = []
    for path in (*([main] if main.exists() else ()), *sorted(folder.glob("*.yaml"))):
        try:
            documents.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return documents


async def _pool(settings: Config, files: Files, nvml: NvmlSource) -> Pool | None:
    """The pool that CPU and GPU share, as a single look finds it."""
    reader = BoardReader(files, nvml, data_dir=settings.k3s.data_dir, clock=time.monotonic)
    try:
        host = await reader.sample(())
    finally:
        reader.close()
    facts = Facts(wall=time.time(), config=settings, host=host, cluster=None)
    _, plan = decide(State(), facts, time.monotonic())
    return next((pool for pool in plan.pools if pool.kind == "unified"), None)


def _map(flag: str, before: Mapping[str, str], amount: str) -> dict[str, str]:
    """The whole map of a flag: what others have put in it, K3s' own thresholds if they have not, and our figure."""
    if flag == "eviction-hard" and not before:
        before = dict(entry.split("<") for entry in messages.KUBELET_DEFAULTS.split(","))
    return {_KEYS[flag]: amount, **{key: text for key, text in before.items() if key != _KEYS[flag]}}


def _line(flag: str, entries: Mapping[str, str]) -> str:
    return f"{flag}={','.join(f'{key}{_SEPARATORS[flag]}{text}' for key, text in entries.items())}"


def _check(files: Files, data_dir: str | None, wanted: Mapping[str, Mapping[str, str]]) -> None:
    """Read back what K3s would be told.

    Raises:
        InputError: something else than wanted.
    """
    after = k3s.arguments(files, data_dir)
    if after is not None and after.maps == wanted:
        return
    read = k3s.settings(files, data_dir)
    problems = [
        f"--k3s-reserves: {flag} would stay at {setting[0]}, as {setting[1]} says; take it out there"
        for flag, setting in _settings(read).items()
        if setting is not None and setting[0] != wanted[flag][_KEYS[flag]]
    ]
    raise InputError(
        problems
        or f"--k3s-reserves: another file of K3s sets kubelet-arg after {places.K3S_NAME}; write kubelet-arg+ there"
    )


def _settings(read: KubeletSettings) -> dict[str, tuple[str, str] | None]:
    return {
        "system-reserved": read.system_reserved,
        "kube-reserved": read.kube_reserved,
        "eviction-hard": read.eviction_hard,
    }


def _check_ours(documents: list[tuple[str, str]], files: list[File], root: Path) -> None:
    """Read back what our own configuration would say.

    Raises:
        InputError: ``reserves.cma`` would count beside system-reserved.
    """
    added = [(_shown(root, file.path), file.content.decode()) for file in files if file.path == places.RESERVES]
    folder = str(root / places.CONFIG_FOLDER.lstrip("/"))
    main = [document for document in documents if not document[0].startswith(folder)]
    drop_ins = sorted([document for document in documents if document[0].startswith(folder)] + added)
    if added and config.load([*main, *drop_ins]).reserves.cma != 0:
        raise InputError(
            f"--k3s-reserves: reserves.cma is set in a file after {places.RESERVES}, and would count twice; "
            "take it out there"
        )


def _shown(root: Path, path: str) -> str:
    return str(root / path.lstrip("/"))
