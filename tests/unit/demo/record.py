"""Hold the conversation with a real control plane, and write down its answers: ``python -m tests.unit.demo.record``."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from tests.controlplane.plane import ControlPlane
from tests.unit.demo.conversation import ANSWERS, Conversation


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder) / "plane") as plane:
        answers = asyncio.run(_hold(plane.admin_kubeconfig))
    ANSWERS.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


async def _hold(kubeconfig: Path) -> object:
    async with Client(Credentials(kubeconfig)) as client:
        return await Conversation(client, "default").hold()


if __name__ == "__main__":
    main()
