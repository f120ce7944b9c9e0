"""Files with some of them replaced or hidden."""

from __future__ import annotations

import pytest

from edgeagent.host.files import TreeFiles
from edgeagent.host.overlay import OverlayFiles

TREE = TreeFiles({"etc/a.yaml": b"a", "etc/b.yaml": b"b", "etc/c.yaml": b"c"})
FILES = OverlayFiles(TREE, {"etc/b.yaml": b"other", "etc/c.yaml": None, "etc/d.yaml": b"new", "srv/x/y": b"y"})


def test_a_replaced_file_and_a_new_one_are_read() -> None:
    assert FILES.read("/etc/a.yaml") == b"a"
    assert FILES.read("/etc/b.yaml") == b"other"
    assert FILES.read("etc/d.yaml") == b"new"
    assert FILES.read("srv/x/y") == b"y"


def test_a_hidden_file_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        FILES.read("/etc/c.yaml")
    assert not FILES.exists("etc/c.yaml")
    assert FILES.stamp("etc/c.yaml") is None
    assert FILES.exists("etc/a.yaml")
    assert FILES.stamp("etc/b.yaml") != TREE.stamp("etc/b.yaml")


def test_a_folder_lists_what_is_there_now() -> None:
    assert FILES.names("/etc/") == ("a.yaml", "b.yaml", "d.yaml")
    assert FILES.names("srv/x") == ("y",)
    with pytest.raises(FileNotFoundError):
        FILES.names("srv/z")
