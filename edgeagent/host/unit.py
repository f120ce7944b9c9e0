"""The command line and the environment of a systemd service, from its unit files.

What installers of Kubernetes distributions write is understood: ``ExecStart`` quoted and
over several lines with variables, drop-ins, ``Environment``, ``EnvironmentFile``. Specifiers
but %N and %% are left as they stand. Syntax: systemd.syntax(7), systemd.service(5).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from edgeagent.host.files import Files

FOLDERS = (
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",  # another folder than usr/lib on Ubuntu 18.04
)
"""Where units lie; a file in an earlier folder hides those of its name in the later ones (systemd.unit(5))."""

Text = tuple[str, str]
"""A text and the file that it stands in."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a service runs: its words, the program first, and its environment, each with its origin."""

    words: tuple[Text, ...]
    environment: dict[str, Text]


def service(files: Files, name: str) -> Service | None:
    """The service ``name`` (``k3s-agent.service``); None where no unit file is readable."""
    unit = next((path for path in (f"{folder}/{name}" for folder in FOLDERS) if _read(files, path) is not None), None)
    if unit is None:
        return None
    words: tuple[Text, ...] = ()
    environment: dict[str, Text] = {}
    from_files: dict[str, Text] = {}
    for path in (unit, *_drop_ins(files, name)):
        for key, value in settings(_read(files, path) or ""):
            if key == "ExecStart":  # an empty one takes back those before it
                words = tuple((word, f"/{path}") for word in split(value.replace("%%", "%")))
            elif key == "Environment":
                environment.update(_assignments(split(value.replace("%%", "%")), path))
            elif key == "EnvironmentFile":
                named = value.removeprefix("-").replace("%N", name.removesuffix(".service")).strip("/")
                for variable, given in variables(_read(files, named) or ""):
                    from_files[variable] = (given, f"/{named}")
    known = {**environment, **from_files}
    return Service(tuple(_filled(words, known)), known)


def _filled(words: tuple[Text, ...], known: dict[str, Text]) -> Iterator[Text]:
    """The words with variables put in: ``$NAME`` alone becomes any number of words, ``${NAME}`` a part of one."""

    def text(name: str | None) -> str:
        return known.get(name, ("", ""))[0] if name else "$"

    for word, where in words:
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", word)
        if alone:
            yield from ((part, where) for part in split(text(alone[1])))
        else:
            yield re.sub(r"\$\$|\$\{([A-Za-z_]\w*)\}", lambda found: text(found[1]), word), where


def _drop_ins(files: Files, name: str) -> list[str]:
    found: dict[str, str] = {}
    for folder in FOLDERS:
        try:
            names = files.names(f"{folder}/{name}.d")
        except OSError:
            continue
        for drop_in in names:
            if drop_in.endswith(".conf"):
                found.setdefault(drop_in, f"{folder}/{name}.d/{drop_in}")
    return [found[drop_in] for drop_in in sorted(found)]


def settings(text: str) -> Iterator[tuple[str, str]]:
    """The settings of a unit file in their order, lines that end in a backslash joined with the next."""
    begun = ""
    for row in map(str.strip, text.split("\n")):
        if row.startswith(("#", ";")):
            continue
        if row.endswith("\\"):
            begun += row[:-1] + " "
            continue
        key, equals, value = (begun + row).partition("=")
        begun = ""
        if equals:
            yield key.strip(), value.strip()


def _assignments(words: list[str], path: str) -> dict[str, Text]:
    pairs = (word.partition("=") for word in words)
    return {name: (value, f"/{path}") for name, equals, value in pairs if equals}


def variables(text: str) -> Iterator[tuple[str, str]]:
    """The variables of an environment file, one on each line: its value is all that follows (systemd.exec(5))."""
    for row in map(str.strip, text.split("\n")):
        name, equals, value = row.partition("=")
        if equals and not row.startswith(("#", ";")):
            yield name.strip(), " ".join(split(value))


def split(text: str) -> list[str]:
    """The words of a command line, quotes taken off."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is never closed
        return text.split()


def _read(files: Files, path: str) -> str | None:
    try:
        return files.read(path).decode(errors="replace")
    except OSError:
        return None
