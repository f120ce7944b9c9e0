"""The reference pages say what the program has: keys, defaults, commands, flags, values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from edgeagent import cli, config, quantity
from edgeagent.config import Config
from edgeagent.facts import GPU_MEMORY, ContainerFacts, NodeFacts, PodFacts
from edgeagent.memory import budgets
from edgeagent.memory.types import Board, BoardKind, Device, Health, Origin
from edgeagent.plan import conditions, labels, owners
from edgeagent.plan.breaches import Breach, PodState
from edgeagent.plan.types import HeldCode
from edgeagent.quantity import GIB, MIB

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
COMMANDS = (
    "run",
    "explain",
    "doctor",
    "budgets",
    "history",
    "record",
    "demo",
    "fleet observe",
    "fleet enforce",
    "fleet",
    "config check",
    "install",
    "uninstall",
    "status",
    "top",
    "completion",
)
CONFIGURATIONS = ("# /etc/edgeagent", "# try.yaml", "# observe.yaml")
"""How the examples of configurations begin."""


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row, title and rule left out."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def documented(text: str) -> dict[str, list[str]]:
    """The rows of all tables by the one name in backticks that their first cell consists of."""
    return {row[0].strip("`"): row for row in rows(text) if re.fullmatch(r"`[^`]+`", row[0])}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


# --- configuration -------------------------------------------------------------------


def keys(section: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for item in fields(section):
        value = getattr(section, item.name)
        if is_dataclass(value):
            yield from keys(value, (*path, item.name))
        else:
            yield ".".join((*path, item.name)), value


def nested(dotted: str, value: Any) -> Any:
    for part in reversed(dotted.split(".")):
        value = {part: value}
    return value


def test_every_configuration_key_is_documented_and_no_other() -> None:
    assert set(documented(page("reference/configuration.md"))) >= {key for key, _ in keys(Config())}
    dotted = {key for key in documented(page("reference/configuration.md")) if "." in key}
    assert dotted == {key for key, _ in keys(Config()) if "." in key}


@pytest.mark.parametrize("key", [key for key, _ in keys(Config())])
def test_the_documented_default_is_the_default(key: str) -> None:
    (_, _, default, _) = documented(page("reference/configuration.md"))[key]
    written = re.match(r"`([^`]+)`", default)
    assert written, f"the default of {key} begins with its value in backticks"

    loaded = config.load([("documentation", yaml.safe_dump(nested(key, yaml.safe_load(written[1]))))])

    assert dict(keys(loaded))[key] == dict(keys(Config()))[key]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_configuration_example_loads_and_changes_something(path: Path) -> None:
    examples = [block for block in blocks(path.read_text(encoding="utf-8"), "yaml") if block.startswith(CONFIGURATIONS)]

    assert all(config.load([(path.name, example)]) != Config() for example in examples)


def test_the_configuration_page_has_an_example() -> None:
    (example,) = blocks(page("reference/configuration.md"), "yaml")

    assert example.startswith("# /etc/edgeagent/config.yaml")


# --- the command line ----------------------------------------------------------------


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main([*command.split(), "--help"])
    return capsys.readouterr().out


def commands(text: str) -> set[str]:
    """Names of sub-commands in a help text: argparse puts each on a line of its own, four columns in."""
    return set(re.findall(r"^ {4}([a-z]+)(?: |$)", text, re.MULTILINE))


def flags(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - {"--help", "--version"}


def section(command: str) -> str:
    parts = page("reference/cli.md").split(f"\n## edgeagent {command}\n")
    assert len(parts) == 2, f"cli.md has one section about {command}"
    return parts[1].split("\n## ")[0]


def test_every_command_is_documented_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    top = commands(help_of("", capsys))
    below = {f"{name} {action}" for name in ("config", "fleet") for action in commands(help_of(name, capsys))}

    assert (top - {"config"}) | below == set(COMMANDS)
    assert set(re.findall(r"^## edgeagent (.+)$", page("reference/cli.md"), re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_documented_and_no_other(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = {flag for row in rows(section(command)) for flag in flags(row[0])}

    assert options == flags(help_of(command, capsys))


def test_the_exit_codes_are_documented() -> None:
    codes = {row[0] for row in rows(page("reference/cli.md")) if row[0].isdigit()}

    assert codes == {str(code) for code in (cli.OK, cli.PROBLEMS, cli.USAGE, cli.ALREADY_RUNNING)}


def test_commands_in_examples_exist(capsys: pytest.CaptureFixture[str]) -> None:
    started = re.compile(r"^    (?:\$ )?(?:sudo )?(?:\S*/)?edgeagent ([a-z].*)$", re.MULTILINE)
    lines = [(path.name, line) for path in PAGES for line in started.findall(path.read_text(encoding="utf-8"))]

    assert lines
    for name, line in lines:
        command = next((command for command in COMMANDS if line.startswith(command)), None)
        assert command, f"{name}: edgeagent {line}"
        assert flags(line.partition("#")[0]) <= flags(help_of(command, capsys)), f"{name}: edgeagent {line}"


# --- explain, node keys, snapshots ---------------------------------------------------


def schema_keys(schema: Mapping[str, Any], node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every key that the schema names, lists as ``pods[]``; ``node.capacity`` and the like have keys of any name."""
    if "$ref" in node:
        target: Any = schema
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    for option in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from schema_keys(schema, option, path)
    for key, below in node.get("properties", {}).items():
        where = f"{path}.{key}" if path else key
        yield where
        yield from schema_keys(schema, below, where)
    if "items" in node:
        yield from schema_keys(schema, node["items"], f"{path}[]")


def test_the_explain_page_has_the_keys_of_the_schema() -> None:
    schema = json.loads(page("reference/explain.schema.json"))
    wanted = set(schema_keys(schema, schema))
    parts = page("reference/explain.md").split("\n### ")
    tables = "\n".join([parts[0], *(part.partition("\n## ")[2] for part in parts[1:])])
    told = {key for key in documented(tables) if key in wanted or "." in key or "[]" in key}

    assert told == wanted


@pytest.mark.parametrize(
    "values", [BoardKind, Health, Origin, PodState, Breach, HeldCode], ids=lambda values: get_args(values)[0]
)
def test_every_value_is_on_the_explain_page(values: Any) -> None:
    text = page("reference/explain.md")

    assert [value for value in get_args(values) if f"`{value}`" not in text] == []


@pytest.mark.parametrize("kind", conditions.TYPES)
def test_every_condition_is_documented(kind: str) -> None:
    assert kind in documented(page("reference/node-keys.md"))


def part(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]


def test_every_label_is_documented_and_no_other() -> None:
    gpu = Device(uuid="u", name="n", memory="unified", health="ok")
    board = Board(
        kind="jetson",
        unified=True,
        signals=(),
        product="p",
        soc="tegra234",
        module="p3767-0005",
        l4t="36.4.4",
        jetpack="6.2.1",
        power_mode="MAXN_SUPER",
        driver_version="540.4.0",
        cuda_version="12.6",
        cuda_arch="8.7",
        devices=(gpu,),
    )
    wanted = {*labels.describe(board, GIB), labels.AI_CAPABLE}

    assert set(documented(part(page("reference/node-keys.md"), "Labels"))) == wanted


UNITS = {
    "quantity": ("1Gi", GIB),
    "MiB": ("1", MIB),
    "256 MiB": ("1", 256 * MIB),
    "GiB": ("1", GIB),
    "N": ("1", 8 * 10**9),
}
"""By the first words of a unit: a value as pods write it, and the bytes that it means (N is 8)."""


def foreign_keys() -> Iterator[tuple[str, str, str]]:
    """Each key of another project, where it stands and the first words of its unit."""
    for names, where, unit in list(rows(part(page("reference/node-keys.md"), "Keys of other projects")))[1:]:
        for key in re.findall(r"`([^`]+)`", names):
            yield key, where, re.split(r",| ×", unit)[0]


@pytest.mark.parametrize(("key", "where", "unit"), list(foreign_keys()))
def test_a_documented_key_of_another_project_is_a_budget_in_its_unit(key: str, where: str, unit: str) -> None:
    written, amount = UNITS[unit]
    name = key.replace("<name>", "a").replace("<N>", "8")
    limits = {name: quantity.parse(written)} if where == "limits" else {}
    annotations = {name: written} if where == "annotations" else {}
    container = ContainerFacts(name="a", kind="regular", limits=limits)
    pod = PodFacts(namespace="n", name="p", uid="u", containers=(container,), annotations=annotations)

    found = budgets.budget(pod, GPU_MEMORY, "unified", Config().policy, primary=True)

    assert (found.gpu, found.source, found.key) == (amount, "foreign", name)


@pytest.mark.parametrize(
    "mark", [row[0] for row in list(rows(part(page("reference/node-keys.md"), "Marks of other owners")))[1:]]
)
def test_a_documented_mark_of_another_owner_is_known(mark: str) -> None:
    for name in [name for name in re.findall(r"`([^`]+)`", mark) if name != "True"]:
        key, _, value = name.partition("=")
        node = NodeFacts(name="n", uid="u")
        if mark.startswith("label"):
            node = replace(node, labels={key: value or "any"})
        else:
            node = replace(node, conditions=({"type": key, "status": "True"},))

        assert owners.other_owner(node) is not None, name
