"""The copyright file of the Debian package: what is in it, whose that is, and under which licence."""

from __future__ import annotations

import email.parser
import re
import zipfile
from collections.abc import Iterator
from email.message import Message
from itertools import takewhile
from pathlib import Path, PurePosixPath

_HEAD = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: edgeagent
Comment: The licence texts of others' work are inside the wheels, in the files that are named below: unzip -p WHEEL FILE

Files: *
Copyright: The edgeagent authors
License: Apache-2.0
"""
_TAIL = """
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
"""
_TEXT = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)
_IN_THE_SOURCE = {"nvidia_ml_py": "pynvml.py"}
"""Projects whose wheels have no licence file, and the module with the text at its head."""
_STATEMENT = re.compile(
    r"""^[#\s]*(Copyright\ (?=.*(?:\d{4}|contributors))(?:.*,\n)?.*)  # a line; after a comma the next one belongs to it
    |"(Copyright\s[^"]*\d{4}[^"]*)"                                 # quoted: those of Python, in its licence""",
    re.MULTILINE | re.VERBOSE,
)


def copyright_file(wheels: list[Path]) -> str:
    """The file's text; one paragraph for each project of others, as its own licence says it."""
    projects: dict[str, list[Path]] = {}
    for wheel in sorted(wheels):
        projects.setdefault(wheel.name.split("-")[0], []).append(wheel)
    return _HEAD + "".join(_paragraph(name, found) for name, found in projects.items() if name != "edgeagent") + _TAIL


def _paragraph(project: str, wheels: list[Path]) -> str:
    texts = {name: text for wheel in wheels for name, text in licence_texts(wheel).items()}
    found = (line or quoted for text in texts.values() for line, quoted in _STATEMENT.findall(text))
    holders = "\n           ".join(dict.fromkeys(" ".join(statement.split()) for statement in found))
    files = "\n".join(f" {name}" for name in texts)
    return (
        f"\nFiles: usr/lib/edgeagent/wheels/{project}-*\n"
        f"Copyright: {holders or 'see its licence'}\n"
        f"License: {project}\n {_licence(metadata(wheels[0]))}, see in the wheel:\n{files}\n"
    )


def licence_texts(wheel: Path) -> dict[str, str]:
    """The licence texts of a wheel by their places in it.

    Raises:
        SystemExit: it has none, and must not be passed on.
    """
    project = wheel.name.split("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if _is_licence(name) or name == _IN_THE_SOURCE.get(project)]
        texts = {name: archive.read(name).decode(errors="replace") for name in names}
    if project in _IN_THE_SOURCE:
        texts = {name: "".join(_head(text)) for name, text in texts.items()}
    if not any(texts.values()):
        raise SystemExit(f"{wheel.name} has no licence text")
    return texts


def _head(source: str) -> Iterator[str]:
    return takewhile(lambda line: line.startswith("#"), source.splitlines(keepends=True))


def _is_licence(name: str) -> bool:
    return ".dist-info/" in name and _TEXT.match(PurePosixPath(name).name) is not None and not name.endswith("/")


def metadata(wheel: Path) -> Message:
    """The core metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


def _licence(about: Message) -> str:
    """The expression (PEP 639), else the short name that came before it, else the classifier."""
    named = about["License-Expression"] or about["License"]
    if named and "\n" not in named:
        return str(named)
    classes = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier", ()) if text.startswith("License ::")]
    return " and ".join(classes)
