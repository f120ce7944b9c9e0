"""What ``edgeagent record`` keeps of devices: the same is found in the snapshot as on the board, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent import cli
from tests.cases.machines import R36, RELEASE
from tests.cases.making import KEY, pods
from tests.diagnose.making import CSV, LIBCUDA, PODS, Capture, creating, healthy, without
from tests.diagnose.test_recorded import SECRET, board

if TYPE_CHECKING:
    import pytest

SAID = f"Error by {SECRET}: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=9: unknown"


def test_the_snapshot_is_diagnosed_as_the_board(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"runtimeClassName": "nvidia", "securityContext": {"runAsUser": 1000, "seLinuxOptions": {"user": SECRET}}}
    stuck = creating(limits={KEY: "1Gi"}, spec=spec, annotations={"cdi.k8s.io/gpu": "nvidia.com/gpu=7"})
    stuck["spec"]["containers"][0]["image"] = f"{SECRET}.example/x:jp7-cu130"
    state = {"waiting": {"reason": "RunContainerError", "message": SAID}}
    stuck["status"]["containerStatuses"][0]["state"] = state
    twice = f"kind: nvidia.com/gpu\ndevices: [{{name: all, token: {SECRET}}}]\n"
    files = healthy(
        **{
            PODS: pods(stuck),
            RELEASE: R36,
            CSV: f"lib, {LIBCUDA}\n# {SECRET}\n",
            "host/etc/cdi/nvidia.yaml": twice,
            "host/etc/cdi/nvidia.json": json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": "all"}]}),
            "host/proc/sys/kernel/osrelease": "5.10.120-tegra\n",
        }
    )
    options = board(tmp_path / "board", monkeypatch, without(files, f"host{LIBCUDA}"))
    target = tmp_path / "snapshot"
    assert cli.main(["record", str(target), *options]) == 0
    assert capsys.readouterr().err == ""  # nothing differs
    assert cli.main(["doctor", str(target), "--format", "json"]) == 1
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert set(found) == {
        "cdi-duplicate-kind",
        "cdi-name-unresolved",
        "csv-files-missing",
        "device-node-permission",
        "driver-mismatch",
        "image-too-new",
    }
    assert "nvidia.com/gpu=7, nvidia.com/gpu=9" in found["cdi-name-unresolved"]["summary"]
    texts = [path.read_text(errors="replace") for path in target.rglob("*") if path.is_file()]
    assert [text for text in texts if SECRET in text] == []
