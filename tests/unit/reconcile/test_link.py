"""Whether there is a cluster at all: known once credentials were looked for, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

from edgeagent.cluster.credentials import Credentials
from edgeagent.reconcile.link import Link


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
