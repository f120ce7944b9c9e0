"""Whether there is a cluster at all: known once credentials were looked for, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

from edgeagent.cluster.credentials import Credentials
from edgeagent.reconcile.link import Link


async def test_an_agent_is_standalone_only_after_it_has_looked_for_credentials(tmp_path: Path) -> None:
    nothing = Credentials(environ={}, service_account=tmp_path / "sa", k3s=Path("/kubeconfig"), root=tmp_path)
    link = Link(
        lambda: nothing,
        expected=False,
        name=mock.AsyncMock(),
        reconciler=mock.Mock(),
        changed=asyncio.Event(),
        clock=lambda: 0.0,
    )
    assert link.facts(0.0) is not None
    task = asyncio.create_task(link.run())
    await asyncio.wait_for(link.looked.wait(), 10)
    assert link.facts(0.0) is None
    assert link.standalone
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
