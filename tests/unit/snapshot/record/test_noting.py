"""What readers ask for is noted as they were told it, so that asking the note gives the same answers."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edgeagent.host.files import Entry, Files, RootFiles, TreeFiles
from edgeagent.snapshot.record.noting import NotingFiles
from tests.unit.host.trees import EACCES, EIO, FaultyFiles

TREE: dict[str, Entry] = {
    "a/file": b"content",
    "a/other": b"other",
    "a/below/deep": b"deep",
    "a/empty": None,
    "a/link": "file",
    "a/away": "/b",
    "b/told": b"told",
    "b/self": "4242",
    "b/4242/ns/pid": "pid:[1]",
}


def all_names(path: str) -> bool:
    return bool(path)


def no_names(path: str) -> bool:
    return not path


def ask(files: Files, how: str, path: str) -> object:
    """The answer, or the kind of failure."""
    try:
        answer: object = getattr(files, how)(path)
    except NotADirectoryError:  # something is not there, one way or the other
        return FileNotFoundError
    except OSError as error:
        return type(error)
    return answer is not None if how == "stamp" else answer


PATHS = [*TREE, "a", "b", "a/below", "none", "a/file/x", "a/away/told", "a/link/x", "/a/file", "b/self/ns/pid"]
QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from(["read", "names", "folders", "links", "link", "exists", "stamp"]), st.sampled_from(PATHS)
    ),
    max_size=12,
)


@given(QUESTIONS)
def test_the_note_reads_the_same_and_is_a_tree(questions: list[tuple[str, str]]) -> None:
    noting = NotingFiles(TreeFiles(TREE))
    told = [ask(noting, how, path) for how, path in questions]

    replayed = TreeFiles(noting.entries(all_names))

    for (how, path), answer in zip(questions, told, strict=True):
        if how in ("read", "exists", "stamp") or (how == "link" and isinstance(answer, str)):
            assert ask(replayed, how, path) == answer, (how, path)
        if how == "links" and isinstance(answer, dict):
            found = replayed.links(path)
            assert {name: found[name] for name in answer} == answer


def test_what_is_not_asked_for_is_not_noted() -> None:
    noting = NotingFiles(TreeFiles(TREE))
    noting.read("a/file")
    noting.exists("a/other")

    assert noting.entries(all_names) == {"a/file": b"content", "a/other": b""}


def test_names_are_kept_where_they_are_asked_for_or_say_something() -> None:
    noting = NotingFiles(TreeFiles(TREE))
    noting.names("a")
    noting.read("a/other")

    assert noting.entries(no_names) == {"a": None, "a/other": b"other"}
    assert set(noting.entries(lambda path: path.endswith("below"))) == {"a", "a/other", "a/below"}


def test_links_that_were_told_are_followed() -> None:
    noting = NotingFiles(TreeFiles(TREE))
    assert noting.link("b/self") == "4242"
    assert noting.link("b/self/ns/pid") == "pid:[1]"

    assert noting.entries(no_names) == {"b/self": "4242", "b/4242/ns/pid": "pid:[1]"}
    assert TreeFiles(noting.entries(no_names)).link("b/self/ns/pid") == "pid:[1]"


def test_what_is_refused_is_told_and_what_is_not_there_is_not() -> None:
    files = FaultyFiles(TREE, {"a/file": EACCES, "a": EIO, "b/4242": errno.ESRCH})
    noting = NotingFiles(files)
    for how, path in [("read", "a/file"), ("names", "a"), ("read", "none"), ("read", "b/4242")]:
        ask(noting, how, path)

    assert noting.refused == {"a/file": "Permission denied", "a": "Input/output error"}
    assert noting.entries(all_names) == {}


def test_a_process_that_ends_in_between_is_not_there() -> None:
    files = FaultyFiles(TREE)
    noting = NotingFiles(files)
    noting.read("a/file")
    files.faults["a/file"] = errno.ENOENT
    with contextlib.suppress(FileNotFoundError):
        noting.read("a/file")

    assert noting.entries(no_names) == {}


def test_a_device_node_is_noted_as_what_may_be_read_of_it() -> None:
    noting = NotingFiles(RootFiles(Path("/dev")))
    told = noting.device("null")
    noted = noting.entries(no_names)
    assert noted == {"null": f"{told}\n".encode()}
    assert TreeFiles(noted).device("null") == told


def test_a_real_directory_and_a_real_device(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/null").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    noting = NotingFiles(RootFiles(tmp_path))

    assert noting.exists("folder")
    assert not noting.exists("dev/null")  # its link leads to the root's own /dev
    assert noting.entries(no_names) == {"folder": None}
