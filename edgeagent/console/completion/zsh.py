"""Completion for zsh, by its own ``_arguments``: in a folder of ``fpath``, or read with ``source``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgeagent.console.completion.tree import Command, Option, Value

_HEAD = """\
#compdef {program}
# Completion of {program} for zsh, written by: {program} completion zsh

"""
_END = """\
if [[ $funcstack[1] == _{program} ]]; then
    _{program} "$@"
else
    compdef _{program} {program}
fi
"""
_BELOW = """\
    case $state in
        command)
            local -a commands=(
{commands}
            )
            _describe -t commands command commands && ret=0
            ;;
        rest)
            case $line[1] in
{calls}
            esac
            ;;
    esac
"""
_ACTIONS = {"file": "_files", "folder": "_files -/", "other": ""}


def script(root: Command, program: str) -> str:
    """The whole script; ``program`` is the name of the command."""
    functions = "".join(_function(command, program) for command in root.all())
    return _HEAD.format(program=program) + functions + _END.format(program=program)


def _name(path: tuple[str, ...], program: str) -> str:
    return "_".join(("", program, *path))


def _function(command: Command, program: str) -> str:
    arguments = " \\\n        ".join(["    _arguments -C", *_arguments(command)])
    below = ""
    if command.commands:
        listed = "\n".join(f"                {_quoted(f'{one.path[-1]}:{one.help}')}" for one in command.commands)
        calls = "\n".join(
            f"                {one.path[-1]}) {_name(one.path, program)} && ret=0 ;;" for one in command.commands
        )
        below = _BELOW.format(commands=listed, calls=calls)
    return (
        f"{_name(command.path, program)}() {{\n"
        "    local curcontext=$curcontext state state_descr line ret=1\n"
        "    typeset -A opt_args\n"
        f"{arguments} && ret=0\n{below}    return ret\n}}\n\n"
    )


def _arguments(command: Command) -> Iterator[str]:
    for option in command.options:
        yield from _option(option)
    if command.commands:
        yield "'1:command:->command'"
        yield "'*::argument:->rest'"
    for value in command.values:
        yield _quoted(f"*:{_plain(value.name)}:{_action(value)}")


def _option(option: Option) -> Iterator[str]:
    """Each name by itself; one that was given keeps the others from being offered."""
    others = "" if option.repeats else f"({' '.join(option.names)})"
    for name in option.names:
        value, sign = "", ""
        if option.value:
            value = f":{_plain(option.value.name)}:{_action(option.value)}"
            sign = "=" if name.startswith("--") else "+"
        yield _quoted(f"{others}{name}{sign}[{_plain(option.help)}]{value}")


def _action(value: Value) -> str:
    return f"({' '.join(value.choices)})" if value.kind == "choice" else _ACTIONS[value.kind]


def _plain(text: str) -> str:
    """Without what has a meaning in a specification."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
