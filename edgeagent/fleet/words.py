"""Words of others in a line of ours."""

from __future__ import annotations

LONGEST = 512


def one_line(words: object) -> str:
    """In one line, at most :data:`LONGEST` characters, without what a terminal would obey."""
    text = " ".join(str(words).split())[:LONGEST]
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
