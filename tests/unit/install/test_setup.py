"""``edgeagent install``: what it writes, what it leaves alone, and that it can be repeated."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import edgeagent
from edgeagent import config
from edgeagent.config import Config
from edgeagent.errors import InputError
from edgeagent.install import marks, places
from edgeagent.system import dirs
from tests.unit.install.machine import (
    CONFIG,
    K3S_RESERVES,
    OUR_RESERVES,
    PROGRAM,
    SYSUSERS,
    TMPFILES,
    UNIT,
    Machine,
)

SYSTEMD = Path(__file__).parents[3] / "systemd"


def body(text: str) -> str:
    """A file without the line that says who wrote it."""
    return text.partition("\n")[2]


# --- what is written -----------------------------------------------------------------


def test_the_files_are_those_of_the_repository_with_this_program(machine: Machine) -> None:
    machine.install()

    unit = (SYSTEMD / "edgeagent.service").read_text()
    assert body(machine.read(UNIT)) == unit.replace("/opt/edgeagent/bin/edgeagent run", f"{PROGRAM} run")
    assert f"\nExecStart={PROGRAM} run\n" in machine.read(UNIT)
    assert body(machine.read(SYSUSERS)) == (SYSTEMD / "edgeagent.sysusers.conf").read_text()
    assert body(machine.read(TMPFILES)) == (SYSTEMD / "edgeagent.tmpfiles.conf").read_text()


def test_the_unit_of_the_repository_has_the_line_that_is_replaced() -> None:
    assert (SYSTEMD / "edgeagent.service").read_text().splitlines().count(places.START) == 1


def test_the_first_line_has_the_hash_of_the_rest(machine: Machine) -> None:
    machine.install()

    for path in (UNIT, SYSUSERS, TMPFILES, CONFIG):
        first, _, rest = machine.read(path).partition("\n")
        assert first.startswith("# Written by edgeagent install")
        assert hashlib.sha256(rest.encode()).hexdigest() in first


def test_the_first_configuration_evicts_nobody_and_changes_nothing_else(machine: Machine) -> None:
    report = machine.install()

    assert config.load([("default", machine.read(CONFIG))]) == Config(mode="observe")
    assert report.text("").splitlines()[-1].strip() == (
        "nothing is evicted until /etc/edgeagent/config.yaml says mode: enforce, and: "
        "systemctl reload edgeagent.service"
    )


def test_a_drop_in_that_enforces_is_not_spoken_of_as_looking(machine: Machine) -> None:
    machine.write("etc/edgeagent/config.d/site.yaml", "mode: enforce\n")

    assert "nothing is evicted" not in machine.install().text("")


@pytest.mark.parametrize("there", [None, "default"], ids=["no configuration", "that of an earlier version"])
def test_a_service_that_enforces_is_not_made_to_look_by_an_update(machine: Machine, there: str | None) -> None:
    machine.install()
    (machine.root / CONFIG).unlink()
    if there:
        # An earlier version's, which nobody has edited since.
        (machine.root / CONFIG).write_bytes(marks.marked("#mode: enforce\n"))
    before = machine.files()
    machine.programs.calls.clear()

    assert machine.install().done == []
    assert (machine.files(), machine.programs.calls) == (before, [])


def uncommented(text: str) -> str:
    """All settings of the file; the sentences in it stand one blank behind their sign."""
    return "\n".join(line.removeprefix("#") for line in text.splitlines() if not re.match(r"#( \S|$)", line))


def keys(section: Any) -> Any:
    """The keys of a configuration, nested."""
    if not dataclasses.is_dataclass(section):
        return None
    return {item.name: keys(getattr(section, item.name)) for item in dataclasses.fields(section)}


def test_the_default_configuration_shows_every_key_with_its_default(machine: Machine) -> None:
    machine.install()
    shown = uncommented(machine.read(CONFIG))

    assert config.load([("uncommented", shown)]) == Config(mode="observe")
    parsed = yaml.safe_load(shown)
    written = {key: dict.fromkeys(value) if isinstance(value, dict) else None for key, value in parsed.items()}
    assert written == keys(Config())


def test_it_says_what_it_did_in_the_order_in_which_it_did_it(machine: Machine) -> None:
    report = machine.install()

    assert report.done == [
        "wrote /etc/sysusers.d/edgeagent.conf",
        "wrote /etc/tmpfiles.d/edgeagent.conf",
        "wrote /etc/edgeagent/config.yaml",
        "wrote /etc/systemd/system/edgeagent.service",
        "made the user edgeagent",
        "made /etc/edgeagent/config.d",
        "systemd read its units again",
        "enabled edgeagent.service",
        "started edgeagent.service",
    ]
    assert machine.programs.calls == [
        "systemd-sysusers edgeagent.conf",
        "systemd-tmpfiles --create edgeagent.conf",
        "systemctl daemon-reload",
        "systemctl enable edgeagent.service",
        "systemctl start edgeagent.service",
    ]
    # a program that no shell finds by its name
    assert any(f"{PROGRAM} config check" in line for line in report.next)


# --- again ---------------------------------------------------------------------------


def test_the_second_time_there_is_nothing_to_do(machine: Machine) -> None:
    machine.install()
    before = machine.files()
    machine.programs.calls.clear()

    report = machine.install()

    assert report.text("nothing to do") == "nothing to do"
    assert (machine.files(), machine.programs.calls) == (before, [])


def test_another_program_replaces_the_unit_and_the_service_is_restarted(machine: Machine) -> None:
    machine.install()
    machine.programs.calls.clear()

    report = machine.install(program="/usr/local/edgeagent/bin/edgeagent")

    assert "ExecStart=/usr/local/edgeagent/bin/edgeagent run" in machine.read(UNIT)
    assert machine.programs.calls == ["systemctl daemon-reload", "systemctl restart edgeagent.service"]
    assert report.notes == []


def test_a_service_that_was_stopped_by_hand_is_started(machine: Machine) -> None:
    machine.install()
    machine.programs.active = False
    machine.programs.calls.clear()

    machine.install()

    assert machine.programs.calls == ["systemctl start edgeagent.service"]


# --- what others wrote ---------------------------------------------------------------


def test_an_edited_unit_is_kept_and_the_new_one_goes_beside_it(machine: Machine) -> None:
    machine.install()
    edited = machine.read(UNIT).replace("WatchdogSec=15", "WatchdogSec=60")
    machine.write(UNIT, edited)
    machine.programs.calls.clear()

    report = machine.install(program="/usr/local/edgeagent/bin/edgeagent")

    assert machine.read(UNIT) == edited
    assert "ExecStart=/usr/local/edgeagent/bin/edgeagent run" in machine.read(f"{UNIT}.new")
    assert [note for note in report.notes if "/etc/systemd/system/edgeagent.service was edited" in note]
    # Nothing that systemd reads has changed.
    assert machine.programs.calls == []
    again = machine.install(program="/usr/local/edgeagent/bin/edgeagent")
    assert (again.done, again.notes) == ([], report.notes)


def test_an_edited_unit_is_replaced_by_force_and_kept_under_another_name(machine: Machine) -> None:
    machine.install()
    machine.write(UNIT, machine.read(UNIT) + "# mine\n")
    machine.install(force=True)
    machine.write(UNIT, machine.read(UNIT) + "# mine again\n")
    machine.install(force=True)

    assert "# mine" not in machine.read(UNIT)
    assert machine.read(f"{UNIT}.bak").endswith("# mine\n")
    assert machine.read(f"{UNIT}.bak1").endswith("# mine again\n")


def test_a_file_of_others_is_a_refusal_and_nothing_is_written(machine: Machine) -> None:
    machine.write(UNIT, "[Service]\nExecStart=/usr/bin/other\n")
    machine.write(SYSUSERS, "u edgeagent 900\n")
    before = machine.files()

    with pytest.raises(InputError) as refused:
        machine.install()

    assert [problem.partition(":")[0] for problem in refused.value.problems] == [f"/{SYSUSERS}", f"/{UNIT}"]
    assert (machine.files(), machine.programs.calls) == (before, [])


def test_a_file_of_others_is_replaced_by_force_and_kept_under_another_name(machine: Machine) -> None:
    machine.write(UNIT, "[Service]\nExecStart=/usr/bin/other\n")

    report = machine.install(force=True)

    assert f"ExecStart={PROGRAM} run" in machine.read(UNIT)
    assert machine.read(f"{UNIT}.bak") == "[Service]\nExecStart=/usr/bin/other\n"
    assert report.notes == [f"what was there is kept as {machine.root / UNIT}.bak"]


def test_a_file_that_cannot_be_replaced_is_where_it_was(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write(SYSUSERS, "u edgeagent 900\n")
    before = machine.files()

    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(dirs, "write", full)
        with pytest.raises(InputError, match="cannot be written: No space left on device"):
            machine.install(force=True)

    assert machine.files() == before
    machine.install(force=True)
    assert machine.read(f"{SYSUSERS}.bak") == "u edgeagent 900\n"


def test_a_service_that_runs_an_older_program_is_restarted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.install()
    machine.programs.calls.clear()
    machine.programs.started -= 60
    new = tmp_path / "__init__.py"
    new.touch()
    os.utime(new, (0, 0))  # an archive may bring such times along
    monkeypatch.setattr(edgeagent, "__file__", str(new))

    assert machine.install(start=False).next == ["systemctl restart edgeagent.service   # not done: --no-start"]
    assert machine.install(dry=True).done == ["would restart edgeagent.service"]
    assert machine.programs.calls == []
    assert machine.install().done == ["restarted edgeagent.service"]

    assert machine.programs.calls == ["systemctl restart edgeagent.service"]
    assert machine.install().done == []


def test_a_masked_unit_stays_masked(machine: Machine) -> None:
    (machine.root / UNIT).parent.mkdir(parents=True)
    (machine.root / UNIT).symlink_to("/dev/null")

    with pytest.raises(InputError, match="not written by edgeagent install"):
        machine.install()

    assert str((machine.root / UNIT).readlink()) == "/dev/null"


@pytest.mark.parametrize("force", [False, True])
def test_a_configuration_is_never_replaced(machine: Machine, force: bool) -> None:  # noqa: FBT001 (a case)
    machine.write(CONFIG, "mode: observe\n")

    report = machine.install(force=force)

    assert machine.read(CONFIG) == "mode: observe\n"
    assert report.notes == []


def test_a_folder_that_leads_out_of_the_root_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (machine.root / "etc/systemd").symlink_to(outside)

    with pytest.raises(InputError, match="leads out of"):
        machine.install()

    assert list(outside.iterdir()) == []


# --- what cannot be done -------------------------------------------------------------


def test_a_configuration_that_this_version_cannot_use_stops_it_before_anything_is_written(machine: Machine) -> None:
    # As after a downgrade: a key that came later.
    machine.write(CONFIG, "policy: {quota: 2Gi}\n")

    with pytest.raises(InputError, match=r"unknown key policy\.quota"):
        machine.install()

    assert not machine.has(UNIT)


def test_a_service_that_does_not_start_is_a_problem_that_names_the_log(machine: Machine) -> None:
    machine.programs.failing["start"] = "Job for edgeagent.service failed.\nSee journalctl.\n"

    report = machine.install()

    assert report.problems == [
        "edgeagent.service could not be started: Job for edgeagent.service failed. See journalctl."
    ]
    assert report.next == ["journalctl -u edgeagent.service   # why"]


def test_a_user_that_cannot_be_made_ends_it_and_it_can_be_repeated(machine: Machine) -> None:
    machine.programs.failing["systemd-sysusers"] = "read-only"
    failed = machine.install()
    assert failed.done == [f"wrote /{path}" for path in (SYSUSERS, TMPFILES, CONFIG, UNIT)]
    assert failed.problems == [f"systemd-sysusers --root={machine.root} edgeagent.conf: read-only"]
    assert "again" in failed.next[0]
    machine.programs.failing.clear()

    report = machine.install()

    assert report.done[0] == "made the user edgeagent"
    assert machine.programs.active


def test_a_dry_run_changes_nothing_and_says_the_same_steps(machine: Machine) -> None:
    before = machine.files()
    dry = machine.install(dry=True)

    assert (machine.files(), machine.programs.calls) == (before, [])
    assert dry.next == ["the same without --dry-run"]
    assert not any("was started" in note for note in dry.notes)
    assert len(dry.done) == len(machine.install().done)
    assert all(line.startswith("would ") for line in dry.done)


def test_without_start_the_service_waits_for_the_next_boot(machine: Machine) -> None:
    report = machine.install(start=False)

    assert machine.programs.enabled
    assert not machine.programs.active
    assert any("systemctl restart edgeagent.service" in line for line in report.next)


def test_an_image_whose_systemd_does_not_run_is_only_prepared(machine: Machine) -> None:
    machine.booted = False

    report = machine.install()

    assert [call for call in machine.programs.calls if call.startswith("systemctl")] == [
        "systemctl enable edgeagent.service"
    ]
    assert any("next boot" in note for note in report.notes)
    # No command that would reach the machine that builds the image.
    assert report.next[0] == f"edit {machine.root / CONFIG}"
    assert not any("curl" in line for line in report.next)


def test_a_service_on_its_way_takes_up_a_new_unit(machine: Machine) -> None:
    machine.install()
    machine.programs.state = "activating"
    machine.programs.calls.clear()

    machine.install(program="/usr/local/edgeagent/bin/edgeagent")

    assert machine.programs.calls == ["systemctl daemon-reload", "systemctl restart edgeagent.service"]


# --- whose a file is -----------------------------------------------------------------


def test_the_author_of_a_file() -> None:
    ours = marks.marked("a\nb\n")

    assert marks.author(ours) == "ours"
    assert marks.author(ours + b"c\n") == "edited"
    assert marks.author(ours.replace(b"a\n", b"A\n")) == "edited"
    assert marks.author(b"a\n" + ours) == "foreign"
    assert marks.author(b"") == "foreign"


# --- beside a package ----------------------------------------------------------------


def test_beside_a_package_only_what_a_package_does_not_bring_is_written(machine: Machine) -> None:
    machine.write("usr/lib/systemd/system/edgeagent.service", "[Service]\n")
    before = machine.files()

    report = machine.install(k3s_reserves=True)

    # Disabled and stopped it stays, as somebody wants it.
    assert set(machine.files()) - set(before) == {OUR_RESERVES, K3S_RESERVES}
    assert machine.programs.calls == []
    assert report.notes == ["unit and user are those of a package (/usr/lib/systemd/system/edgeagent.service)"]
    assert machine.install(k3s_reserves=True).done == []


def test_beside_a_package_a_service_that_runs_takes_the_new_configuration_up(machine: Machine) -> None:
    machine.write("usr/lib/systemd/system/edgeagent.service", "[Service]\n")
    machine.programs.active = True

    machine.install(k3s_reserves=True)

    assert machine.programs.calls == ["systemctl reload edgeagent.service"]
