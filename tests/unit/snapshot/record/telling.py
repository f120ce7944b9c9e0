"""What a board and its cluster say, asked for as a user does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent import cli
from edgeagent.snapshot import live
from tests.unit.snapshot.record.secretive import SECRETS

if TYPE_CHECKING:
    import pytest


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The document that ``explain`` prints."""
    capsys.readouterr()
    assert cli.main(["explain", "--format", "json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def answers(monkeypatch: pytest.MonkeyPatch, node: dict[str, Any], pods: list[dict[str, Any]]) -> None:
    """The API server has these objects, whichever is asked."""

    async def objects(*_: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return node, pods

    monkeypatch.setattr(live, "objects", objects, raising=False)


def everything(folder: Path) -> str:
    """Names, links and contents of all files, in small letters."""
    found = []
    for path in sorted(folder.rglob("*")):
        found.append(str(path.relative_to(folder)))
        if path.is_symlink():
            found.append(str(path.readlink()))
        elif path.is_file():
            found.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(found).lower()


def secrets_in(folder: Path) -> list[str]:
    """Those that can be found in a snapshot."""
    text = everything(folder)
    return [secret for secret in SECRETS if secret.lower() in text]
