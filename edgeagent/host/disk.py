"""The files under a directory of this machine."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeagent.host import openat2
from edgeagent.host.paths import LIMIT, resolve, too_long

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_CHUNK = 65536
_NAME = os.O_PATH | os.O_CLOEXEC
_LOOK = _NAME | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KERNEL_TYPES = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "debugfs"})
_CGROUP_TYPES = frozenset({"cgroup", "cgroup2"})
_PROC_TYPES = frozenset({"proc"})
# A cgroup file system holds no links and cannot be given any, so that the kernel may walk
# the path below its mount in one step: hundreds of these files are read in every sample.
_CGROUPS = "sys/fs/cgroup/"
_CGROUP_MOUNTS = {name: f"{_CGROUPS}{name}/" for name in ("memory", "cpu", "cpu,cpuacct", "unified")}
# Nor is any of these files of a process a link, nor the way there from a mount of procfs.
_OF_PROCESS = re.compile(r"proc/\d+/(?:stat|statm|status|cgroup|comm)", re.ASCII)
_PROC = "proc/"
# The kernel makes each of these whole for one reading (seq_file's single_open and a cgroup's seq_show), so that what
# comes is all; of a list of records it hands out as many as fit.
_AT_ONCE = frozenset(
    {"meminfo", "stat", "status", "cgroup", "statm"}
    | {"memory.current", "memory.usage_in_bytes", "memory.stat", "cpu.stat"}
    | {"cpu.pressure", "memory.pressure", "io.pressure"}
)


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
        """By the way there: mounts of the kernel's own; None: something else is there, or nothing."""

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

    def device(self, path: str) -> str:
        """See ``Files.device``."""
        with self._at(path) as node:
            status = os.fstat(node)
        if not stat.S_ISCHR(status.st_mode):
            raise OSError(errno.EINVAL, "not a device node", path)
        return f"uid={status.st_uid} gid={status.st_gid} mode={stat.S_IMODE(status.st_mode):o}"

    def exists(self, path: str) -> bool:
        """See ``Files.exists``."""
        return self.stamp(path) is not None

    def stamp(self, path: str) -> object:
        """See ``Files.stamp``."""
        mount, rest = self._straight(path)
        try:
            if mount is not None:
                status = os.stat(rest, dir_fd=mount, follow_symlinks=False)
            else:
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
        mount, rest = self._straight(path)
        return self._resolved(path, follow=follow) if mount is None else os.open(rest, _LOOK, dir_fd=mount)

    def _resolved(self, path: str, *, follow: bool) -> int:
        found = openat2.inside(self._top, path, _NAME if follow else _LOOK)
        return resolve(self, path, follow=follow) if found is None else found

    def _open(self, path: str) -> int:
        mount, rest = self._straight(path)
        if mount is not None:
            return os.open(rest, _READ | os.O_NOFOLLOW, dir_fd=mount)
        node = self._resolved(path, follow=True)
        try:
            mode = os.fstat(node).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            return os.open(f"/proc/self/fd/{node}", _READ)
        finally:
            self.release(node)

    def _straight(self, path: str) -> tuple[int | None, str]:
        """The mount from which no link is on the way to ``path``, and that way; (None, ``path``) if there is none."""
        if path.startswith(_CGROUPS) and ".." not in path:
            name, slash, _ = path[len(_CGROUPS) :].partition("/")
            prefix = _CGROUP_MOUNTS.get(name, _CGROUPS) if slash else _CGROUPS
            return self._mount(prefix, _CGROUP_TYPES), path[len(prefix) :] or "."
        if _OF_PROCESS.fullmatch(path):
            return self._mount(_PROC, _PROC_TYPES), path[len(_PROC) :]
        return None, path

    def _mount(self, path: str, types: frozenset[str]) -> int | None:
        if path not in self._mounts:
            self._mounts[path] = self._mounted(path, types)
        return self._mounts[path]

    def _mounted(self, path: str, types: frozenset[str]) -> int | None:
        try:
            node = resolve(self, path)
        except OSError:
            return None
        if self._types.get(os.fstat(node).st_dev) in types:
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
    if size < _CHUNK and size <= limit and path.rpartition("/")[2] in _AT_ONCE:
        return content
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
