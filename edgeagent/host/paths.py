"""Symbolic links resolved inside a root: one algorithm for trees on disk and in memory.

An absolute target starts again at the root and ``..`` stops at it, so that no path leads
out of the tree. The nodes passed are kept on a stack, so ``..`` goes back the way that
was come and not where a directory lies by now.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol, TypeVar

Node = TypeVar("Node")

LIMIT = 4 * 1024**2
"""Bytes up to which a file is read; no file of the agent's comes near."""

MAX_LINKS = 40
"""As many links as the Linux kernel itself follows in one path."""


class Tree(Protocol[Node]):
    """What resolution asks of a tree of nodes."""

    def top(self) -> Node:
        """The root of the tree."""
        ...

    def child(self, parent: Node, name: str) -> Node:
        """The entry ``name`` of ``parent``, links not followed.

        Raises:
            OSError: no such entry, or ``parent`` is not a directory.
        """
        ...

    def target(self, node: Node) -> str | None:
        """The text of a symbolic link; None for anything else."""
        ...

    def release(self, node: Node) -> None:
        """``node`` is not needed any more."""
        ...


def parts(path: str) -> list[str]:
    """The components of a path, without empty ones and ``.``.

    Raises:
        FileNotFoundError: a text that no file system takes for a path.
    """
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), repr(path))
    return [part for part in path.split("/") if part not in ("", ".")]


def resolve(tree: Tree[Node], path: str, *, follow: bool = True) -> Node:
    """The node at ``path``; every other node that was passed is released.

    Args:
        tree: where to look.
        path: relative to the root; a leading slash means the same.
        follow: whether a link in the last component is followed.

    Raises:
        OSError: as ``open`` would raise it; ELOOP after 40 links.
    """
    stack = [tree.top()]
    todo = parts(path)[::-1]
    links = 0
    try:
        while todo:
            name = todo.pop()
            if name == "..":
                if len(stack) > 1:
                    tree.release(stack.pop())
                continue
            node = tree.child(stack[-1], name)
            target = tree.target(node)
            if target is None or not (todo or follow):
                stack.append(node)
                continue
            tree.release(node)
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                _release_above(tree, stack)
            todo.extend(parts(target)[::-1])
        return stack.pop()
    finally:
        for node in stack:
            tree.release(node)


def _release_above(tree: Tree[Node], stack: list[Node]) -> None:
    while len(stack) > 1:
        tree.release(stack.pop())


def too_long(path: str, limit: int) -> OSError:
    """The error for a file of more than ``limit`` bytes."""
    return OSError(errno.EFBIG, f"longer than {limit} bytes", path)


def why(error: OSError, path: str) -> str:
    """What went wrong with ``path``, in a few words: ``proc/meminfo: Permission denied``."""
    return f"{path}: {error.strerror or error}"
