"""A record of a recorded board is explained as that board is: nothing that decides gets lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from edgeagent.snapshot import live
from edgeagent.snapshot.record.redact import NODE
from tests.unit.snapshot.record import secretive
from tests.unit.snapshot.record.telling import answers, explain

BOARDS = sorted(path for path in (Path(__file__).parents[3] / "boards").glob("*/snapshot") if path.is_dir())
GIB = 1024**3


def uuids(value: Any) -> Iterator[str]:
    """Those of the devices in an nvml.json, in the order in which a document has them."""
    found = []
    for device in value.get("devices", ()):
        mig = device.get("mig", {})
        found += [one["uuid"] for one in (device, *mig.get("instances", ())) if isinstance(one.get("uuid"), str)]
    yield from sorted(found)


def neutral(text: str, names: dict[str, str]) -> Any:
    for name, other in names.items():
        text = text.replace(name, other)
    return json.loads(text)


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.parent.name)
def test_a_recorded_board(
    board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = board / "host"
    if not root.is_dir():
        root = tmp_path
    options = ["--host-root", str(root), "--nvml-replay", str(board / "nvml.json")]
    names = {}
    if (board / "cluster/pods.json").exists() and (board / "cluster/node.json").exists():
        node = json.loads((board / "cluster/node.json").read_text())
        answers(monkeypatch, node, json.loads((board / "cluster/pods.json").read_text())["items"])
        options += ["--kubeconfig", "somewhere"]
        names[f"/{node['metadata']['name']}/"] = f"/{NODE}/"
    alive = explain(capsys, *options)
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0
    assert "report it" not in capsys.readouterr().err
    recorded = explain(capsys, str(tmp_path / "snapshot"))

    told = list(uuids(json.loads((board / "nvml.json").read_text()))) if (board / "nvml.json").exists() else []
    names |= (
        dict(zip(told, uuids(json.loads((tmp_path / "snapshot/nvml.json").read_text())), strict=True)) if told else {}
    )
    assert recorded == neutral(json.dumps(alive), names)


def test_there_are_boards() -> None:
    assert len(BOARDS) > 1


def card(uuid: str, name: str, **more: Any) -> dict[str, Any]:
    memory = {"code": 0, "total": 16 * GIB, "reserved": GIB // 2, "used": GIB, "free": 14 * GIB}
    return {
        "handle": 0,
        "name": name,
        "uuid": uuid,
        "cuda_capability": [8, 6],
        "memory": memory,
        "memory_v2": memory,
        "compute": {"code": 0, "processes": []},
        **more,
    }


def test_devices_keep_their_order_and_the_form_of_their_uuids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A bare UUID that begins with a letter stands behind GPU-, one with a digit before it: "4" < "G" < "M" < "e".
    answers_of_nvml = {
        "library": "present",
        "devices": [
            card("e0000000-aaaa-4bbb-8ccc-000000000004", "fourth", memory={"code": 15}, memory_v2={"code": 15}),
            card("GPU-ffffffff-aaaa-4bbb-8ccc-000000000002", "second"),
            card(
                "GPU-00000001-aaaa-4bbb-8ccc-000000000009",
                "parent",
                mig={"mode": 1, "instances": [card("MIG-99999999-aaaa-4bbb-8ccc-000000000003", "unused")]},
            ),
            card("4fffffff-aaaa-4bbb-8ccc-000000000001", "first"),
        ],
    }
    (tmp_path / "root").mkdir()
    options = [
        *("--host-root", str(tmp_path / "root")),
        *("--nvml-replay", str(secretive.replay(tmp_path, answers_of_nvml))),
    ]
    alive = explain(capsys, *options)
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0
    recorded = explain(capsys, str(tmp_path / "snapshot"))

    names = ["first", "second", "parent MIG", "fourth"]
    assert [device["name"] for device in alive["devices"]] == names
    assert [device["name"] for device in recorded["devices"]] == names
    forms = [(device["uuid"][:-36], device["uuid"][-36].isdigit()) for device in recorded["devices"]]
    assert forms == [("", True), ("GPU-", False), ("MIG-", True), ("", False)]
    assert len({device["uuid"] for device in recorded["devices"]}) == 4
    assert [device["health"] for device in recorded["devices"]] == [device["health"] for device in alive["devices"]]


def test_a_driver_that_does_not_answer_is_no_missing_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "nvml.json"
    broken.write_text("{")
    (tmp_path / "root").mkdir()
    options = ["--host-root", str(tmp_path / "root"), "--nvml-replay", str(broken)]
    alive = explain(capsys, *options)
    assert cli.main(["record", str(tmp_path / "snapshot"), *options]) == 0
    assert "edgeagent: not recorded: NVML: nvml.json: not JSON" in capsys.readouterr().err
    recorded = explain(capsys, str(tmp_path / "snapshot"))

    assert alive["board"]["kind"] == recorded["board"]["kind"] == "unknown"
    assert json.loads((tmp_path / "snapshot/nvml.json").read_text()) == {"library": "present", "init": 999}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here may reach one by accident."""
    monkeypatch.delattr(live, "objects")
