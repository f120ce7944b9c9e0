"""Ten hours of NVML polls at full speed, over the real binding and a library that answers from a file.

``python -m tests.bench.nvml`` needs a C compiler and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fakes.nvml import build
from tests.unit.host.nvml_documents import T4, document

POLLS = 36_000

_SCRIPT = """
import asyncio, os, sys, threading, time
from edgeagent.host.nvml import PynvmlSource
from edgeagent.host.nvml_worker import NvmlWorker

def held():
    pages = int(open("/proc/self/statm").read().split()[1])
    return len(os.listdir("/proc/self/fd")), threading.active_count(), pages * os.sysconf("SC_PAGE_SIZE") >> 10

async def main(polls):
    worker = NvmlWorker(PynvmlSource(time.monotonic), time.monotonic)
    for _ in range(100):
        await worker.sample()
    before, begun = held(), time.perf_counter()
    for _ in range(polls):
        await worker.sample()
    spent, after = time.perf_counter() - begun, held()
    print(f"{polls} NVML samples of one card: {1e6 * spent / polls:.0f} us each, the library's own work included")
    for name, first, last in zip(("descriptors", "threads", "RSS in KiB"), before, after):
        print(f"  {name:<12} {first} after 100 samples, {last} at the end")
    worker.close()

asyncio.run(main(int(sys.argv[1])))
"""


def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder), "-O2")
        library.say(document(T4))
        environment = {**os.environ, **library.environment}
        subprocess.run([sys.executable, "-c", _SCRIPT, str(POLLS)], env=environment, check=True)


if __name__ == "__main__":
    main()
