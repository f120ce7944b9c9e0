"""The copyright file of the Debian package: what is in it, and under which licence."""

from __future__ import annotations

import email.parser
import zipfile
from email.message import Message
from pathlib import Path

_HEAD = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: edgeagent
Comment: The licence texts of others' work are inside the wheels: unzip -l, *.dist-info/licenses.

Files: *
Copyright: The edgeagent authors
License: Apache-2.0
"""
_TAIL = """
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
"""


def copyright_file(wheels: list[Path]) -> str:
    """The file's text; one paragraph for each wheel of others, as its own metadata says it."""
    paragraphs = []
    for wheel in sorted(wheels):
        about = metadata(wheel)
        if about["Name"] != "edgeagent":
            author = about["Author"] or about["Author-email"] or about["Maintainer"] or f"The {about['Name']} authors"
            paragraphs.append(
                f"\nFiles: usr/lib/edgeagent/wheels/{wheel.name}\n"
                f"Copyright: {' '.join(author.split())}\n"
                f"License: {wheel.name.split('-')[0]}\n {_licence(about)}, see the wheel.\n"
            )
    return _HEAD + "".join(paragraphs) + _TAIL


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
