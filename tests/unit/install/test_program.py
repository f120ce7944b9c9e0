"""Which program the service starts, and which it could not start."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from edgeagent.errors import InputError
from edgeagent.install import program

HERE = Path("/")


@pytest.mark.parametrize(
    ("path", "directive"),
    [
        ("/home/ubuntu/venv/bin/edgeagent", "ProtectHome=yes"),
        ("/root/.local/bin/edgeagent", "ProtectHome=yes"),
        ("/run/user/1000/edgeagent", "ProtectHome=yes"),
        ("/tmp/venv/bin/edgeagent", "PrivateTmp=yes"),  # noqa: S108 (a path that is only looked at)
        ("/var/tmp/venv/bin/edgeagent", "PrivateTmp=yes"),  # noqa: S108 (as above)
    ],
)
def test_what_the_sandbox_hides_cannot_be_started(path: str, directive: str) -> None:
    assert directive in program.unusable([Path(path)], HERE)


@pytest.mark.parametrize("path", ["/opt/edge agent/bin/edgeagent", "/opt/100%/edgeagent", "/opt/$x/e", '/opt/"/e'])
def test_a_path_that_means_something_else_in_a_unit_is_refused(path: str) -> None:
    assert "unit file" in program.unusable([Path(path)], HERE)


def test_a_link_into_a_home_directory_is_seen_through(tmp_path: Path) -> None:
    # What a virtual environment made by a user's own Python looks like.
    image = tmp_path / "image"
    for folder in ("opt/bin", "home/me"):
        (image / folder).mkdir(parents=True)
    (image / "home/me/python3").touch(mode=0o755)
    # The image's own /home, not that of the machine that builds it.
    (image / "opt/bin/python3").symlink_to("/home/me/python3")

    found = program.unusable([image / "opt/bin/python3"], image)

    assert "/home" in found


def test_what_only_its_owner_may_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "opt"
    folder.mkdir()
    script = folder / "edgeagent"
    script.write_text("")
    script.chmod(0o755)
    folder.chmod(0o755)

    assert program.unusable([script], tmp_path) == ""
    script.chmod(0o700)
    assert str(script) in program.unusable([script], tmp_path)
    script.chmod(0o755)
    folder.chmod(0o700)
    assert f"{folder}: not open to all" in program.unusable([script], tmp_path)


def test_the_path_is_the_one_that_the_machine_below_the_root_sees() -> None:
    assert program.seen(Path("/mnt/image/opt/edgeagent/bin/edgeagent"), Path("/mnt/image")) == (
        "/opt/edgeagent/bin/edgeagent"
    )
    assert program.seen(Path("/opt/edgeagent/bin/edgeagent"), Path("/mnt/image")) == "/opt/edgeagent/bin/edgeagent"
    assert program.seen(Path("/opt/edgeagent/bin/edgeagent"), HERE) == "/opt/edgeagent/bin/edgeagent"


def test_a_program_that_is_only_on_the_machine_that_builds_an_image_is_refused(tmp_path: Path) -> None:
    script, image = tmp_path / "opt/bin/edgeagent", tmp_path / "image"
    inside = image / script.relative_to("/")
    for path in (script, inside):
        path.parent.mkdir(parents=True)
    script.touch(mode=0o755)

    assert program.absent([script], HERE) == ""
    assert program.absent([script], image).startswith(f"{inside}: is not there")
    inside.touch(mode=0o755)
    assert program.absent([script], image) == ""


def test_an_interpreter_is_looked_for_where_the_machine_of_the_image_follows_the_link(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/python3").symlink_to("../usr/bin/python3")
    assert "opt/python3: is not there" in program.absent([tmp_path / "opt/python3"], tmp_path)

    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").symlink_to("/usr/bin/python3.99")
    assert program.absent([tmp_path / "opt/python3"], tmp_path)
    (tmp_path / "usr/bin/python3.99").touch(mode=0o755)
    assert program.absent([tmp_path / "opt/python3"], tmp_path) == ""


def test_links_in_a_circle_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")

    with pytest.raises(InputError, match="in a circle"):
        program.absent([tmp_path / "a"], tmp_path)


def test_install_into_an_image_refuses_the_builders_program(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not there, and the machine below .*; install the package .* --root"):
        program.find(tmp_path)


def test_a_program_that_is_not_installed_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))

    with pytest.raises(InputError, match="is not there"):
        program.find(HERE)


def test_it_is_the_installation_that_runs_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "unusable", lambda _parts, _root: "")

    assert program.find(HERE) == str(Path(sysconfig.get_path("scripts")) / "edgeagent")


def test_how_it_is_called_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_file, other = tmp_path / "venv/edgeagent", tmp_path / "other/edgeagent"
    for file in (program_file, other):
        file.parent.mkdir()
        file.touch(mode=0o755)
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    assert program.called(str(program_file)) == str(program_file)

    (folder / "edgeagent").symlink_to(program_file)
    assert program.called(str(program_file)) == "edgeagent"
    assert program.called(str(other)) == str(other)
