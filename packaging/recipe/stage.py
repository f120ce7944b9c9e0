"""Trees of files whose archive is the same wherever and whenever it is made."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from pathlib import Path


def put(source: Path, target: Path, mode: int = 0o644) -> None:
    """Copy a file to a place in a tree."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def write(target: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of a tree."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


def compress(target: Path, text: str) -> None:
    """Write a gzip file of a tree, without name and time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    target.chmod(0o644)


def settle(tree: Path, epoch: int) -> None:
    """Give all files one time, and folders one mode, whatever umask they were made with."""
    for folder, _, names in os.walk(tree, topdown=False):
        for name in names:
            os.utime(Path(folder, name), (epoch, epoch), follow_symlinks=False)
        Path(folder).chmod(0o755)
        os.utime(folder, (epoch, epoch))


def archive(tree: Path, target: Path) -> None:
    """Pack ``tree``, settled before, with its folder's name; all of it is root's."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in [tree, *sorted(tree.rglob("*"))]:
            tar.add(path, arcname=path.relative_to(tree.parent), recursive=False, filter=anonymous)
