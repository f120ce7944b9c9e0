"""``edgeagent fleet`` over 500 nodes and 2000 pods on the real API server.

``python -m tests.bench.fleet`` needs what the cluster tests need: ``python -m tests.controlplane.build`` once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.figures import Figure
from tests.cluster.objects import create_pod, pod
from tests.cluster.test_fleet import LIMITS, published
from tests.controlplane.plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterable

NODES, PODS_EACH, RUNS = 500, 4, 10


def main() -> None:
    """Prints how long the whole command takes, as a process."""
    with tempfile.TemporaryDirectory() as scratch, ControlPlane(Path(scratch) / "plane") as plane:
        names = [f"edge-{number:03}" for number in range(NODES)]
        _many(partial(_node, plane.api), names)
        _many(partial(_pod, plane.api), [(name, number) for name in names for number in range(PODS_EACH)])
        print(f"{NODES} nodes, {NODES * PODS_EACH} pods, Python {sys.version.split()[0]}, {RUNS} runs each")
        for options in ((), ("--format", "json"), ("--selector", "edgeagent.dev/gpu.kind=discrete")):
            spent = [_run(plane, *options) for _ in range(RUNS)]
            print(Figure(" ".join(("fleet", *options)), "s", spent, "< 3").line())


def _many(make: Any, things: Iterable[Any]) -> None:
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(make, things))


def _node(api: Any, name: str) -> None:
    api.create_node(published(name))


def _pod(api: Any, place: tuple[str, int]) -> None:
    name, number = place
    create_pod(api, pod(f"{name}-{number}", node=name, limits=LIMITS))


def _run(plane: ControlPlane, *options: str) -> float:
    begun = time.monotonic()
    command = [sys.executable, "-m", "edgeagent", "fleet", "--kubeconfig", str(plane.admin_kubeconfig), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
