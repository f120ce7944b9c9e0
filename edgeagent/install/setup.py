"""Puts the service on a machine, again and again with the same result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent import config
from edgeagent.errors import InputError
from edgeagent.install import files, places, reserves
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
    nvml_replay: Path | None = None
    """A file that stands in for the driver when the board is looked at."""


def install(wish: Wish, systemd: Systemd, program: str) -> Report:
    """Write the files of a service that starts ``program``, make its user, enable and start it.

    Raises:
        InputError: nothing was written, because of what is there; or a step failed, and the command can be repeated.
    """
    # A service that cannot start must not replace one that runs: as after a downgrade, with keys that came later.
    config.load(reserves.configuration(wish.root))
    told = reserves.told(wish.root, wish.nvml_replay) if wish.k3s_reserves else None
    package = places.package_unit(wish.root)
    files_of_service = (places.configuration(),) if package else places.service(program)
    wanted = (*files_of_service, *(told.files if told else ()))
    compared = files.compare(wish.root, wanted, force=wish.force)
    if compared.problems:
        raise InputError(compared.problems)
    report = Report(dry=wish.dry, notes=list(compared.kept))
    if package:
        report.notes.append(f"unit and user are those of a package ({package})")
    changed = _write(wish, compared.writes, report)
    _accounts(systemd, changed, wish.root, report)
    _service(systemd, changed, report, start=wish.start)
    if not report.problems:
        _next(systemd, changed, told, report, start=wish.start)
    return report


def _write(wish: Wish, writes: Sequence[files.Write], report: Report) -> set[str]:
    """The paths that changed; what lies beside an edited file is read by nobody."""
    for due in writes:
        if wish.dry:
            kept = ", and keep what is there under another name" if due.backup else ""
            report.done.append(f"would write {due.target}{kept}")
            continue
        backup = files.write(wish.root, due)
        report.done.append(f"wrote {due.target}")
        if backup:
            report.notes.append(f"what was there is kept as {backup}")
    return {due.target for due in writes}


def _accounts(systemd: Systemd, changed: set[str], root: Path, report: Report) -> None:
    if places.SYSUSERS in changed or not systemd.has_user():
        name = Path(places.SYSUSERS).name
        report.step(f"made the user {USER}", f"make the user {USER}", partial(systemd.make_user, name))
    if places.TMPFILES in changed or not (root / places.CONFIG_FOLDER.lstrip("/")).is_dir():
        name = Path(places.TMPFILES).name
        made = places.CONFIG_FOLDER
        report.step(f"made {made}", f"make {made}", partial(systemd.make_folders, name))


def _service(systemd: Systemd, changed: set[str], report: Report, *, start: bool) -> None:
    """Let it start at boot and, where systemd runs, now; one that runs takes up what is new."""
    active = systemd.is_active()
    if places.UNIT in changed and systemd.running:
        report.step("systemd read its units again", "let systemd read its units again", systemd.read_units)
    if not systemd.is_enabled():
        report.step(f"enabled {SERVICE}", f"enable {SERVICE}", systemd.enable)
    if not (systemd.running and start):
        return
    configured = any(path.startswith(f"{places.FOLDER}/") for path in changed)
    if not active:
        _tell(systemd, "start", "started", report)
    elif places.UNIT in changed:
        _tell(systemd, "restart", "restarted", report)
    elif configured:
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


def _next(systemd: Systemd, changed: set[str], told: reserves.Told | None, report: Report, *, start: bool) -> None:
    if places.UNIT in changed:
        if not systemd.running:
            report.notes.append("systemd is not the init here, so nothing was started: it starts at the next boot")
        elif not start:
            report.next.append(f"systemctl restart {SERVICE}   # not done: --no-start")
        report.next += [
            f"edit {places.CONFIG}, then: edgeagent config check, systemctl reload {SERVICE}",
            "curl -s http://127.0.0.1:9843/readyz   # ok, or the reasons why not",
            "edgeagent explain   # what the board is and what is handed out",
        ]
    if told is not None and any(file.path in changed for file in told.files):
        room = mib(floor_mib(told.allocatable))
        report.next += [
            f"kubectl describe node NODE   # are the memory requests of its pods below {room}? K3s stops the others",
            "systemctl restart k3s-agent   # k3s on a server; edgeagent does not restart K3s",
        ]
