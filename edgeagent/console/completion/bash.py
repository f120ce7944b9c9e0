"""Completion for bash 4 or later; it needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from edgeagent.console.completion.tree import Command, Value

_HEAD = """\
# Completion of {program} for bash, written by: {program} completion bash

_{program}_offer() {{
    mapfile -t COMPREPLY < <(compgen "$@" -- "$cur")
}}

_{program}_files() {{
    _{program}_offer "$@"
    # Names of files get the quotes that they need. Outside of a completion there is nothing to set.
    compopt -o filenames 2>/dev/null
}}

_{program}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} at='' awaits='' word
    COMPREPLY=()
    # bash takes --option=value for three words.
    if [[ $cur == '=' ]]; then
        cur=''
    elif [[ $prev == '=' ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    # Which command the words before this one lead to, the values of options passed over.
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $word == '=' ]]; then
            continue
        elif [[ $awaits ]]; then
            awaits=''
            continue
        fi
        case "$at $word" in
"""
_MIDDLE = """\
        esac
    done
    case "$at $prev" in
"""
_TAIL = """\
    esac
    case "$at" in
"""
_END = """\
    esac
}}

complete -F _{program} {program}
"""


def script(root: Command, program: str) -> str:
    """The whole script; ``program`` is the name of the command."""
    commands = list(root.all())
    steps = [line for command in commands for line in _steps(command)]
    values = [line for command in commands for line in _values(command, program)]
    offers = [line for command in commands for line in _offers(command, program)]
    return "".join(
        [
            _HEAD.format(program=program),
            *(f"            {line}\n" for line in steps),
            _MIDDLE,
            *(f"        {line}\n" for line in values),
            _TAIL,
            *(f"        {line}\n" for line in offers),
            _END.format(program=program),
        ]
    )


def _steps(command: Command) -> Iterator[str]:
    at = " ".join(command.path)
    for below in command.commands:
        yield f"'{at} {below.path[-1]}') at='{' '.join(below.path)}' ;;"
    taking = [f"'{at} {name}'" for option in command.options if option.value for name in option.names]
    if taking:
        yield f"{' | '.join(taking)}) awaits=1 ;;"


def _values(command: Command, program: str) -> Iterator[str]:
    at = " ".join(command.path)
    for option in command.options:
        if option.value:
            names = " | ".join(f"'{at} {name}'" for name in option.names)
            yield f"{names}) {_offer(option.value, program) or ':'}; return ;;"


def _offers(command: Command, program: str) -> Iterator[str]:
    """Options where a word begins like one, else commands and what the first value may be."""
    options = " ".join(name for option in command.options for name in option.names)
    yield f"'{' '.join(command.path)}')"
    yield f"    if [[ $cur == -* ]]; then _{program}_offer -W '{options}'"
    if command.commands:
        names = " ".join(below.path[-1] for below in command.commands)
        yield f"    else _{program}_offer -W '{names}'"
    elif command.values and (offer := _offer(command.values[0], program)):
        yield f"    else {offer}"
    yield "    fi ;;"


def _offer(value: Value, program: str) -> str:
    if value.kind == "choice":
        return f"_{program}_offer -W '{' '.join(value.choices)}'"
    return {"file": f"_{program}_files -f", "folder": f"_{program}_files -d", "other": ""}[value.kind]
