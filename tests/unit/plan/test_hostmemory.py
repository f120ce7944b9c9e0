"""Pressure by the host itself: the condition names who, the finding says how much and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import HostProcess, Process
from edgeagent.plan import cadence
from edgeagent.plan.types import Plan
from tests.unit.factories import GIB, MIB, Held, Run, Scene, at, card, card_scene, meminfo, node, pod

# 8 GiB: os max(768 MiB, 6 % = 491.5 MiB) = 768, k3s 512 MiB, headroom 256 MiB, floor max(128, 256 / 2) = 128 MiB.
LOW = meminfo(8 * GIB, available=100 * MIB, anon_pages=2 * GIB)
OLLAMA = HostProcess(pid=812, name="ollama", bytes=300 * MIB, unit="ollama.service")
BUILD = HostProcess(pid=900, name="cc1plus", bytes=GIB, unit="session-3.scope of user-1000.slice")
MODEL = Process(pid=812, start_ticks=3, name="ollama")
SCENE = Scene(meminfo=LOW, extra=((MODEL, 4 * GIB),), host_processes=(OLLAMA, BUILD))
"""2 GiB of host memory and 4 GiB of GPU memory are outside pods, 1280 MiB are reserved for them."""
BEFORE = "Usable memory is below the floor, and processes outside pods use more than what is reserved for them: "


def condition(plan: Plan) -> tuple[str, str]:
    found = plan.node.conditions[0]
    return found.reason, found.message


def under_pressure(**changes: Any) -> Plan:
    return Run().steps(replace(SCENE, **changes), 0.0, 2.0)


def named(process: HostProcess) -> str:
    """What is told of a process that is the only one."""
    reason, message = condition(under_pressure(host_processes=(process,), extra=((MODEL, 4 * GIB),)))
    assert reason == "HostMemory"
    return message.removeprefix(f"{BEFORE}the largest is ").removesuffix(".")


def test_the_condition_names_the_largest_with_its_unit() -> None:
    # 300 MiB + 4 GiB are more than 1 GiB.
    assert condition(under_pressure()) == (
        "HostMemory",
        f"{BEFORE}the largest is ollama (pid 812, ollama.service).",
    )
    # The model let go of its memory: what is left are 1.5 GiB outside pods, above the 1280 MiB.
    quiet = replace(LOW, anon_pages=1536 * MIB)
    assert condition(under_pressure(meminfo=quiet, extra=())) == (
        "HostMemory",
        f"{BEFORE}the largest is cc1plus (pid 900, session-3.scope of user-1000.slice).",
    )


def test_without_a_unit_none_is_told() -> None:
    assert named(replace(OLLAMA, unit="")) == "ollama (pid 812)"


def test_it_says_when_none_could_be_read() -> None:
    assert condition(under_pressure(host_processes=())) == ("HostMemory", f"{BEFORE}which process could not be read.")


def test_until_they_were_looked_through_the_memory_is_just_low() -> None:
    run = Run()
    run.step(replace(SCENE, host_processes=None))
    second = run.step(at(replace(SCENE, host_processes=None), 2.0))
    assert condition(second)[0] == "MemoryBelowFloor"
    assert second.findings == ()
    assert condition(run.step(at(SCENE, 3.0)))[0] == "HostMemory"


def test_they_are_looked_through_only_while_the_host_is_over_and_memory_near_its_end() -> None:
    assert not cadence.host_processes(None)
    run = Run()
    # Over, with room; then below the floor in one reading, in two, and above it with the pressure not yet over.
    room = replace(LOW, available=4 * GIB)
    seen = [
        cadence.host_processes(run.step(at(replace(SCENE, meminfo=info), second)))
        for second, info in ((0.0, room), (60.0, LOW), (62.0, LOW), (64.0, room))
    ]
    assert seen == [False, True, True, True]
    # 1 GiB in all is within the 1280 MiB.
    within = replace(SCENE, meminfo=replace(LOW, anon_pages=GIB), extra=())
    assert not cadence.host_processes(Run().steps(within, 0.0, 2.0))
    # Nor where nobody knows what the driver holds.
    assert not cadence.host_processes(Run().steps(replace(SCENE, readable=False), 0.0, 2.0))


def test_above_the_floor_nobody_is_named() -> None:
    plan = Run().step(replace(SCENE, meminfo=replace(LOW, available=4 * GIB)))
    assert condition(plan)[0] == "MemoryAboveFloor"
    assert plan.findings == ()


def test_pods_that_fill_the_board_leave_the_host_out_of_it() -> None:
    # The pod's 5 GiB are its own: 2 GiB of host memory less its 1.5 GiB are 512 MiB outside pods.
    scene = replace(SCENE, pods=(pod("a", 2 * GIB),), held={"a": Held(gpu=5 * GIB, host=1536 * MIB)}, extra=())
    assert condition(Run().steps(scene, 0.0, 2.0))[0] == "MemoryBelowFloor"


def test_another_name_is_no_reason_to_write() -> None:
    # What the node has was written when the pressure began, and named another process.
    plan = under_pressure()
    written = tuple(
        {"type": one.type, "status": one.status, "reason": one.reason, "message": "the largest is cc1plus (pid 900)."}
        for one in plan.node.conditions
    )
    found = node(conditions=written)
    again = under_pressure(node=found)
    assert condition(again)[0] == "HostMemory"
    assert not [one for one in again.node.requests if "conditions" in one.body.get("status", {})]
    # The control: another reason is one.
    other = under_pressure(node=found, host_processes=None)
    assert [one for one in other.node.requests if "conditions" in one.body.get("status", {})]


def test_the_finding_has_the_figures_and_what_to_do() -> None:
    (found,) = under_pressure().findings
    assert (found.id, found.severity, found.subject) == (
        "host-over-reserve",
        "error",
        "pool edgeagent.dev/gpu-memory",
    )
    # 4 GiB + 2 GiB outside pods; 768 + 512 MiB; 300 MiB + 4 GiB = 4396 MiB = 4.29 GiB.
    assert found.summary == (
        "Processes outside pods hold 6.00 GiB, 1.25 GiB is reserved for them, and usable memory is below the floor. "
        "The largest is ollama (pid 812, ollama.service) with 4.29 GiB."
    )
    assert found.evidence == (
        f"outside pods: {6 * GIB}",
        f"os: {768 * MIB} (default)",
        f"k3s: {512 * MIB} (default)",
        f"ollama (pid 812, ollama.service), GPU: {4 * GIB}",
        f"ollama (pid 812, ollama.service), own: {300 * MIB}",
    )
    # 6144 less the 512 of k3s.
    assert found.remedy.splitlines() == [
        "Stop it, run it in a pod with a budget, or set reserves.os to 5632Mi or more, which then no pod is offered.",
        "To stop it:",
        "sudo systemctl stop ollama.service",
        "Or to reserve what it needs:",
        "sudo mkdir -p /etc/edgeagent/config.d",
        "echo 'reserves: {os: 5632Mi}' | sudo tee /etc/edgeagent/config.d/99-reserves.yaml",
        "edgeagent config check && sudo systemctl reload edgeagent",
    ]


@pytest.mark.parametrize(
    ("unit", "command"),
    [
        ("app.scope of user-1000.slice", "sudo kill 812"),
        ("x;reboot.service", "sudo kill 812"),
        ("", "sudo kill 812"),
        ("x.service of user-1000.slice", "sudo kill 812"),
    ],
)
def test_what_is_no_service_of_the_system_is_ended_by_its_pid(unit: str, command: str) -> None:
    (found,) = under_pressure(host_processes=(replace(OLLAMA, unit=unit),)).findings
    assert command in found.remedy.splitlines()
    assert "systemctl stop" not in found.remedy


def test_nobody_is_told_to_stop_k3s() -> None:
    (found,) = under_pressure(host_processes=(replace(OLLAMA, unit="k3s-agent.service"),)).findings
    assert found.remedy.startswith("Set reserves.os to 5632Mi or more, ")
    assert "stop" not in found.remedy


def test_the_finding_where_none_could_be_read() -> None:
    (found,) = under_pressure(host_processes=()).findings
    assert found.summary.endswith("Which one could not be read.")
    assert found.remedy.startswith("Stop what the board can do without, ")
    assert len(found.evidence) == 3


def test_a_figure_that_is_not_known_is_not_0() -> None:
    (found,) = under_pressure(host_processes=(replace(OLLAMA, bytes=None),)).findings
    assert found.evidence[-1] == "ollama (pid 812, ollama.service), own: unknown"


def test_on_a_board_with_a_card_of_its_own_the_host_is_not_judged() -> None:
    scene = replace(card_scene(card()), meminfo=LOW, host_processes=(OLLAMA,))
    plan = Run().steps(scene, 0.0, 2.0)
    assert condition(plan)[0] == "MemoryNotShared"
    assert plan.findings == ()


@pytest.mark.parametrize("name", ["ollama", "tmux: server", "Web Content", "python3.10", "c++", "kworker/0:1", "büro"])
def test_an_ordinary_name_is_told_as_it_is(name: str) -> None:
    assert named(replace(OLLAMA, name=name)) == f"{name} (pid 812, ollama.service)"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("(sd-pam)", "'(sd-pam)'"),
        ("x (pid 1, y)", "'x (pid 1, y)'"),
        ("a\nb", r"'a\nb'"),
        ("\x1b[2J", r"'\x1b[2J'"),
        ("\x9b2J", r"'\x9b2J'"),
        ("\u202egpj.exe", r"'\u202egpj.exe'"),
        ("\udcff\udcfe", r"'\udcff\udcfe'"),
        ("it's", '"it\'s"'),
        (" ollama ", "' ollama '"),
        ("end.", "'end.'"),
        ("", "''"),
    ],
)
def test_any_other_name_stands_in_quotes_and_does_nothing(name: str, told: str) -> None:
    found = named(replace(OLLAMA, name=name))
    assert found == f"{told} (pid 812, ollama.service)"
    assert found.isprintable()
    found.encode()


def test_a_name_of_any_length_ends() -> None:
    # No kernel has one as long; a file may.
    assert named(replace(OLLAMA, name="x" * 5000)) == f"{'x' * 64} (pid 812, ollama.service)"
