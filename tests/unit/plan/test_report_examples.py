"""The pages that the documentation shows are what the program prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.unit.snapshot.making import CONTAINER, UID, nvmap, orin, pod, write

ROOT = Path(__file__).parents[3]
DEMO = [
    "--host-root",
    str(ROOT / "edgeagent/demo/board/host"),
    "--nvml-replay",
    str(ROOT / "edgeagent/demo/board/nvml.json"),
]


def examples(name: str, beginning: str) -> list[str]:
    """The indented blocks of a page in which a line begins so, without their four blanks."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n(?:^\n(?=    ))?)+", text, re.MULTILINE)
    found = [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") for block in blocks]
    return [block for block in found if any(line.startswith(beginning) for line in block.splitlines())]


def shown(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    cli.main(["explain", *arguments])
    return capsys.readouterr().out


@pytest.mark.parametrize("beginning", ["NVIDIA Jetson Orin Nano", "POOL", "MEMORY OF THE BOARD"])
def test_the_tutorial(beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples("tutorial/first-steps.md", beginning)
    assert f"\n{example}\n" in "\n" + shown(capsys, DEMO)


def test_the_tutorials_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "try.yaml"
    settings.write_text("mode: observe\nreserves:\n  os: 1Gi\n")
    out = shown(capsys, [*DEMO, "--config", str(settings)])
    assert "1024.0 MiB  config: reserves.os\n" in out
    # 5827.86 - 256, rounded down.
    assert "= advertised           5571.0 MiB" in out


def test_the_reserves_before(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples("how-to/set-k3s-reserves.md", "POOL")
    assert f"\n{example}\n" in shown(capsys, DEMO)


def test_the_reserves_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples("how-to/set-k3s-reserves.md", "  − os                   1024.0 MiB")
    blocks = re.findall(
        r"```yaml\n# (\S+)\n(.*?)```", (ROOT / "docs/how-to/set-k3s-reserves.md").read_text(), re.DOTALL
    )
    (k3s, settings), (_, ours) = blocks
    meminfo = (ROOT / "edgeagent/demo/board/host/proc/meminfo").read_text()
    files: dict[str, Any] = {
        "host/proc/meminfo": meminfo,
        f"host{k3s}": settings,
        "host/proc/device-tree/compatible": b"nvidia,tegra234\0",
    }
    (tmp_path / "ours.yaml").write_text(ours)
    board = write(tmp_path / "board", files)
    out = shown(capsys, ["--host-root", str(board / "host"), "--config", str(tmp_path / "ours.yaml")])
    assert f"\n{example}\n" in out


def test_a_pod_without_a_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = pod(namespace="vision")
    del bare["spec"]["containers"][0]["resources"]
    assert_pods(tmp_path, capsys, bare, "how-to/size-a-pod.md")


def test_a_pod_within_its_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sized = pod()
    sized["spec"]["containers"][0]["resources"]["limits"]["memory"] = "3Gi"
    assert_pods(tmp_path, capsys, sized, "tutorial/first-steps.md")


def assert_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str], item: dict[str, Any], name: str) -> None:
    """The table of ``name`` is that of an Orin on which ``item`` uses 1.70 GiB of GPU and 505 MiB of host memory."""
    cgroup = f"host/sys/fs/cgroup/kubepods/burstable/pod{UID}"
    files = orin(0) | {
        # 1.70 x 1048576 KiB, rounded.
        "host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("llm", 4242, 1_782_579)),
        "cluster/pods.json": {"kind": "PodList", "items": [item]},
        "host/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    }
    for folder in (cgroup, f"{cgroup}/{CONTAINER}"):
        files[f"{folder}/memory.current"] = f"{505 << 20}\n"
        files[f"{folder}/memory.stat"] = "active_file 0\ninactive_file 0\nslab_reclaimable 0\n"
    (example,) = examples(name, "WHO HOLDS WHAT")
    # In the tutorial the command stands in the same block.
    example = example[example.index("WHO HOLDS WHAT") :]
    assert f"\n{example}\n" in shown(capsys, [str(write(tmp_path, files))])


@pytest.mark.parametrize("beginning", ["WOULD IT FIT?", "THE SUM", "WHAT WOULD HELP"])
def test_will_it_fit(beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples("how-to/will-it-fit.md", beginning)
    # The block of the answer begins with the command that it answers.
    example = example[example.index(beginning) :]
    assert f"\n{example}\n" in shown(capsys, [*DEMO, "--would-fit", "llm*2=gpu:2Gi,memory:3Gi"])


def test_the_questions_of_the_how_to_are_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs/how-to/will-it-fit.md").read_text(encoding="utf-8")
    asked = [shlex.split(line)[1:] for line in re.findall(r"--would-fit.*$", text, re.MULTILINE) if "=" in line]
    assert len(asked) == 3
    for models in asked:
        assert shown(capsys, [*DEMO, "--would-fit", *models]) != ""
    assert "Yes: all 2 fit" in shown(capsys, [*DEMO, "--would-fit", "llm*2=gpu:2Gi,memory:2560Mi"])
