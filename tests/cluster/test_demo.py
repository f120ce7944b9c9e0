"""``edgeagent demo`` against the real API server and scheduler: what it shows is what happens in a cluster."""

from __future__ import annotations

import asyncio
import io
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from edgeagent.agent import Options
from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.config import Config, Node, Serve
from edgeagent.demo import play
from edgeagent.demo import setting as settings
from edgeagent.demo.apiserver import Request
from edgeagent.demo.narrator import Narrator
from tests.controlplane.plane import ControlPlane
from tests.unit.demo import conversation, order
from tests.unit.demo.performing import SPEED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.controlplane import audit

METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE", "get": "GET", "list": "GET", "watch": "GET"}


@pytest.mark.may_block("now and then the agent reads its own cost from /proc, a quarter of a millisecond")
async def test_the_story_happens_in_the_same_order(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    node, since, out = f"demo-{uuid.uuid4().hex[:8]}", datetime.now(timezone.utc), io.StringIO()
    agent = await asyncio.to_thread(control_plane.node_kubeconfig, node)
    config = replace(Config(), node=Node(node), serve=Serve(bind="127.0.0.1:0"))
    setting = settings.Setting(
        config=settings.hurried(config, SPEED),
        options=Options(kubeconfig=agent, host_root=tmp_path / "host", nvml_replay=tmp_path / "nvml.json"),
        board_nvml=tmp_path / "nvml.json",
        agent_kubeconfig=agent,
        kubeconfig=control_plane.admin_kubeconfig,
        runtime=tmp_path,
        namespace=namespace,
        speed=SPEED,
        clear=True,
    )

    assert await play.perform(setting, Narrator(out, {}), asyncio.Event())

    users = {f"system:node:{node}": settings.AGENT, "admin": settings.SCRIPT}
    log = await asyncio.to_thread(control_plane.audit, since=since)
    seen = order.Order([_received(one, users[one.user]) for one in log if one.user in users], node, namespace)
    for check in order.ALL:
        check(seen)
    assert "scheduler: 0/" in out.getvalue()


async def test_a_real_api_server_gives_the_answers_that_the_demo_gives(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    # Of its own: the scheduler's words count the other nodes, too.
    del control_plane
    with ControlPlane(tmp_path / "plane") as plane:
        async with Client(Credentials(plane.admin_kubeconfig)) as client:
            answers = await conversation.Conversation(client, "default").hold()

    assert answers == conversation.expected()


def _received(request: audit.Request, user: str) -> Request:
    return Request(
        at=request.received.timestamp(),
        user=user,
        method=METHODS.get(request.verb, request.verb),
        path=request.uri.partition("?")[0],
        query={},
        body=request.body,
        status=request.code or 0,
    )
