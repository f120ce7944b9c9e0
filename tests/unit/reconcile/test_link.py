"""Whether there is a cluster at all: known once credentials were looked for, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from edgeagent.cluster.credentials import Credentials
from edgeagent.reconcile.link import Link

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def made(credentials: Credentials) -> Link:
    return Link(
        lambda: credentials,
        expected=False,
        name=mock.AsyncMock(),
        reconciler=mock.Mock(),
        changed=asyncio.Event(),
        clock=lambda: 0.0,
    )


async def looked(link: Link) -> None:
    """One look for credentials."""
    task = asyncio.create_task(link.run())
    await asyncio.wait_for(link.looked.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_is_standalone_only_after_it_has_looked_for_credentials(tmp_path: Path) -> None:
    nothing = Credentials(environ={}, service_account=tmp_path / "sa", k3s=Path("/kubeconfig"), root=tmp_path)
    link = made(nothing)
    assert link.facts(0.0) is not None
    await looked(link)
    assert link.facts(0.0) is None
    assert link.standalone
    assert link.unusable == ""


async def test_a_kubeconfig_that_is_none_is_a_fault_and_not_standalone(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("garbage")
    link = made(Credentials(environ={}, service_account=tmp_path / "sa", k3s=Path("/kubeconfig"), root=tmp_path))

    await looked(link)

    assert not link.standalone
    assert link.facts(0.0) is not None
    assert link.unusable == f"{tmp_path / 'kubeconfig'} is not a kubeconfig"
    assert link.unusable in link.problem


async def test_a_service_account_with_a_broken_ca_is_a_fault_and_not_standalone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("garbage")
    pod = {"KUBERNETES_SERVICE_HOST": "10.43.0.1"}
    link = made(Credentials(environ=pod, service_account=tmp_path, k3s=None))

    await looked(link)

    assert not link.standalone
    assert link.unusable.startswith(f"{tmp_path} cannot be used: ")


async def test_a_file_that_was_repaired_ends_the_fault(tmp_path: Path) -> None:
    broken = Credentials(environ={}, service_account=tmp_path / "sa", k3s=Path("/kubeconfig"), root=tmp_path)
    (tmp_path / "kubeconfig").write_text("garbage")
    link = made(broken)
    await looked(link)

    (tmp_path / "kubeconfig").unlink()
    link.looked.clear()
    await looked(link)

    assert (link.standalone, link.unusable) == (True, "")


async def test_calls_are_counted_over_a_new_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeagent.reconcile.link.RETRY_SECONDS", 0.0)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    link = made(Credentials(environ={}, service_account=tmp_path / "sa", k3s=Path("/kubeconfig"), root=tmp_path))
    clients: list[Client] = []
    third = asyncio.Event()

    async def unnamed(client: Client) -> None:
        """Is called once a connection, and ends it."""
        clients.append(client)
        client.calls["GET", "200"] += 1
        if len(clients) == 3:
            third.set()
        client.last_success = 7.0 if len(clients) == 1 else client.last_success

    monkeypatch.setattr(link, "_name", unnamed)
    task = asyncio.create_task(link.run())
    await asyncio.wait_for(third.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len({id(client) for client in clients[:3]}) == 3
    assert link.latest is not None
    assert link.latest.calls["GET", "200"] == len(clients)
    assert link.latest.last_success == 7.0


@pytest.mark.parametrize("name", [None, "edge-07"])
async def test_a_client_is_nobodys_after_it_is_closed(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = asyncio.Event()
    client = mock.MagicMock(last_success=7.0)
    client.__aenter__.return_value = client
    monkeypatch.setattr("edgeagent.reconcile.link.Client", lambda *_, **__: client)
    monkeypatch.setattr("edgeagent.reconcile.link.ClusterView", lambda *_, **__: mock.Mock(stop=mock.AsyncMock()))
    link = Link(
        lambda: mock.Mock(access=mock.AsyncMock()),
        expected=True,
        name=mock.AsyncMock(return_value=name),
        reconciler=lambda *_: mock.Mock(start=opened.set, stop=mock.AsyncMock()),
        changed=asyncio.Event(),
        clock=lambda: 0.0,
    )
    client.__aexit__.side_effect = lambda *_: opened.set()
    task = asyncio.create_task(link.run())
    await asyncio.wait_for(opened.wait(), 10)
    assert link.client is (client if name else None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert link.client is None
    # When it was answered last is told still.
    assert link.latest is client
