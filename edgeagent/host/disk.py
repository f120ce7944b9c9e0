"""The files under a directory of this machine."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeagent.host.paths import LIMIT, resolve, too_long

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_CHUNK = 65536
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KERNEL_TYPES = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "debugfs"})
_CGROUP_TYPES = frozenset({"cgroup", "cgroup2"})
# A cgroup file system holds no links and cannot be given any, so that the kernel may walk
# the path below its mount in one step: hundreds of these files are read in every sample.
_CGROUPS = "sys/fs/cgroup/"
_CGROUP_MOUNTS = (f"{_CGROUPS}memory/", f"{_CGROUPS}unified/", _CGROUPS)


class RootFiles:
    """The files under a directory of this machine.

    Safe for use from several threads. Nothing but regular files is ever opened for
    reading: to open a device can have effects, and a pipe would block.
    """

    def __init__(self, root: Path) -> None:
        """Opens ``root``.

        Raises:
            OSError: ``root`` is not a readable directory.
        """
        self.root = root
        self._top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._types = _filesystem_types()
        self._kept: dict[str, _Kept] = {}
        self._mounts: dict[str, int | None] = {}

    def close(self) -> None:
        """Closes everything that is held open."""
        for kept in self._kept.values():
            kept.close()
        for descriptor in (self._top, *self._mounts.values()):
            if descriptor is not None:
                os.close(descriptor)

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        """See ``Files.read``."""
        if keep:
            kept = self._kept.setdefault(path, _Kept(path))
            return kept.read(self, limit)
        descriptor = self._open(path)
        try:
            return _drain(descriptor, path, limit)
        finally:
            os.close(descriptor)

    def names(self, path: str) -> tuple[str, ...]:
        """See ``Files.names``."""
        with self.directory(path) as descriptor:
            return _listed(descriptor)

    def folders(self, path: str) -> tuple[str, ...]:
        """See ``Files.folders``."""
        with self.directory(path) as descriptor, os.scandir(descriptor) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False)))

    def links(self, path: str) -> dict[str, str]:
        """See ``Files.links``."""
        found = {}
        with self.directory(path) as descriptor:
            for name in _listed(descriptor):
                try:
                    found[name] = os.readlink(name, dir_fd=descriptor)
                except OSError:  # not a link, or closed by its process meanwhile
                    continue
        return found

    def link(self, path: str) -> str | None:
        """See ``Files.link``."""
        with self._at(path, follow=False) as node:
            return self.target(node)

    def exists(self, path: str) -> bool:
        """See ``Files.exists``."""
        return self.stamp(path) is not None

    def stamp(self, path: str) -> object:
        """See ``Files.stamp``."""
        try:
            with self._at(path) as node:
                status = os.fstat(node)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        return status.st_dev, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """A directory, open for as long as the context lasts.

        Raises:
            OSError: as ``names``.
        """
        with self._at(path) as node:
            descriptor = os.open(f"/proc/self/fd/{node}", _READ | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def top(self) -> int:
        """See ``Tree.top``; a node is a descriptor that only names its file."""
        return self._top

    def child(self, parent: int, name: str) -> int:
        """See ``Tree.child``."""
        return os.open(name, _LOOK, dir_fd=parent)

    def target(self, node: int) -> str | None:
        """See ``Tree.target``."""
        return os.readlink("", dir_fd=node) if stat.S_ISLNK(os.fstat(node).st_mode) else None

    def release(self, node: int) -> None:
        """See ``Tree.release``."""
        if node != self._top:
            os.close(node)

    def lasting(self, descriptor: int) -> bool:
        """Whether the kernel itself makes the content of an open file."""
        return self._types.get(os.fstat(descriptor).st_dev) in _KERNEL_TYPES

    @contextmanager
    def _at(self, path: str, *, follow: bool = True) -> Iterator[int]:
        node = self._node(path, follow=follow)
        try:
            yield node
        finally:
            self.release(node)

    def _node(self, path: str, *, follow: bool) -> int:
        mount, rest = self._cgroup(path)
        return resolve(self, path, follow=follow) if mount is None else os.open(rest, _LOOK, dir_fd=mount)

    def _open(self, path: str) -> int:
        mount, rest = self._cgroup(path)
        if mount is not None:
            return os.open(rest, _READ | os.O_NOFOLLOW, dir_fd=mount)
        with self._at(path) as node:
            mode = os.fstat(node).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            return os.open(f"/proc/self/fd/{node}", _READ)

    def _cgroup(self, path: str) -> tuple[int | None, str]:
        """The cgroup mount that ``path`` lies below, and the way on from there; (None, ``path``) elsewhere."""
        if not path.startswith(_CGROUPS) or ".." in path:
            return None, path
        for prefix in _CGROUP_MOUNTS:
            if path.startswith(prefix):
                if prefix not in self._mounts:
                    self._mounts[prefix] = self._cgroup_mount(prefix)
                return self._mounts[prefix], path[len(prefix) :] or "."
        return None, path

    def _cgroup_mount(self, path: str) -> int | None:
        try:
            node = resolve(self, path)
        except OSError:
            return None
        if self._types.get(os.fstat(node).st_dev) in _CGROUP_TYPES:
            return node
        self.release(node)
        return None


class _Kept:
    """A file that is read again and again through one descriptor."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    def read(self, files: RootFiles, limit: int) -> bytes:
        with self._lock:
            if self._descriptor is not None:
                try:
                    content = _drain(self._descriptor, self._path, limit)
                except OSError:
                    content = b""
                if content:
                    return content
                self._drop()
            descriptor = files._open(self._path)  # noqa: SLF001 (the two classes are one thing)
            try:
                content = _drain(descriptor, self._path, limit)
            except OSError:
                os.close(descriptor)
                raise
            if files.lasting(descriptor):
                self._descriptor = descriptor
            else:
                os.close(descriptor)
            return content

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _listed(directory: int) -> tuple[str, ...]:
    with os.scandir(directory) as entries:
        return tuple(sorted(entry.name for entry in entries))


def _drain(descriptor: int, path: str, limit: int) -> bytes:
    content = os.pread(descriptor, _CHUNK, 0)
    size = len(content)
    chunks = [content]
    while content:
        if size > limit:
            raise too_long(path, limit)
        content = os.pread(descriptor, _CHUNK, size)
        chunks.append(content)
        size += len(content)
    return b"".join(chunks)


def _filesystem_types() -> dict[int, str]:
    """File system types by device number, from ``/proc/self/mountinfo`` (proc(5)); empty where that is not readable."""
    try:
        rows = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    types = {}
    for row in rows:
        fields, _, rest = row.partition(" - ")
        major, _, minor = fields.split()[2].partition(":")
        types[os.makedev(int(major), int(minor))] = rest.split()[0]
    return types
