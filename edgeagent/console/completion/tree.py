"""Commands, options and what stands after them, as far as a shell can complete them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["file", "folder", "choice", "other"]
"""What a value is: ``other`` is nothing that a shell could know."""
_KINDS: dict[str, Kind] = {"FILE": "file", "SNAPSHOT": "file", "DIR": "folder"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Something to be written."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option with all its names."""

    names: tuple[str, ...]
    help: str
    value: Value | None
    """None: it takes none."""
    repeats: bool
    """More than one value, or more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, or the program itself, whose path is empty."""

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    values: tuple[Value, ...]
    """What stands behind it, in order."""
    commands: tuple[Command, ...]

    def all(self) -> Iterator[Command]:
        """It, and all below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def command(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), told: str = "") -> Command:
    """The command that ``parser`` parses; ``told`` says what it does."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001 (argparse has no public way to look into a parser)
    return Command(
        path=path,
        help=told,
        options=tuple(_option(action) for action in _shown(parser) if action.option_strings),
        values=tuple(_value(action) for action in _shown(parser) if not action.option_strings),
        commands=tuple(one for action in below for one in _commands(action, path)),
    )


def _commands(action: argparse._SubParsersAction[argparse.ArgumentParser], path: tuple[str, ...]) -> Iterator[Command]:
    told = {choice.dest: _help(choice) for choice in action._choices_actions}  # noqa: SLF001
    for name, parser in action.choices.items():
        yield command(parser, (*path, name), told.get(name, ""))


def _shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001
        if not isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS:  # noqa: SLF001
            yield action


def _option(action: argparse.Action) -> Option:
    return Option(
        names=tuple(action.option_strings),
        help=_help(action),
        value=None if action.nargs == 0 else _value(action),
        repeats=action.nargs in ("+", "*"),
    )


def _value(action: argparse.Action) -> Value:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        return Value(name=name, kind="choice", choices=tuple(map(str, action.choices)))
    return Value(name=name, kind=_KINDS.get(name, "other"))


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")
