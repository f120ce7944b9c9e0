"""The tables of the reference have what the code has, and nothing else: each name is looked for in both directions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from edgeagent import config, facts
from edgeagent.config import Config
from edgeagent.diagnose.registry import RULES
from edgeagent.errors import ConfigError
from edgeagent.facts import BoardFiles, Nvml, NvmlDevice, Reading, RuntimeFacts
from edgeagent.memory import board, budgets
from edgeagent.memory.types import Board, BoardKind, Device, Health
from edgeagent.plan import conditions, hostmemory, owners
from edgeagent.plan.breaches import Breach, PodState
from edgeagent.plan.incidents import Ended, Kind
from edgeagent.plan.node import MODE, OWNED_KEYS
from edgeagent.plan.pressure import Danger
from edgeagent.plan.types import HeldCode, KillOutcome, Outcome
from edgeagent.watch import target
from tests.unit.test_docs import documented, keys, nested, page, part, rows

PACKAGE = Path(__file__).parents[2] / "edgeagent"
NODE_KEYS = "reference/node-keys.md"
EXPLAIN = "reference/explain.md"
HISTORY = "reference/history.md"


def names(cell: str) -> list[str]:
    """What stands in backticks in a cell of a table."""
    return re.findall(r"`([^`]+)`", cell)


def below(text: str, heading: str) -> str:
    """What stands below a heading of the third rank."""
    return text.split(f"\n### {heading}\n")[1].split("\n#", maxsplit=1)[0]


def table(text: str, title: str) -> list[list[str]]:
    """The rows of the table whose first title is ``title``, without its titles."""
    found = next(lines for lines in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if lines.startswith(f"| {title} |"))
    return list(rows(found))[1:]


# --- lists of values -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (HeldCode, lambda: table(below(page(EXPLAIN), "Held codes"), "code")),
        (PodState, lambda: table(below(page(EXPLAIN), "States"), "state")),
        (Outcome, lambda: table(page(HISTORY), "outcome of an eviction")),
        (KillOutcome, lambda: table(page(HISTORY), "outcome of a kill")),
        (Ended, lambda: table(page(HISTORY), "why it ended")),
        (Kind, lambda: table(page(HISTORY), "kind")),
    ],
    ids=["held", "states", "evictions", "kills", "ended", "incidents"],
)
def test_a_table_of_values_has_all_of_them_and_no_other(values: Any, told: Any) -> None:
    assert sorted(name for row in told() for name in names(row[0])) == sorted(get_args(values))


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (BoardKind, "board.kind"),
        (Health, "devices[].health"),
        (Breach, "plan.evictions[].breach"),
        (facts.MemoryKind, "devices[].memory"),
        (facts.MemoryKind, "pools[].kind"),
    ],
)
def test_a_row_of_values_has_all_of_them_and_no_other(values: Any, key: str) -> None:
    assert sorted(names(documented(page(EXPLAIN))[key][2])) == sorted(get_args(values))


def test_every_signal_of_a_board_is_documented_and_no_other() -> None:
    everything = BoardFiles(
        arch="aarch64",
        compatible=("nvidia,tegra234",),
        soc_family="Tegra",
        l4t_release="# R36 (release), REVISION: 4.4",
        devfreq=("ga10b",),
        nvmap=True,
        pci_displays=1,
        proc_driver="580.95.05",
        wsl=True,
    )
    device = Nvml(library="present", count=1, devices=(NvmlDevice(handle=0, name="Orin (nvgpu)"),))

    found = board.detect(everything, Reading(0.0, device), None)

    assert sorted(names(documented(page(EXPLAIN))["board.signals"][2])) == sorted(found.signals)


def test_what_keeps_a_kill_back_is_explained_where_kills_are() -> None:
    # The others are that the signal was sent.
    told = {name for row in table(page("explanation/decisions.md"), "check") for name in names(row[1])}

    assert told == set(get_args(KillOutcome)) - {"killed"}


# --- conditions ----------------------------------------------------------------------

BINARY = "/usr/bin/nvidia-container-runtime"
RUNTIMES = (
    RuntimeFacts(readable=False, path="config.toml"),
    RuntimeFacts(readable=True, path="config.toml"),
    RuntimeFacts(readable=True, path="config.toml", nvidia={"nvidia": (BINARY, True)}),
    RuntimeFacts(readable=True, path="config.toml", nvidia={"nvidia": (BINARY, False)}),
)
CALM = Danger(usable=1, floor=1, critical=1, drop=0.0, active=False, by_floor=False, need=0)
DANGERS = (CALM, replace(CALM, known=True), replace(CALM, known=True, by_floor=True))
BOARDS = [
    Board(
        kind=kind,
        unified=unified,
        signals=(),
        product=None,
        devices=(Device(uuid="u", name="n", memory="unified", health=health),) if health else (),
    )
    for kind, unified, health in product(get_args(BoardKind), (True, False), (*get_args(Health), None))
]


def test_every_reason_of_a_condition_is_documented_with_its_status_and_no_other() -> None:
    made = {
        (one.type, one.reason, one.status)
        for seen, runtime, danger, blamed in product(BOARDS, RUNTIMES, DANGERS, (None, hostmemory.Blame(None)))
        for one in conditions.conditions(seen, runtime, danger, blamed)
    }
    told = set()
    kind = ""
    for row in list(rows(part(page(NODE_KEYS), "Conditions")))[1:]:
        kind = row[0].strip("`") or kind
        told |= {(kind, reason, status) for reason in names(row[1]) for status in names(row[2])}

    assert told == made
    assert {kind for kind, _, _ in told} == set(conditions.TYPES)


# --- events and findings -------------------------------------------------------------


def calls(*called: str) -> Iterator[ast.Call]:
    """Every call in the package of something with one of these names."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in called:
                yield node


def text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def given(call: ast.Call, name: str, place: int) -> ast.expr | None:
    """An argument by its name, else by its place."""
    by_name = next((one.value for one in call.keywords if one.arg == name), None)
    return by_name or (call.args[place] if len(call.args) > place else None)


def test_every_reason_of_an_event_is_documented_with_what_it_is_about_and_no_other() -> None:
    made = {("pod", "Warning", text(given(call, "reason", 1))) for call in calls("pod_event")}
    made |= {("pod", "Warning", text(given(call, "reason", 0))) for call in calls("BudgetProblem")}
    for call in calls("event"):
        warning = given(call, "warning", 2)
        if isinstance(warning, ast.Constant):
            made.add(("node", "Warning" if warning.value else "Normal", text(given(call, "reason", 0))))
    # What only hands on the reason of somebody else says nothing of its own.
    made = {one for one in made if one[2]}
    told = {
        (about, kind, reason)
        for reason, about, kind, _ in list(rows(part(page(NODE_KEYS), "Events")))[1:]
        for reason in names(reason)
    }

    assert told == made


def test_no_event_is_made_beside_the_helpers() -> None:
    assert [text(given(call, "reason", 0)) for call in calls("Event") if text(given(call, "reason", 0))] == []


def test_every_finding_is_documented_with_its_severity_and_no_other() -> None:
    constants = {
        target.id: node.value.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def value(node: ast.expr | None) -> Any:
        return constants[node.id] if isinstance(node, ast.Name) else text(node)

    made = {(value(given(call, "id", 0)), value(given(call, "severity", 1))) for call in calls("Finding")}
    made -= {(None, None)}  # of a rule of the diagnosis, which has a page of its own

    assert made
    assert made <= {(rule.id, rule.severity) for rule in RULES}
    told = set(re.findall(r"\(findings\.md#([a-z-]+)\)", part(page(EXPLAIN), "findings")))
    assert told == {one for one, _ in made}


# --- keys ----------------------------------------------------------------------------


def test_every_resource_is_documented_and_no_other() -> None:
    told = set(documented(part(page(NODE_KEYS), "Resources")))

    assert told == {
        facts.GPU_MEMORY,
        facts.IGPU_MEMORY,
        facts.GPU_MILLI,
        f"{facts.GPU_MEMORY}-<minor>",
    }


def test_every_annotation_that_the_agent_reads_or_writes_is_documented() -> None:
    told = {name for row in table(page(NODE_KEYS), "on") for name in names(row[1])}
    policies = "\n".join(
        path.read_text(encoding="utf-8") for path in (PACKAGE.parent / "deploy/components/gpu-pods").glob("*.yaml")
    )

    agent = {MODE, OWNED_KEYS, budgets.LIMIT_ANNOTATION, target.PORT, target.PATH, target.METRIC}
    assert agent <= told
    assert {name for name in told - agent if name not in policies} == set()
    constants = re.findall(r"edgeagent\.dev/[a-z-]+", policies)
    resources = {facts.GPU_MEMORY, facts.IGPU_MEMORY, facts.GPU_MILLI}
    assert set(constants) - resources <= told | {"edgeagent.dev/"}


def test_every_key_of_another_project_is_documented() -> None:
    told = {name for row in list(rows(part(page(NODE_KEYS), "Keys of other projects")))[1:] for name in names(row[0])}
    source = (PACKAGE / "memory/budgets.py").read_text(encoding="utf-8")
    read = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    keys_read = {
        value
        for value in read
        if isinstance(value, str) and re.fullmatch(r"[a-z.-]+\.[a-z]+/[a-z.-]+|kube-share/[a-z-]+", value)
    }
    counts = {"nvidia.com/gpu", "volcano.sh/vgpu-number"}  # how many of them, beside their memory

    assert keys_read - counts - told == set()
    # Those with a number or a name inside are patterns in the code, and one has no domain.
    assert told - keys_read == {
        "nvidia.com/container.<name>.gpu-memory.limit",
        "nvidia.com/gpu-<N>gb",
        "gpu-memory",
    }


def test_every_mark_of_another_owner_is_documented() -> None:
    source = (PACKAGE / "plan/owners.py").read_text(encoding="utf-8")
    projects = {"HAMi", "gpushare", "KubeShare", "nos", "KAI"}
    told = list(rows(part(page(NODE_KEYS), "Marks of other owners")))[1:]
    marks = {mark.partition("=")[0] for row in told for mark in names(row[0])} - {"True"}

    assert {row[1] for row in told} == projects
    assert owners.other_owner(None) is None
    known = {
        element.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Dict)
        for key in node.keys
        for element in (key.elts[:1] if isinstance(key, ast.Tuple) else [key])
        if isinstance(element, ast.Constant)
    }
    assert marks == known


# --- the types of the configuration ----------------------------------------------------

SAMPLES: dict[str, tuple[list[Any], list[Any]]] = {
    "duration": (["15s", "250ms", "2min", "1h"], [15, "15", "5Mi", "0s", True]),
    "size": (["512Mi", "1G", 1073741824, 0], ["6%", "15s", -1, True]),
    "size or percentage": (["512Mi", "6%", 0], ["101%", "15s", -1, True]),
    "text": (["a"], [1, "", True]),
    "true or false": ([True, False], ["on", 1, 0]),
    "whole number": ([0, 6], [-1, 0.5, "6", True]),
    "list of texts": ([["a", "b"], []], ["a", [1]]),
    "true, false or a label key": ([True, False, "example.com/ai"], ["a b", 1]),
    "`ADDRESS:PORT`": (["127.0.0.1:1", "[::1]:9843"], ["127.0.0.1", 9843, "127.0.0.1:70000"]),
    "`{cert: FILE, key: FILE}`": ([{"cert": "a", "key": "b"}], [{"cert": "a"}, "a"]),
}
"""By a type as the page writes it: what a setting of the type takes, and what it refuses."""


def field_of(key: str) -> tuple[Any, Any]:
    """How the value of a key is checked, and the type of the setting."""
    section: Any = Config
    *above, last = key.split(".")
    for name in above:
        section = get_type_hints(section)[name]
    return section.__dataclass_fields__[last].metadata["check"], get_type_hints(section)[last]


def takes(check: Any, value: Any) -> bool:
    try:
        check(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("key", [key for key, _ in keys(Config())])
def test_a_setting_takes_what_its_documented_type_says_and_nothing_else(key: str) -> None:
    (_, kind, default, _) = documented(page("reference/configuration.md"))[key]
    check, hint = field_of(key)
    if kind.startswith("one of "):
        allowed = names(kind)
        assert allowed == list(get_args(hint))
        good, bad = list(allowed), ["other", 1, *([] if key == "unified.detect" else [True])]
    else:
        good, bad = SAMPLES[kind]

    assert [value for value in good if not takes(check, value)] == []
    assert [value for value in bad if takes(check, value)] == []
    assert takes(check, None) == default.startswith("`null`")


def test_every_section_of_the_configuration_has_its_heading() -> None:
    headings = re.findall(r"^## ([a-z0-9]+)$", page("reference/configuration.md"), re.MULTILINE)
    text_of = page("reference/configuration.md")

    assert set(headings) == {key.partition(".")[0] for key, _ in keys(Config()) if "." in key}
    for heading in headings:
        assert {key.partition(".")[0] for key in documented(part(text_of, heading)) if "." in key} == {heading}


@pytest.mark.parametrize("rule", part(page("reference/configuration.md"), "Rules between keys").strip().splitlines())
def test_a_rule_between_keys_is_kept(rule: str) -> None:
    broken = {
        "`sampling.fast`": {"sampling.fast": "3s", "sampling.interval": "2s"},
        "`pressure.critical`": {"pressure.critical": "2Gi", "pressure.floor": "1Gi"},
        "`serve.bind`": {"serve.bind": "0.0.0.0:9843"},
    }
    settings = next(values for name, values in broken.items() if rule.startswith(f"- {name}"))
    documents = [(key, str(nested(key, value)).replace("'", '"')) for key, value in settings.items()]

    with pytest.raises(ConfigError) as refused:
        config.load(documents)

    assert any(names(rule)[0] in problem for problem in refused.value.problems)
