"""The first line of every file that install writes, by which it knows later whose the content is."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

Author = Literal["ours", "edited", "foreign"]
"""``edited``: written by install, and changed since."""

_HEAD = "# Written by edgeagent install, sha256"
_MARK = re.compile(rb"# Written by edgeagent install, sha256 ([0-9a-f]{64})\b[^\n]*\n")


def marked(body: str) -> bytes:
    """``body`` below the line that says who wrote it."""
    return f"{_HEAD} {hashlib.sha256(body.encode()).hexdigest()} of the lines below\n{body}".encode()


def author(content: bytes) -> Author:
    """Who wrote the file: install itself, install and then someone else, or someone else alone."""
    mark = _MARK.match(content)
    if mark is None:
        return "foreign"
    return "ours" if hashlib.sha256(content[mark.end() :]).hexdigest().encode() == mark[1] else "edited"
