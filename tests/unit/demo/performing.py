"""What it takes to perform the demo in a test."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeagent.agent import Options
from edgeagent.config import Config, Node, Serve
from edgeagent.demo import setting as settings

SPEED = 20.0


async def setting(folder: Path, config: Config, url: str, **changes: Any) -> settings.Setting:
    """A setting below ``folder``, with credentials for the demo's own API server at ``url``."""
    given = settings.Setting(
        config=settings.hurried(replace(config, node=Node(settings.NODE), serve=Serve(bind="127.0.0.1:0")), SPEED),
        options=Options(kubeconfig=folder / "agent", host_root=folder / "host", nvml_replay=folder / "nvml.json"),
        board_nvml=folder / "nvml.json",
        agent_kubeconfig=folder / "agent",
        kubeconfig=folder / "script",
        runtime=folder,
        speed=SPEED,
        **changes,
    )
    for path, user in ((given.agent_kubeconfig, settings.AGENT), (given.kubeconfig, settings.SCRIPT)):
        await asyncio.to_thread(settings.write_kubeconfig, path, url, user)
    return given
