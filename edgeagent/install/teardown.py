"""Takes the service off a machine: first it is stopped, then what it published goes, then its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.errors import AlreadyRunningError, InputError
from edgeagent.install import files, marks, places
from edgeagent.install.report import Report
from edgeagent.install.systemd import SERVICE, USER
from edgeagent.plan import labels
from edgeagent.plan.removal import blind, command, rest
from edgeagent.system import lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeagent.config import Config
    from edgeagent.install.node import Cluster, Look
    from edgeagent.install.systemd import Systemd
    from edgeagent.plan.removal import Removal

AGAIN = "edgeagent uninstall --node-only   # when it can be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for."""

    root: Path = Path("/")
    files: bool = True
    """Stop the service and remove its files."""
    force: bool = False
    keep_needed: bool = False
    """Labels that running pods need stay, and keep nothing else on the node."""
    keep_config: bool = False
    purge: bool = False
    """The configuration, the state and the user go too."""


def uninstall(wish: Wish, settings: Config, systemd: Systemd, cluster: Cluster | None) -> Report:
    """Stop, clean the node, remove the files; ``cluster`` None: the node is left alone.

    A step that fails after others is a problem in the report. The command can be repeated.

    Raises:
        InputError: nothing was changed.
    """
    report = Report()
    look = cluster.look(force=wish.force) if cluster else None
    if cluster and not wish.files and not systemd.is_stopped() and not wish.force:
        raise InputError(f"{SERVICE} runs here and would put everything back; first: systemctl disable --now {SERVICE}")
    refused = _against(look, wish) if look else []
    if look and refused:
        report.problems += [*refused, "nothing was changed"]
        report.next += _ways_out(look, both=wish.files)
        return report
    try:
        _take_away(wish, settings, systemd, cluster, look, report)
    except InputError as error:
        if not report.done:
            raise
        report.problems += error.problems
        report.next.append("edgeagent uninstall   # again, with the same options: it goes on where it ended")
    return report


def _take_away(
    wish: Wish, settings: Config, systemd: Systemd, cluster: Cluster | None, look: Look | None, report: Report
) -> None:
    if wish.files:
        _stop(systemd, report)
    if cluster and look:
        _clean(cluster, look, settings, report, force=wish.force)
    if wish.files:
        if report.problems and not wish.force:
            report.notes.append(
                "the files stay, so that the same command can finish it; to remove them now: --files-only"
            )
        else:
            _remove(wish, systemd, report)


# --- the node ------------------------------------------------------------------------


def _against(look: Look, wish: Wish) -> list[str]:
    """Why nothing is begun."""
    if look.agents and not wish.force:
        return [f"{', '.join(look.agents)} on this node would put everything back"]
    if look.removal is None or (wish.keep_needed and not look.removal.problem):
        return []
    return _refused(look.removal)


def _refused(removal: Removal) -> list[str]:
    """Why the node is not touched."""
    if removal.problem:
        return [removal.problem]
    found = []
    for key, pods in removal.needed.items():
        if pods:
            found.append(
                f"the label {key} is required by {', '.join(pods)}: without it K3s stops them at its next start"
            )
        else:
            found.append(f"the label {key} may be required by a pod: the pods of this node could not be listed")
    return found


def _ways_out(look: Look, *, both: bool) -> list[str]:
    removal = look.removal
    ways = []
    if look.agents:
        ways.append("delete the DaemonSet, or keep it off this node, and run it again")
    elif removal is not None and removal.needed:
        ways.append("end these pods or move them away, and run it again")
        ways.append("--keep-needed leaves these labels, and takes the rest off the node")
    if both:
        ways.append("edgeagent uninstall --files-only   # and leave the node as it is; later: uninstall --node-only")
    guess = removal is not None and removal.problem
    what = (
        "all that bears the prefix edgeagent.dev/" if guess else "all that is listed" if look.agents else "the labels"
    )
    ways.append(f"--force removes {what} all the same")
    return ways


def _clean(cluster: Cluster, look: Look, settings: Config, report: Report, *, force: bool) -> None:
    if look.removal is not None:
        # The service has stopped since: what it wrote last is looked at, too.
        look = cluster.look(force=force)
    if look.found == "no cluster":
        report.notes.append(f"nothing was taken off a node: {look.why}")
        return
    if look.found == "no node":
        report.notes.append(f"there is no node {look.name} any more")
        return
    removal = look.removal
    if removal is None:
        report.problems.append(f"what was published is still on the node: {look.why}")
        report.next += _blind(look, settings)
        return
    report.problems += _refused(removal)
    failed = cluster.clean(removal)
    if failed:
        report.problems.append(f"what was published is still on the node {look.name}: {failed}")
        report.next += [AGAIN, "or:", *map(command, removal.requests)]
        return
    if removal.requests:
        report.done.append(f"took off the node {look.name}: {', '.join(removed(removal))}")
        left = rest(look.name or "NODE", removal)
        report.next += ["when no running pod requires them, from anywhere:", *map(command, left)] if left else []
    elif not removal.problem:
        report.notes.append(f"nothing of edgeagent is on the node {look.name}")
    report.problems += [
        f"{key} is listed as the agent's, which never writes such a key: it stays" for key in removal.foreign
    ]
    if removal.doubtful:
        report.notes.append(
            f"the label {removal.doubtful[0]} stays; if it was the agent's: kubectl label node {look.name} ai-capable-"
        )
    if removal.holders:
        report.notes.append(f"these pods run on, and nothing watches their GPU memory: {', '.join(removal.holders)}")


def removed(removal: Removal) -> list[str]:
    """The keys that a removal takes off the node."""
    found: list[str] = []
    for request in removal.requests:
        status, metadata = request.body.get("status", {}), request.body.get("metadata", {})
        found += {**status.get("capacity", {}), **status.get("allocatable", {})}
        found += [condition["type"] for condition in status.get("conditions", ())]
        found += metadata.get("labels", {})
        found += [key for key, text in metadata.get("annotations", {}).items() if text is None]
    return found


def _blind(look: Look, settings: Config) -> list[str]:
    """What to do about a node that could not be asked what is on it."""
    capacity, conditions, named, annotation = blind(look.name or "NODE", labels.ai_key(settings.labels))
    return [
        AGAIN,
        "or from elsewhere, when the API server answers:",
        command(capacity),
        command(conditions),
        "and only when no running pod of the node requires one of these labels:",
        command(named),
        command(annotation),
    ]


# --- the files -----------------------------------------------------------------------


def _stop(systemd: Systemd, report: Report) -> None:
    # One that starts, or waits to be started again, is not stopped.
    if not systemd.is_stopped():
        failed = systemd.tell("stop")
        if failed:
            raise InputError(f"{SERVICE} could not be stopped: {failed}")
        report.done.append(f"stopped {SERVICE}")
    if systemd.is_enabled():
        systemd.disable()
        report.done.append(f"disabled {SERVICE}")


def _remove(wish: Wish, systemd: Systemd, report: Report) -> None:
    root = wish.root
    k3s = places.k3s_files(root)
    service, beside = [places.UNIT, places.TMPFILES, places.SYSUSERS], [*k3s, places.RESERVES]
    listed = [*service, *(path + files.NEW for path in (*service, *beside))]
    gone, kept = files.removable(root, listed, force=wish.force)
    # A configuration is made to be edited: that it was is no reason to complain.
    own, _ = files.removable(root, [] if wish.keep_config else [places.CONFIG], force=False)
    pair, stay = _reserves(wish, k3s)
    kept += stay
    gone += pair
    for path in [*gone, *own]:
        files.remove(root, path)
        report.done.append(f"removed {path}")
    report.problems += kept
    if places.UNIT in gone and systemd.running:
        systemd.read_units()
    if set(k3s) & set(gone):
        report.next.append("systemctl restart k3s-agent   # k3s on a server: until then it keeps edgeagent's reserves")
    _backups(wish, [*service, *beside], report)
    _folders(wish, systemd, report)


def _reserves(wish: Wish, k3s: Sequence[str]) -> tuple[list[str], list[str]]:
    """(to remove, sentences about what stays) of what K3s was told, and of what our configuration says about it.

    Both or none: without the first, the second hands out pages of CMA. So the second goes first, too.
    """
    if wish.keep_config:
        return [], []
    gone, kept = files.removable(wish.root, [places.RESERVES], force=wish.force or wish.purge)
    told, edited = files.removable(wish.root, k3s, force=wish.force)
    kept += edited
    if kept and not wish.purge:
        return [], [*kept, *(f"{path} belongs to it and is kept, too" for path in (*gone, *told))]
    return [*gone, *told], kept


def _backups(wish: Wish, paths: Sequence[str], report: Report) -> None:
    """Files that ``install --force`` put aside: edited ones of ours go with a purge, those of others never."""
    aside = [path for file in paths for path in files.backups(wish.root, file)]
    ours = [path for path in aside if marks.author(files.content(wish.root, path) or b"") != "foreign"]
    for path in ours if wish.purge else ():
        files.remove(wish.root, path)
        report.done.append(f"removed {path}")
    others = [path for path in aside if not (wish.purge and path in ours)]
    if others:
        report.notes.append(f"kept: {', '.join(others)}, which edgeagent install --force put aside")


def _folders(wish: Wish, systemd: Systemd, report: Report) -> None:
    root = wish.root
    package = places.package_unit(root)
    if package:
        report.notes.append(f"{package} is a package's: what is left goes with the package")
    _empty(wish, systemd)
    left = [path for path in (places.FOLDER, places.STATE, places.DROP_INS) if files.place(root, path).exists()]
    if wish.purge:
        for path in left:
            files.remove_folder(root, path)
            report.done.append(f"removed {path}")
        _runtime(root, report)
        if systemd.made_user() and not package:
            systemd.drop_user()
            report.done.append(f"removed the user {USER}")
        elif systemd.has_user() and not package:
            report.notes.append(f"kept: the user {USER}, which edgeagent install did not make")
        return
    left += [f"the user {USER}"] if systemd.made_user() and not package else []
    if left:
        report.notes.append(f"kept: {', '.join(left)}; edgeagent uninstall --purge removes them")


def _empty(wish: Wish, systemd: Systemd) -> None:
    """Folders that an installation has made, and that hold nothing any more."""
    made = [*(path.rpartition("/")[0] for path in places.k3s_files(wish.root)), places.CONFIG_FOLDER, places.FOLDER]
    if wish.purge and not systemd.running:
        # A machine that runs has these from systemd's own package; an image may not have had them.
        made += [places.WANTS, *(path.rpartition("/")[0] for path in (places.SYSUSERS, places.TMPFILES, places.UNIT))]
    for path in made:
        place = files.place(wish.root, path)
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _runtime(root: Path, report: Report) -> None:
    """The folder of the lock goes while it is held, so that nobody runs with a lock that the next one does not find."""
    folder = files.place(root, places.RUNTIME)
    if not folder.is_dir():
        return
    try:
        with lock.only_instance(folder):
            files.remove_folder(root, places.RUNTIME)
    except AlreadyRunningError:
        report.notes.append(f"kept: {places.RUNTIME}, with which an agent still runs, such as the pod of a DaemonSet")
    else:
        report.done.append(f"removed {places.RUNTIME}")
