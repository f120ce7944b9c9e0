"""``edgeagent run`` as a real process, driven from files, with a node's own credential."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.cluster.recorded import recorded_board
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from tests.controlplane.plane import ControlPlane

QUICK = "policy: {grace: 2s}\nsampling: {interval: 500ms, fast: 100ms, max_age: 5s}\n"
"""A configuration under which a breach matures within a test's patience."""


class AgentProcess:
    """One agent for ``node`` on the board at ``root``, between enter and exit.

    ``popen`` starts it: plainly, or inside the mount namespace of a host root.
    """

    def __init__(
        self,
        plane: ControlPlane,
        node: str,
        root: Path,
        folder: Path,
        *,
        config: str = QUICK,
        popen: Callable[..., subprocess.Popen[Any]] = subprocess.Popen,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.runtime = folder / "run"
        self.state = folder / "state/state.json"
        self.log = folder / "agent.log"
        (folder / "config.yaml").write_text(config)
        self.argv = [
            *(sys.executable, "-m", "edgeagent", "run", "--node", node, "--config", str(folder / "config.yaml")),
            *("--kubeconfig", str(plane.node_kubeconfig(node)), "--host-root", str(root)),
            *("--nvml-replay", str(recorded_board() / "nvml.json"), "--bind", "127.0.0.1:0"),
            *("--state-dir", str(folder / "state"), "--runtime-dir", str(self.runtime)),
        ]
        self._popen = popen
        self._process: subprocess.Popen[Any] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process and self._process.poll() is None:
            self.stop()
        if kind:
            sys.stdout.write(self.log.read_text())  # what a failing test shows

    def start(self) -> None:
        """Start it; returns when its endpoint answers."""
        address = self.runtime / "address"
        address.unlink(missing_ok=True)
        with self.log.open("a") as log:
            self._process = self._popen(self.argv, stdout=log, stderr=log)
        wait_for("the agent's endpoint", lambda: self._running() and address.exists(), seconds=30)

    def _running(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the agent ended: {self.log.read_text()}"
        return True

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(sig)
        return self._process.wait(timeout=20)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def text(self, path: str) -> str:
        """The body of a GET that succeeds."""
        url = f"http://{(self.runtime / 'address').read_text().strip()}{path}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read(), "utf-8")

    def get(self, path: str) -> tuple[int, Any]:
        """(status, parsed JSON) of a GET to the agent's endpoint."""
        url = f"http://{(self.runtime / 'address').read_text().strip()}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def reasons(self) -> set[str]:
        """Names of what keeps the agent from being ready."""
        return {reason["name"] for reason in self.get("/readyz")[1]["reasons"]}

    def wait_ready(self) -> None:
        wait_for("the agent ready", lambda: self.get("/readyz")[0] == 200, seconds=30)
