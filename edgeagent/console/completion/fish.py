"""Completion for fish 3 or later."""

from __future__ import annotations

from collections.abc import Iterator

from edgeagent.console.completion.tree import Command, Option, Value

_HEAD = """\
# Completion of {program} for fish, written by: {program} completion fish

# Whether the words before the cursor lead to this command, the values of options passed over.
function __{program}_at
    set -l at ''
    set -l awaits 0
    for word in (commandline -opc)[2..]
        if test $awaits = 1
            set awaits 0
            continue
        end
        switch "$at $word"
"""
_TAIL = """\
        end
    end
    test "$at" = "$argv"
end

complete -c {program} -f
"""


def script(root: Command, program: str) -> str:
    """The whole script; ``program`` is the name of the command."""
    commands = list(root.all())
    steps = "".join(f"            {line}\n" for command in commands for line in _steps(command))
    rules = "".join(
        f"complete -c {program} -n {_quoted(_condition(command, program))} {rule}\n"
        for command in commands
        for rule in _rules(command)
    )
    return _HEAD.format(program=program) + steps + _TAIL.format(program=program) + rules


def _condition(command: Command, program: str) -> str:
    return " ".join((f"__{program}_at", *command.path)) if command.path else f"__{program}_at ''"


def _steps(command: Command) -> Iterator[str]:
    at = " ".join(command.path)
    for below in command.commands:
        yield f"case '{at} {below.path[-1]}'"
        yield f"    set at '{' '.join(below.path)}'"
    taking = " ".join(f"'{at} {name}'" for option in command.options if option.value for name in option.names)
    if taking:
        yield f"case {taking}"
        yield "    set awaits 1"


def _rules(command: Command) -> Iterator[str]:
    for below in command.commands:
        yield f"-a {below.path[-1]} -d {_quoted(below.help)}"
    for option in command.options:
        yield _option(option)
    for value in command.values:
        offered = _offered(value)
        if offered:
            yield offered


def _option(option: Option) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.value:
        # -x: its value, and no file.
        parts += ["-r" if option.value.kind == "file" else "-x", _offered(option.value)]
    return " ".join([*filter(None, parts), f"-d {_quoted(option.help)}"])


def _offered(value: Value) -> str:
    if value.kind == "choice":
        return f"-a {_quoted(' '.join(value.choices))}"
    return {"file": "-F", "folder": "-a '(__fish_complete_directories)'", "other": ""}[value.kind]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
