"""Puts the service on a machine, again and again with the same result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import edgeagent
from edgeagent import config
from edgeagent.errors import InputError
from edgeagent.install import files, places, reserves
from edgeagent.install.program import called
from edgeagent.install.report import Report
from edgeagent.install.systemd import SERVICE, USER
from edgeagent.quantity import floor_mib, mib

if TYPE_CHECKING:
    from edgeagent.install.systemd import Systemd


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for."""

    root: Path = Path("/")
    k3s_reserves: bool = False
    dry: bool = False
    start: bool = True
    """Start the service where systemd runs."""
    force: bool = False


def install(wish: Wish, systemd: Systemd, program: str) -> Report:
    """Write the files of a service that starts ``program``, make its user, enable and start it.

    A step that fails after others is a problem in the report. The command can be repeated.

    Raises:
        InputError: nothing was written, because of what is there, or because the first step failed.
    """
    package = places.package_unit(wish.root)
    wanted = () if package else _files(wish.root, program)
    # A service that cannot start must not replace one that runs: as after a downgrade, with keys that came later.
    first = [(file.path, file.content.decode()) for file in wanted if file.personal]
    settings = config.load([*first, *reserves.configuration(wish.root)])
    told = reserves.told(wish.root, force=wish.force) if wish.k3s_reserves else None
    compared = files.compare(wish.root, (*wanted, *(told.files if told else ())), force=wish.force)
    if compared.problems:
        raise InputError(compared.problems)
    report = Report(dry=wish.dry, notes=list(compared.kept))
    changed = {due.target for due in compared.writes}  # what lies beside an edited file is read by nobody
    try:
        _write(wish, compared.writes, report)
        if package:
            report.notes.append(f"unit and user are those of a package ({package})")
            _take_up(systemd, changed, report, start=wish.start)
        else:
            _accounts(systemd, changed, wish.root, report)
            _service(systemd, changed, report, start=wish.start)
    except InputError as error:
        if not report.done:
            raise
        report.problems += error.problems
        report.next.append(f"{called(program)} install   # again, with the same options: it goes on where it ended")
    if not report.problems:
        _next(wish, systemd, changed, told, report, called(program))
        if settings.mode == "observe" and places.UNIT in changed and not wish.dry:
            report.next.append(
                f"nothing is evicted until {places.CONFIG} says mode: enforce, and: systemctl reload {SERVICE}"
            )
    return report


def _files(root: Path, program: str) -> tuple[files.File, ...]:
    """The files of the service. One that is there already has what configuration it is to have, be it none."""
    there = files.content(root, places.UNIT) is not None
    return tuple(file for file in places.service(program) if not (there and file.personal))


def _write(wish: Wish, writes: Sequence[files.Write], report: Report) -> None:
    for due in writes:
        if wish.dry:
            kept = ", and keep what is there under another name" if due.backup else ""
            report.done.append(f"would write {due.target}{kept}")
            continue
        backup = files.write(wish.root, due)
        report.done.append(f"wrote {due.target}")
        if backup:
            report.notes.append(f"what was there is kept as {backup}")


def _accounts(systemd: Systemd, changed: set[str], root: Path, report: Report) -> None:
    if places.SYSUSERS in changed or not systemd.has_user():
        name = Path(places.SYSUSERS).name
        report.step(f"made the user {USER}", f"make the user {USER}", partial(systemd.make_user, name))
    if places.TMPFILES in changed or not (root / places.CONFIG_FOLDER.lstrip("/")).is_dir():
        name = Path(places.TMPFILES).name
        made = places.CONFIG_FOLDER
        report.step(f"made {made}", f"make {made}", partial(systemd.make_folders, name))


def _outdated(systemd: Systemd) -> bool:
    """Whether the service was started before the files of this program were written, by pip, say."""
    started = systemd.started() if systemd.is_active() else None
    # Not the time of the content, which may be that of a build.
    return started is not None and started < Path(edgeagent.__file__).stat().st_ctime


def _service(systemd: Systemd, changed: set[str], report: Report, *, start: bool) -> None:
    """Let it start at boot and, where systemd runs, now; one that runs takes up what is new."""
    outdated = places.UNIT in changed or _outdated(systemd)
    if places.UNIT in changed and systemd.running:
        report.step("systemd read its units again", "let systemd read its units again", systemd.read_units)
    if not systemd.is_enabled():
        report.step(f"enabled {SERVICE}", f"enable {SERVICE}", systemd.enable)
    if not systemd.running:
        return
    stopped = systemd.is_stopped()
    if not start:
        if outdated:
            report.next.append(f"systemctl restart {SERVICE}   # not done: --no-start")
    elif outdated and not stopped:
        _tell(systemd, "restart", "restarted", report)
    elif not systemd.is_active():
        # Also one that is on its way: how that ends is waited for.
        _tell(systemd, "start", "started", report)
    else:
        _take_up(systemd, changed, report, start=start)


def _take_up(systemd: Systemd, changed: set[str], report: Report, *, start: bool) -> None:
    """Let a service that runs read a configuration that is new."""
    if start and systemd.is_active() and any(path.startswith(f"{places.FOLDER}/") for path in changed):
        _tell(systemd, "reload", "reloaded", report)


def _tell(systemd: Systemd, verb: str, past: str, report: Report) -> None:
    if report.dry:
        report.done.append(f"would {verb} {SERVICE}")
        return
    failed = systemd.tell(verb)
    if failed:
        report.problems.append(f"{SERVICE} could not be {past}: {failed}")
        report.next.append(f"journalctl -u {SERVICE}   # why")
    else:
        report.done.append(f"{past} {SERVICE}")


def _next(
    wish: Wish, systemd: Systemd, changed: set[str], told: reserves.Told | None, report: Report, command: str
) -> None:
    if places.UNIT in changed and not systemd.running:
        verb = "would be" if wish.dry else "was"
        report.notes.append(f"systemd is not the init here, so nothing {verb} started: it starts at the next boot")
    if wish.dry:
        report.next = ["the same without --dry-run"] if report.done else []
        return
    if not systemd.running:
        # The other commands would reach the machine that builds.
        report.next += [f"edit {files.place(wish.root, places.CONFIG)}"] if places.UNIT in changed else []
        return
    if places.UNIT in changed:
        report.next += [
            f"edit {places.CONFIG}, then: {command} config check, systemctl reload {SERVICE}",
            "curl -s http://127.0.0.1:9843/readyz   # ok, or the reasons why not",
            f"{command} explain   # what the board is and what is handed out",
        ]
    if told is not None and any(file.path in changed for file in told.files):
        room = mib(floor_mib(told.allocatable))
        report.next += [
            f"kubectl describe node NODE   # are the memory requests of its pods below {room}? K3s stops the others",
            "systemctl restart k3s-agent   # k3s on a server; edgeagent does not restart K3s",
        ]
