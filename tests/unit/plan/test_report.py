"""The page for people: sums that add up, unknown that is never 0, nothing that a terminal would obey."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.plan import explain, report
from edgeagent.plan.decide import decide
from edgeagent.plan.fitting import answer, models
from edgeagent.plan.fitting.fit import fit as fitted
from edgeagent.plan.report import Style, actions
from edgeagent.plan.report.head import in_short
from edgeagent.plan.report.style import render
from edgeagent.plan.state import State
from edgeagent.plan.types import Kill
from edgeagent.snapshot import recording, replay
from tests.unit.factories import Run, Scene
from tests.unit.plan.test_explain import SCENES, a_plan_with_everything
from tests.unit.snapshot.making import ABOUT, nvmap, orin, pod, process, write

BOARDS = sorted((Path(__file__).parents[2] / "boards").glob("*/snapshot"))
USUAL = Style()


def pages(folder: Path, style: Style = USUAL) -> list[str]:
    """The page of every sample."""
    found = recording.read(folder)
    return [
        report.text(
            explain.document(plan, at, found.config.reserves), report.background(plan, facts, recorded=True), style
        )
        for at, facts, plan in replay.looks(found)
    ]


def page(folder: Path, files: dict[str, Any], style: Style = USUAL) -> str:
    """The page of a snapshot of one sample."""
    (found,) = pages(write(folder, files), style)
    return found


def rows(text: str, title: str) -> list[str]:
    """The lines from ``title`` to the next blank line but one that follows it at once."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(title)) + 1
    start += lines[start] == ""
    return lines[
        start : next(index for index in range(start, len(lines) + 1) if lines[index : index + 1] in ([""], []))
    ]


def columns(lines: list[str]) -> list[list[str]]:
    """Each line cut where two blanks or more are."""
    return [re.split(r" {2,}", line.strip()) for line in lines]


CARD: dict[str, Any] = {
    "handle": 0,
    "name": "NVIDIA L4",
    "uuid": "GPU-1",
    "memory_v2": {"code": 0, "total": 10240 << 20, "reserved": 240 << 20, "used": 0, "free": 0},
    "compute": {"code": 0, "processes": []},
}
X86 = {"snapshot.yaml": ABOUT | {"arch": "x86_64"}, "host/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 1 kB\n"}


def nvml(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"nvml.json": {"library": "present", "init": 0, "devices": list(devices)}}


# --- pools ---------------------------------------------------------------------------


def test_a_pool_is_a_sum_that_adds_up(tmp_path: Path) -> None:
    # 7802736 kB are 7619.86 MiB; 768 + 512 + 256 are reserved; 6083.86 are left and 2048 of them requested.
    assert columns(rows(page(tmp_path, orin(1500)), "POOL  edgeagent.dev/gpu-memory, shared")) == [
        ["total", "7619.9 MiB"],
        ["− os", "768.0 MiB", "default: 6 % of the total, 768 MiB to 4 GiB"],
        ["− k3s", "512.0 MiB", "default: this node is no K3s server"],
        ["− cma", "0.0 MiB", "measured: CmaTotal, which GPUs cannot use"],
        ["− headroom", "256.0 MiB", "default: 2 %, at least 256 MiB"],
        ["− host parts of pods", "0.0 MiB", "of their memory requests"],
        ["= advertised", "6083.0 MiB", "in whole MiB"],
        ["requested by pods", "2048.0 MiB"],
        ["free to request", "4035.0 MiB"],
    ]


def test_where_a_reserve_was_set(tmp_path: Path) -> None:
    files = orin(0) | {
        "config.yaml": {"reserves": {"headroom": "1Gi"}},
        "host/etc/rancher/k3s/config.yaml": "kubelet-arg: [system-reserved=memory=2Gi]\n",
        "host/var/lib/rancher/k3s/server/token": "",
    }
    found = [row[1:] for row in columns(rows(page(tmp_path, files), "POOL"))]
    assert found[1:4] == [
        ["2048.0 MiB", "kubelet: system-reserved,"],
        [],
        ["2048.0 MiB", "default: this node is a K3s server"],
    ]
    assert found[5] == ["1024.0 MiB", "config: reserves.headroom"]


def test_a_bar_has_a_sign_for_each_part(tmp_path: Path) -> None:
    # 74 columns for 7619.86 MiB: 1500 used are 14.57, 548 idle 5.32, 4035.86 free 39.19, 1536 reserved 14.92.
    # Rounded down that is 72; the two largest rests get the last two columns.
    bar, *legend = rows(page(tmp_path, orin(1500)), "    free to request")
    assert bar == "  [" + "█" * 15 + "▒" * 5 + "·" * 39 + "-" * 15 + "]"
    shown = [part.strip() for line in legend for part in line.strip().split("   ")]
    assert shown == ["█ in use 1.46 GiB", "▒ booked, idle 548 MiB", "· free 3.94 GiB", "- reserved 1.50 GiB"]


def test_what_is_used_beyond_the_booking_has_a_sign_of_its_own(tmp_path: Path) -> None:
    # 3000 MiB used of 2048 booked.
    bar, legend, *_ = rows(page(tmp_path, orin(3000)), "    free to request")
    assert "!" in bar
    assert "! in use, not booked 952 MiB" in legend


def test_use_that_is_not_known_is_not_shown_as_idle(tmp_path: Path) -> None:
    files = {name: value for name, value in orin(0).items() if "nvmap" not in name}
    bar, *legend = rows(page(tmp_path, files), "    free to request")
    assert "?" in bar
    assert "▒" not in bar
    assert "? booked, use not known 2.00 GiB" in " ".join(legend)


def test_a_pool_that_gave_away_too_much(tmp_path: Path) -> None:
    big = pod()
    big["spec"]["containers"][0]["resources"]["limits"] = {"edgeagent.dev/gpu-memory": "7Gi"}
    files = orin(0) | {"cluster/pods.json": {"kind": "PodList", "items": [big]}}
    text = page(tmp_path, files)
    # 7168 - 6083.86 = 1084.14.
    assert columns(rows(text, "POOL"))[6:] == [
        ["= advertised", "7168.0 MiB", "never below what admitted pods hold"],
        ["requested by pods", "7168.0 MiB"],
        ["free to request", "0.0 MiB"],
        ["! overcommitted by", "1084.1 MiB", "pods have booked more than there is"],
    ]
    # as it stands in a file, for people to copy
    assert '  - "system-reserved=memory=768Mi"' in text.splitlines()


def test_commands_of_a_remedy_can_be_copied() -> None:
    words = "Make it, " + "and then see " * 10 + "what is there:"
    long = "kubectl annotate" + " key=value" * 12
    remedy = f"{words}\nkubectl apply -f - <<EOF\nkind: RuntimeClass\nEOF\n{long}"
    item = {"severity": "info", "id": "x", "certainty": "certain", "subject": "node", "summary": "", "remedy": remedy}
    text = render(actions.findings([item], Style()), Style()).splitlines()

    assert text[-4:] == ["kubectl apply -f - <<EOF", "kind: RuntimeClass", "EOF", long]
    assert max(map(len, text[:-1])) <= 80


@pytest.mark.parametrize(
    ("kind", "product", "said"),
    [
        ("none", None, "no NVIDIA GPU"),
        ("none", "NUC", "NUC, no NVIDIA GPU"),
        ("jetson", None, "unknown product (jetson)"),
    ],
)
def test_a_machine_without_a_gpu_is_no_unknown_product(kind: str, product: str | None, said: str) -> None:
    assert in_short({"kind": kind, "product": product}) == said


def test_cards(tmp_path: Path) -> None:
    text = page(tmp_path, X86 | nvml(CARD) | {"cluster/pods.json": {"items": []}})
    assert columns(rows(text, "POOL  edgeagent.dev/gpu-memory, the cards' own")) == [
        ["total", "10240 MiB", "what NVML says the cards have"],
        ["− driver", "240 MiB", "measured: NVML's reserved"],
        ["= advertised", "10000 MiB"],
        ["requested by pods", "0 MiB"],
        ["free to request", "10000 MiB"],
    ]
    assert "Survives" not in text


# --- who holds what ------------------------------------------------------------------


def test_pods_and_what_is_nobodys(tmp_path: Path) -> None:
    files = orin(0) | {
        "host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("llm", 4242, 3000 * 1024), ("Xorg", 7, 100 * 1024)),
        "host/proc/7/stat": process(7, "Xorg")["host/proc/7/stat"],
        "host/proc/7/cgroup": "0::/system.slice/gdm.service\n",
    }
    title, *found = page(tmp_path, files)[page(tmp_path, files).index("WHO HOLDS") :].splitlines()
    assert title.split() == ["WHO", "HOLDS", "WHAT", "GPU", "BUDGET", "HOST", "STATE"]
    assert columns(found[:5]) == [
        ["! default/llm", "2.93 GiB", "2.00 GiB", "unknown", "breach"],
        ["it uses 2.93 GiB of GPU memory, its budget is 2.00 GiB"],
        ["system", "100 MiB"],
        ["processes outside pods: Xorg 100 MiB"],
        ["unattributed", "0 MiB"],
    ]


def test_containers_only_where_there_are_several(tmp_path: Path) -> None:
    two = pod()
    two["spec"]["containers"].append({"name": "proxy"})
    two["status"]["containerStatuses"].append({"name": "proxy", "containerID": f"containerd://{'b' * 64}"})
    one, both = (
        page(tmp_path / name, orin(100) | {"cluster/pods.json": {"items": items}})
        for name, items in (("one", [pod()]), ("two", [two]))
    )
    assert "container main" not in one
    assert columns([line for line in both.splitlines() if "container main" in line]) == [
        ["container main", "100 MiB", "unknown"]
    ]
    assert "container proxy" in both


def test_a_long_name_is_whole(tmp_path: Path) -> None:
    name = "llama-server-" + "x" * 50
    text = page(tmp_path, orin(100) | {"cluster/pods.json": {"items": [pod(name)]}})
    assert f"  default/{name}" in text.splitlines()


def test_two_pools_stand_apart(tmp_path: Path) -> None:
    igpu = {"handle": 0, "name": "Orin (nvgpu)", "uuid": "0", "memory": {"code": 3}}
    text = page(tmp_path, orin(100) | nvml(igpu, CARD))
    assert [line for line in text.splitlines() if line.startswith("POOL")] == [
        "POOL  edgeagent.dev/gpu-memory, the cards' own",
        "POOL  edgeagent.dev/igpu-memory, shared by CPU and GPU",
    ]
    found = {row[0]: row[1:] for row in columns(rows(text, "WHO HOLDS WHAT"))}
    # It holds memory of a pool of which it has no budget; its host bytes have no cgroup to be read from.
    assert found["? default/llm"] == ["unknown", "unbudgeted"]
    assert found["gpu-memory"] == ["0 MiB", "2.00 GiB"]
    assert found["igpu-memory"] == ["100 MiB", "none"]


# --- what is done --------------------------------------------------------------------


def test_who_is_held_and_who_goes(tmp_path: Path) -> None:
    series = {
        "frames.yaml": [{"frame": "0000", "at": 0.0}, {"frame": "0001", "at": 8.0}, {"frame": "0002", "at": 16.0}]
    }
    first, second, third = pages(write(tmp_path, orin(3000) | series))
    assert "  hold    default/llm: grace, 15 s left" in first.splitlines()
    assert "  hold    default/llm: grace, 7 s left" in second.splitlines()
    assert "  ! evict default/llm, 30 s grace" in third.splitlines()
    assert "1 eviction due" in third


def test_observe_mode_is_said(tmp_path: Path) -> None:
    text = page(tmp_path, orin(3000) | {"config.yaml": {"mode": "observe"}})
    assert "  No pod is evicted: mode: observe is configured." in text.splitlines()


def test_a_board_with_nothing_to_do(tmp_path: Path) -> None:
    text = page(tmp_path, X86 | {"cluster/pods.json": {"items": []}})
    assert columns(rows(text, "PLAN")) == [["nothing to do"]]
    assert "no NVIDIA GPU, so no pool" in text


# --- what is not known ---------------------------------------------------------------


def gaps(text: str) -> str:
    return " ".join(text.split("\nNOT KNOWN\n")[1].split())


def test_what_is_not_known_and_what_would_tell(tmp_path: Path) -> None:
    files = {name: value for name, value in orin(0).items() if "nvmap" not in name and "cluster" not in name}
    text = page(tmp_path, files | {"host/dev/nvmap": "", "nvml.json": {"library": "present", "init": 999}})
    found = gaps(text)
    assert "the pods of this node: no cluster was asked" in found
    assert "record again with --kubeconfig FILE, or add cluster/pods.json to the snapshot" in found
    assert "NVML: nvmlInit answered 999" in found
    assert "who holds GPU memory: sys/kernel/debug/nvmap/iovmm/clients" in found
    assert "mount -t debugfs none /sys/kernel/debug" in found
    assert "Pods: not known" in text
    assert "in use 0" not in text


def test_a_live_board_asks_for_a_kubeconfig(tmp_path: Path) -> None:
    files = {name: value for name, value in orin(0).items() if "cluster" not in name}
    ((at, facts, plan),) = replay.looks(recording.read(write(tmp_path, files)))
    document = explain.document(plan, at, facts.config.reserves)
    text = report.text(document, report.background(plan, facts, recorded=False), USUAL)
    assert "give --kubeconfig FILE" in gaps(text)


def test_unknown_memory_is_no_zero(tmp_path: Path) -> None:
    files = {name: value for name, value in orin(100).items() if "meminfo" not in name}
    text = page(tmp_path, files)
    assert columns(rows(text, "MEMORY OF THE BOARD"))[:4] == [
        ["Neither available nor usable memory is known."],
        ["Survives, by eviction, one pod over its budget that fills it by up to"],
        ["unknown", "from now on: usable memory is not known"],
        ["unknown", "with all but the headroom in use: the headroom is not known"],
    ]
    assert "the board's memory: proc/meminfo" in gaps(text)


def test_a_card_without_a_library(tmp_path: Path) -> None:
    files = {"host/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n"}
    found = gaps(page(tmp_path, X86 | files))
    assert "NVML: there is no NVML library" in found
    assert "libnvidia-ml.so.1" in found


def test_what_is_survived_and_by_which_means(tmp_path: Path) -> None:
    text = " ".join(page(tmp_path, orin(100)).split())
    assert text.index("Survives, by eviction,") < text.index("Survives, by kill,")
    assert "0.1 s to read again who holds what, 0.02 s to the signal" in text
    assert "takes Linux 5.3 or later" in text


def test_nobody_is_saved_by_a_kill_where_none_is_allowed(tmp_path: Path) -> None:
    never = page(tmp_path / "never", orin(100) | {"config.yaml": {"policy": {"kill": "never"}}})
    assert "Survives, by kill" not in never
    assert "policy.kill is never" in never
    observed = page(tmp_path / "observe", orin(100) | {"config.yaml": {"mode": "observe"}})
    assert "Nothing is evicted or killed: mode: observe is configured. If it were:" in observed
    # First that nothing is done, then what would be.
    assert observed.index("Nothing is evicted or killed") < observed.index("Would survive, by eviction,")
    assert "Would survive, by kill," in observed
    assert "  Survives," not in observed


def test_nobody_is_saved_by_a_kill_on_a_kernel_without_pidfd(tmp_path: Path) -> None:
    files = orin(100) | {"host/etc/nv_tegra_release": "# R32 (release), REVISION: 7.1, GCID: 1, BOARD: t210ref\n"}
    text = page(tmp_path, files)
    assert "  By kill: not on this kernel (pidfd needs Linux 5.3)." in text.splitlines()
    assert "Survives, by kill" not in text


def test_which_grace_was_counted(tmp_path: Path) -> None:
    # 256 / 49.1 = 5.2: the leak that is evicted with 30 s.
    text = " ".join(page(tmp_path / "usual", orin(100)).split())
    assert "5 MiB/s with all but the headroom in use, 256 MiB usable, 30 s of grace" in text
    assert "over for 15 s before there is pressure has up to 30 s of grace" in text
    # With 2 s at most it is the fill that pressure does not outrun: 76 MiB/s.
    short = " ".join(page(tmp_path / "short", orin(100) | {"config.yaml": {"policy": {"max_grace": "2s"}}}).split())
    assert "76 MiB/s with all but the headroom in use, 256 MiB usable, 2 s of grace" in short


def test_which_card_has_which_number(tmp_path: Path) -> None:
    other = CARD | {"uuid": "GPU-0", "minor": 1}
    text = page(tmp_path, X86 | nvml(CARD | {"minor": 0}, other) | {"config.yaml": {"discrete": {"pools": "device"}}})
    assert [line.strip() for line in text.splitlines() if line.strip().startswith("GPU-")] == [
        "GPU-0, minor number 1",
        "GPU-1, minor number 0",
    ]
    assert [line.split()[1].rstrip(",") for line in text.splitlines() if line.startswith("POOL")] == [
        "edgeagent.dev/gpu-memory-0",
        "edgeagent.dev/gpu-memory-1",
    ]


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("sys/kernel/debug/nvmap/iovmm/clients: Permission denied", "run it as root: sudo edgeagent explain"),
        ("the table is empty", "on the board itself, as root: sudo edgeagent explain"),
    ],
)
def test_only_who_was_refused_is_told_to_be_root(tmp_path: Path, why: str, told: str) -> None:
    files = {name: value for name, value in orin(0).items() if "nvmap" not in name}
    ((_, facts, _),) = replay.looks(recording.read(write(tmp_path, files)))
    facts = replace(facts, host=replace(facts.host, nvmap=replace(facts.host.nvmap, why=why)))
    _, plan = decide(State(), facts, 0.0)
    document = explain.document(plan, 0.0, facts.config.reserves)
    live, recorded = (
        gaps(report.text(document, report.background(plan, facts, recorded=one), USUAL)) for one in (False, True)
    )
    assert told in live
    assert "record again on the board itself, as root: sudo edgeagent record DIR" in recorded
    assert "sudo edgeagent explain" not in recorded


# --- whether models fit --------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 20, 46, 60, 80, 120])
@pytest.mark.parametrize("length", [1, 40, 60, 63])
def test_no_name_and_no_width_breaks_the_answer(length: int, width: int) -> None:
    scene = Scene()
    plan, facts = Run().step(scene), scene.facts()
    wanted, problems = models.parse([f"{'n' * length}=gpu:1Gi,memory:2Gi", "big=gpu:64Gi,gpu-milli:250"])
    assert problems == ()
    document = explain.document(plan, 0.0, facts.config.reserves)
    found = fitted(plan, facts, wanted)
    long = answer.Room(key="edgeagent.dev/gpu-memory-" + "9" * 30, size=1, booked=0, asked=0)
    style = Style(width=width)
    text = report.fitting(document, replace(found, rooms=(*found.rooms, long)), style)
    assert "n" * length in text
    assert long.key in text
    assert "No: 1 of 2 does not fit." in text
    if width >= 60:
        usual = [line for line in text.splitlines() if long.key not in line and "n" * length not in line]
        assert max(map(len, usual)) <= width


@pytest.mark.parametrize("width", [1, 20, 60])
def test_no_width_breaks_a_page(width: int) -> None:
    plan = a_plan_with_everything()
    facts = Scene().facts()
    document = explain.document(plan, 15.0, facts.config.reserves)
    assert "PLAN" in report.text(document, report.background(plan, facts, recorded=True), Style(width=width))


# --- every kind of board -------------------------------------------------------------


@pytest.mark.parametrize("name", SCENES)
def test_every_kind_of_board_has_a_page(name: str) -> None:
    scene = SCENES[name]
    plan, facts = Run().step(scene), scene.facts()
    document = explain.document(plan, 0.0, facts.config.reserves)
    text = report.text(document, report.background(plan, facts, recorded=False), USUAL)
    always = ("MEMORY OF THE BOARD", "PLAN", "NODE")
    assert tuple(line for line in text.splitlines() if line in always) == always
    assert [line.split()[1].rstrip(",") for line in text.splitlines() if line.startswith("POOL")] == [
        pool["resource"] for pool in document["pools"]
    ]
    assert all(f"{pod['namespace']}/{pod['name']}" in text for pod in document["pods"])


def test_a_plan_with_everything_has_a_page() -> None:
    plan = replace(a_plan_with_everything(), kills=(Kill(uid="uid-a", processes=((4242, 7),), message="why"),))
    document = explain.document(plan, 15.0, Scene().config.reserves)
    text = report.text(document, report.background(plan, Scene().facts(), recorded=False), USUAL)
    assert "  ! kill  apps/a, processes 4242" in text.splitlines()
    assert all(held["code"] in text for held in document["plan"]["held"])
    assert all(finding["id"] in text for finding in document["findings"])
    # Static, critical and leaving pods have marks of their own.
    assert {line[0] for line in text.splitlines() if re.match(r". apps/", line)} == {" ", "!", "?", "+", "x"}


# --- the terminal --------------------------------------------------------------------


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.parent.name)
def test_a_page_fits_its_width(board: Path) -> None:
    for at, facts, plan in replay.looks(recording.read(board)):
        document = explain.document(plan, at, facts.config.reserves)
        behind = report.background(plan, facts, recorded=True)
        for width in (60, 80, 120):
            text = report.text(document, behind, Style(width=width))
            # A name, a label or a line of a file is never broken: people copy them.
            long = [line for line in text.splitlines() if len(line) > width]
            assert [line for line in long if len(line.split()[-1]) < 40] == []


def test_colour_is_only_added(tmp_path: Path) -> None:
    folder = write(tmp_path, orin(3000))
    (plain,), (colour,) = pages(folder), pages(folder, Style(colour=True))
    assert "\x1b[31m" in colour
    assert re.sub(r"\x1b\[\d+m", "", colour) == plain


def test_ascii_has_the_same_lines_and_columns(tmp_path: Path) -> None:
    folder = write(tmp_path, orin(3000))
    (usual,), (plain,) = pages(folder), pages(folder, Style(plain=True))
    assert plain.isascii()
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in usual.splitlines()]
    assert len(set(re.findall(r"\[(.+)\]\n", plain)[0])) == len(set(re.findall(r"\[(.+)\]\n", usual)[0]))


def test_names_from_outside_cannot_steer_the_terminal(tmp_path: Path) -> None:
    files = orin(100) | {
        "host/proc/device-tree/model": b"Board\x1b]0;title\x07 \xe2\x80\xaeleft\n\0",
        "host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("x\x1b[2J", 7, 1024)),
        "host/proc/7/stat": process(7, "x\x1b[2J")["host/proc/7/stat"],
        "host/proc/7/cgroup": "0::/system.slice/x.service\n",
    }
    usual, plain = page(tmp_path, files), page(tmp_path, files, Style(plain=True))
    assert re.findall(r"[^\n -~█▒·−→\ufffd]", usual) == []
    assert plain.isascii()
    assert "x?[2J 1 MiB" in plain
