"""A fake NVML library, built by the C compiler, and the real binding run over it in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("nvml.c")
_U64_NONE = (1 << 64) - 1
_U32_NONE = (1 << 32) - 1

# Prints one sample, as JSON, for each line that it reads: a time, and the cards' state of power; null asks for what the
# devices say beside their memory.
_SAMPLER = """
import dataclasses, json, sys
from edgeagent.host.nvml import PynvmlSource
from edgeagent.host.power import Power
now = 0.0
source = PynvmlSource(lambda: now)
for line in sys.stdin:
    asked = json.loads(line)
    if asked is None:
        print(json.dumps([dataclasses.asdict(one) for one in source.activity()]), flush=True)
        continue
    now, power = asked
    sample = source.sample(Power(**{key: tuple(value) for key, value in power.items()}))
    print(json.dumps(dataclasses.asdict(sample)), flush=True)
source.close()
"""


@dataclass(frozen=True)
class FakeNvml:
    """A folder with ``libnvidia-ml.so.1`` and the file that its answers come from."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in order to find this library and no other."""
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.folder / "answers")}

    def say(self, document: Mapping[str, Any], *switches: str) -> None:
        """Answers from now on what ``document`` (an nvml.json) says; ``switches`` are lines of their own."""
        new = self.folder / "answers.new"
        new.write_text("".join(f"{line}\n" for line in (*lines(document), *switches)))
        new.replace(self.folder / "answers")

    def asked(self) -> list[str]:
        """What was asked for since the last time, with the switch ``log``."""
        log = self.folder / "answers.log"
        found = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    @contextmanager
    def samples(self) -> Iterator[Sampler]:
        """A process that samples this library through the real binding."""
        with subprocess.Popen(
            [sys.executable, "-c", _SAMPLER],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            yield Sampler(process)
            assert process.stdin
            process.stdin.close()


@dataclass(frozen=True)
class Sampler:
    """The running process."""

    process: subprocess.Popen[str]

    def at(self, now: float, **power: Sequence[str]) -> dict[str, Any]:
        """The fields of the sample taken at monotonic second ``now``; ``power``: addresses, as ``Power`` has them."""
        sample: dict[str, Any] = self._asked([now, power])
        return sample

    def activity(self) -> list[dict[str, Any]]:
        """What the devices of the last sample say beside their memory."""
        devices: list[dict[str, Any]] = self._asked(None)
        return devices

    def _asked(self, question: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def build(folder: Path, *options: str) -> FakeNvml:
    """Compiles the library into ``folder``, in the place of one that is there; ``options`` are the compiler's."""
    library, new = folder / "libnvidia-ml.so.1", folder / "new.so"
    subprocess.run(
        [
            "cc",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            *options,
            "-o",
            str(new),
            str(SOURCE),
        ],
        check=True,
    )
    new.replace(library)  # as a package manager does: whoever has the old file mapped keeps it
    return FakeNvml(folder)


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines for the library that say what an nvml.json says."""
    yield f"init {document.get('init', 0)}"
    yield from _text("driver_version", document)
    yield from _values("cuda_version", document, lambda value: value)
    devices = document.get("devices", [])
    count = document.get("count", {"value": len(devices)})
    yield from _values("count", {"count": count}, lambda value: value["value"])
    for index, device in enumerate(devices):
        yield f"{index}.handle {device.get('handle', 0)}"
        yield from _device(f"{index}.", device)


def _device(prefix: str, device: Mapping[str, Any]) -> Iterator[str]:
    for key in ("name", "uuid", "pci_bus_id"):
        yield from _text(key, device, prefix)
    yield from _values("minor", device, lambda value: value, prefix)
    yield from _values("cuda_capability", device, lambda value: f"{value[0]} {value[1]}", prefix)
    yield from _values("memory", device, lambda value: "{total} {used} {free}".format(**value), prefix)
    yield from _values("memory_v2", device, lambda value: "{total} {reserved} {used} {free}".format(**value), prefix)
    for key in ("compute", "graphics", "mps"):
        yield from _values(key, device, _processes, prefix)
    yield from _values("utilization", device, lambda value: "{gpu} {memory}".format(**value), prefix)
    yield from _values("temperature", device, lambda value: value, prefix)
    yield from _values("clocks", device, lambda value: value, prefix)
    yield from _values("process_utilization", device, _samples, prefix)
    yield from _values("mig", device, lambda value: value["mode"], prefix)
    for index, instance in enumerate(device.get("mig", {}).get("instances", [])):
        yield f"{prefix}mig{index}.handle 0"
        yield from _device(f"{prefix}mig{index}.", instance)


def _processes(value: Mapping[str, Any]) -> str:
    def number(process: Mapping[str, Any], key: str, absent: int) -> int:
        given = process.get(key)
        return absent if given is None else given

    entries = [
        f"{process['pid']}:{number(process, 'used', _U64_NONE)}:"
        f"{number(process, 'gi', _U32_NONE)}:{number(process, 'ci', _U32_NONE)}"
        for process in value["processes"]
    ]
    return " ".join([str(len(entries)), *entries])


def _samples(value: Mapping[str, Any]) -> str:
    entries = [f"{one['pid']}:{one['at']}:{one['sm']}" for one in value["samples"]]
    return " ".join([str(len(entries)), *entries])


def _text(key: str, source: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    yield from _values(key, source, lambda value: value.encode(errors="surrogateescape").hex(), prefix)


def _values(key: str, source: Mapping[str, Any], text: Any, prefix: str = "") -> Iterator[str]:
    if key not in source:
        return
    value = source[key]
    code = value.get("code", 0) if isinstance(value, dict) else 0
    yield f"{prefix}{key} {code} {'' if code else text(value)}"
