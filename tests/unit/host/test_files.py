"""Files under a root: the same answers from disk and from memory, and no way out of the root."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.host import openat2
from edgeagent.host.files import Entry, Files, RootFiles, TreeFiles

Make = Callable[[dict[str, Entry]], Files]
Inside = Callable[[int, str, int], "int | None"]


def write(root: Path, entries: dict[str, Entry]) -> RootFiles:
    for path, entry in entries.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry is None:
            place.mkdir(exist_ok=True)
        elif isinstance(entry, str):
            place.symlink_to(entry)
        else:
            place.write_bytes(entry)
    return RootFiles(root)


def nowhere(*_: object) -> None:
    """A kernel without openat2."""


@pytest.fixture(params=["disk", "old kernel", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    if request.param == "memory":
        return TreeFiles
    if request.param == "old kernel":
        monkeypatch.setattr(openat2, "inside", nowhere)
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_bytes(b"outside")
    return lambda entries: write(tmp_path / "root", entries)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("proc/meminfo", b"here"),
        ("/proc/meminfo", b"here"),
        ("proc/./meminfo", b"here"),
        ("proc//meminfo", b"here"),
        ("relative", b"here"),
        ("deep/up", b"here"),
        ("absolute", b"here"),  # starts again at the root of the tree
        ("folder/meminfo", b"here"),
        ("far-up", b"here"),  # more .. than there are folders
        ("chain", b"here"),
        ("../../proc/meminfo", b"here"),
        ("proc/../proc/meminfo", b"here"),
    ],
)
def test_links_are_resolved_inside_the_root(make: Make, path: str, content: bytes) -> None:
    files = make(
        {
            "proc/meminfo": b"here",
            "relative": "proc/meminfo",
            "deep/up": "../proc/meminfo",
            "absolute": "/proc/meminfo",
            "folder": "proc",
            "far-up": "../../../../../proc/meminfo",
            "chain": "absolute",
        }
    )
    assert files.read(path) == content


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("absent", errno.ENOENT),
        ("file/below", errno.ENOTDIR),
        ("dangling", errno.ENOENT),
        ("loop-a", errno.ELOOP),
        ("self", errno.ELOOP),
        ("folder", errno.EISDIR),
        ("out-relative", errno.ENOENT),
        ("out-absolute", errno.ENOENT),
        ("nul\0byte", errno.ENOENT),
        ("\ud800", errno.ENOENT),
        ("", errno.EISDIR),
    ],
)
def test_what_is_not_there_is_an_os_error(make: Make, tmp_path: Path, path: str, code: int) -> None:
    files = make(
        {
            "file": b"",
            "folder": None,
            "dangling": "nowhere",
            "loop-a": "loop-b",
            "loop-b": "loop-a",
            "self": "self",
            "out-relative": "../secret",
            "out-absolute": str(tmp_path / "secret"),
        }
    )
    with pytest.raises(OSError) as caught:  # noqa: PT011 (the number is checked)
        files.read(path)
    assert caught.value.errno == code


def test_forty_links_are_followed_and_no_more(make: Make) -> None:
    chain: dict[str, Entry] = {f"link{number}": f"link{number - 1}" for number in range(1, 42)}
    files = make({"link0": b"end", **chain})
    assert files.read("link40") == b"end"
    with pytest.raises(OSError, match="link41"):
        files.read("link41")


def test_what_a_directory_holds(make: Make) -> None:
    files = make({"d/b": b"", "d/a/x": b"", "d/link": "/d/a", "d/dead": "/nowhere", "d/empty": None})
    assert files.names("d") == ("a", "b", "dead", "empty", "link")
    assert files.folders("d") == ("a", "empty")
    assert files.links("d") == {"dead": "/nowhere", "link": "/d/a"}
    assert files.names("d/link") == ("x",)
    assert files.names("d/empty") == ()
    for ask in (files.names, files.folders, files.links):
        with pytest.raises(NotADirectoryError):
            ask("d/b")
        with pytest.raises(FileNotFoundError):
            ask("elsewhere")


def test_link_exists_and_stamp(make: Make) -> None:
    files = make({"d/file": b"1", "good": "d/file", "dead": "nowhere", "loop": "loop"})
    assert files.link("good") == "d/file"
    assert files.link("dead") == "nowhere"
    assert files.link("d/file") is None
    assert files.link("d") is None
    with pytest.raises(FileNotFoundError):
        files.link("nowhere")
    assert [files.exists(path) for path in ("good", "d", "dead", "loop", "d/file/below")] == [True, True] + [False] * 3
    assert files.stamp("good") == files.stamp("d/file") != files.stamp("d")
    assert files.stamp("dead") is None


def test_a_file_longer_than_the_limit_is_an_error(make: Make) -> None:
    files = make({"f": b"x" * 1000})
    assert files.read("f", limit=1000) == b"x" * 1000
    with pytest.raises(OSError, match="longer than 999 bytes") as caught:
        files.read("f", limit=999)
    assert caught.value.errno == errno.EFBIG


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join)
TARGETS = st.tuples(st.sampled_from(["", "/"]), PATHS).map("".join)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.one_of(st.binary(max_size=3), TARGETS, st.none()),
    max_size=6,
)


def answer(files: Files, ask: str, path: str) -> Any:
    try:
        return getattr(files, ask)(path)
    except OSError as error:
        return error.errno


@pytest.mark.parametrize("inside", [openat2.inside, nowhere])
@given(entries=TREES, path=PATHS)
def test_disk_and_memory_agree_on_any_tree(
    tmp_path_factory: pytest.TempPathFactory, inside: Inside, entries: dict[str, Entry], path: str
) -> None:
    try:
        memory = TreeFiles(entries)
    except ValueError:  # something below a file: no such tree
        return
    outer = tmp_path_factory.mktemp("outer")
    (outer / "root").mkdir()
    for name in "abc":  # what a way out of the root would find
        (outer / name).write_bytes(b"outside")
    disk = write(outer / "root", dict(sorted(entries.items())))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(openat2, "inside", inside)
            for ask in ("read", "names", "folders", "links", "link", "exists"):
                assert answer(disk, ask, path) == answer(memory, ask, path), ask
    finally:
        disk.close()


# --- on disk only ---


def test_nothing_but_regular_files_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open one for reading waits for a writer
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        files = RootFiles(tmp_path)
        for name in ("pipe", "socket"):
            with pytest.raises(OSError, match="not a regular file"):
                files.read(name)


def test_of_a_device_node_its_owner_and_mode_are_told_and_it_is_not_opened() -> None:
    files = RootFiles(Path("/dev"))
    status = Path("/dev/null").stat()
    told = f"uid={status.st_uid} gid={status.st_gid} mode={stat.S_IMODE(status.st_mode):o}"
    assert files.device("null") == told
    for name in (".", "none"):
        with pytest.raises(OSError, match=r"not a device node|No such file"):
            files.device(name)
    files.close()


def test_a_folder_that_becomes_a_link_on_the_way_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/f").write_bytes(b"inside")
    (tmp_path / "outside/b").mkdir(parents=True)
    (tmp_path / "outside/b/f").write_bytes(b"outside")
    files, look = RootFiles(root), RootFiles.child

    def swap(self: RootFiles, parent: int, name: str) -> int:
        node = look(self, parent, name)
        if name == "a":
            (root / "a").rename(root / "was-a")
            (root / "a").symlink_to(tmp_path / "outside")
        return node

    with monkeypatch.context() as patch:
        patch.setattr(openat2, "inside", nowhere)  # the kernel's own walk cannot be halted in between
        patch.setattr(RootFiles, "child", swap)
        assert files.read("a/b/f") == b"inside"
    with pytest.raises(FileNotFoundError):  # and as a link it is looked for below the root
        files.read("a/b/f")


def test_a_kept_file_that_is_replaced_is_seen(tmp_path: Path) -> None:
    files = RootFiles(tmp_path)
    for content in (b"first", b"second, and longer", b"3"):
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").rename(tmp_path / "meminfo")
        assert files.read("meminfo", keep=True) == content
    (tmp_path / "meminfo").unlink()
    with pytest.raises(FileNotFoundError):
        files.read("meminfo", keep=True)


def test_a_kernel_file_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = RootFiles(Path("/"))
    first = files.read("proc/meminfo", keep=True)

    def refuse(*_: object, **__: object) -> int:
        raise AssertionError

    monkeypatch.setattr(os, "open", refuse)
    assert files.read("proc/meminfo", keep=True)[:9] == first[:9] == b"MemTotal:"
    monkeypatch.undo()
    files.close()


@pytest.mark.parametrize("fault", [errno.ESTALE, errno.ENODEV, 0])
def test_a_kept_file_that_fails_is_opened_again(monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    files = RootFiles(Path("/"))
    files.read("proc/meminfo", keep=True)
    real, calls = os.pread, []

    def once(descriptor: int, size: int, offset: int) -> bytes:
        calls.append(descriptor)
        if len(calls) > 1:
            return real(descriptor, size, offset)
        if fault:
            raise OSError(fault, os.strerror(fault))
        return b""  # cut short

    monkeypatch.setattr(os, "pread", once)
    assert files.read("proc/meminfo", keep=True).startswith(b"MemTotal:")


def test_errors_leave_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"x" * 10)
    (tmp_path / "folder").mkdir()
    files = RootFiles(tmp_path)
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)  # on a file system of another kind
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (counted, not used)
    for _ in range(50):
        assert files.names("sys/fs/cgroup/memory/") == ()
        for path in ("loop", "absent", "file/below", "folder", "../../absent", "file"):
            for ask in ("read", "names", "link", "exists", "stamp", "links", "folders"):
                answer(files, ask, path)
        with pytest.raises(OSError, match="longer"):
            files.read("file", limit=1, keep=True)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    files.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1  # noqa: PTH208


def test_names_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"content")
    files = RootFiles(tmp_path)
    (name,) = files.names("")
    assert files.read(name) == b"content"


def test_openat2_leads_to_the_same_file_without_a_step_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("/folder")
    files = RootFiles(tmp_path)
    descriptor = openat2.inside(files.top(), "link/file", os.O_PATH)
    if descriptor is None:
        pytest.skip("this kernel has no openat2, or it may not be called")
    os.close(descriptor)
    monkeypatch.setattr(RootFiles, "child", None)
    assert files.read("link/file") == b"content"


def test_a_process_is_read_below_the_mount_of_procfs(monkeypatch: pytest.MonkeyPatch) -> None:
    files = RootFiles(Path("/"))
    assert files.read("proc/1/comm") == Path("/proc/1/comm").read_bytes()
    # From there a single step leads to the file.
    monkeypatch.setattr(openat2, "inside", nowhere)
    monkeypatch.setattr(RootFiles, "child", None)
    assert files.read("proc/1/comm") == Path("/proc/1/comm").read_bytes()
    with pytest.raises(FileNotFoundError):
        files.read("proc/4194305/stat")  # PID_MAX_LIMIT is 4194304
    files.close()


def test_a_folder_called_proc_may_hold_links(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").symlink_to("/target")
    (tmp_path / "target").write_bytes(b"content")
    assert RootFiles(tmp_path).read("proc/1/stat") == b"content"


def test_a_file_that_comes_in_one_piece_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stat").write_bytes(b"short")
    (tmp_path / "status").write_bytes(b"x" * 200_000)  # longer than one reading
    (tmp_path / "modules").write_bytes(b"a list of records")
    files = RootFiles(tmp_path)
    real, calls = os.pread, []

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        calls.append(offset)
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    assert files.read("stat") == b"short"
    assert calls == [0]
    with pytest.raises(OSError, match="longer than 4 bytes"):
        files.read("stat", limit=4)
    assert files.read("status") == b"x" * 200_000
    calls.clear()
    assert files.read("modules") == b"a list of records"
    assert len(calls) == 2


def test_a_cgroup_file_system_is_read_below_its_mount() -> None:
    # Whatever this machine has mounted there: the ways through the mount and step by step must agree.
    files = RootFiles(Path("/"))
    for folder in ("sys/fs/cgroup", "sys/fs/cgroup/memory", "sys/fs/cgroup/unified"):
        if files.exists(folder):
            assert files.names(folder) == files.names(folder.replace("fs/", "fs/../fs/"))
            assert not files.exists(f"{folder}/absent")
            with pytest.raises(FileNotFoundError):
                files.read(f"{folder}/absent")
            with pytest.raises(IsADirectoryError):
                files.read(f"{folder}/")


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RootFiles(tmp_path / "absent")


# --- in memory only ---


@pytest.mark.parametrize("entries", [{"a": b"", "a/b": b""}, {"a/b": b"", "a": b""}, {"a": "b", "a/b": None}])
def test_nothing_lies_below_a_file(entries: dict[str, Entry]) -> None:
    with pytest.raises(ValueError, match="a"):
        TreeFiles(entries)
