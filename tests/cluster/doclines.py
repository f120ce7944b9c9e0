"""The command lines of the documentation that work on a cluster, page by page and in the order of the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.y*ml"),
        *(ROOT / "deploy").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.txt"),
        ROOT / "README.md",
        ROOT / "image" / "README.md",
    ]
)

_PROGRAM = r"(?:sudo[ ])?(?:k3s[ ])?(?:kubectl|helm|kustomize)[ ][^\s`]+[ ][^\s`]"
"""With two words behind it: ``kubectl top`` in a sentence is a name, not a command line."""
_BLOCK = re.compile(
    rf"""^[ ]{{4,}}(
        {_PROGRAM}.*                                     # itself
      | \w+=\$\({_PROGRAM}.*                             # what it says is kept
      | for[ ].*\$\({_PROGRAM}.*                         # or gone through
      | curl[ ].*:9843.*                                 # what a running agent answers
      | (?:\S+/)?edgeagent[ ]fleet.*
      | (?:sudo[ ])?(?:\S+/)?edgeagent[ ]uninstall[ ]--node-only[ ]--kubeconfig.*
      | .*[ ]deploy/k3s/edgeagent\.yaml(?:[ ].*)?        # the file for a K3s server
    )$""",
    re.VERBOSE,
)
_SPAN = re.compile(rf"`({_PROGRAM}[^`]*)`")
_COMMENT = re.compile(rf"^\#(?:.*:)?[ ]+({_PROGRAM}.*)$")


@dataclass(frozen=True)
class Line:
    """One command of a page; ``page`` is its path in the repository."""

    page: str
    text: str


def of_file(path: Path) -> list[Line]:
    """The commands of one file: in blocks and between backticks, or, in YAML, in comments."""
    text = path.read_text(encoding="utf-8")
    page = str(path.relative_to(ROOT))
    if path.suffix != ".md":
        return [Line(page, found[1]) for found in map(_COMMENT.match, text.splitlines()) if found]
    lines: list[str] = []
    for line in re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE).splitlines():
        block = _BLOCK.match(line)
        lines += [block[1].rstrip()] if block else _SPAN.findall(line)
    return [Line(page, line) for line in lines if "…" not in line]  # an ellipsis is there to be read


LINES = [line for path in FILES for line in of_file(path)]
