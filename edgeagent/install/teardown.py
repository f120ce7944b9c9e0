"""Takes the service off a machine: first it is stopped, then what it published goes, then its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.errors import InputError
from edgeagent.install import files, places
from edgeagent.install.report import Report
from edgeagent.install.systemd import SERVICE, USER
from edgeagent.plan import labels
from edgeagent.plan.removal import blind, command

if TYPE_CHECKING:
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
    keep_config: bool = False
    purge: bool = False
    """The configuration, the state and the user go too."""


def uninstall(wish: Wish, settings: Config, systemd: Systemd, cluster: Cluster | None) -> Report:
    """Stop, clean the node, remove the files; ``cluster`` None: the node is left alone.

    Raises:
        InputError: nothing was changed, or a step failed and the command can be repeated.
    """
    report = Report()
    look = cluster.look(force=wish.force) if cluster else None
    if cluster and not wish.files and systemd.is_active() and not wish.force:
        raise InputError(f"{SERVICE} runs here and would put everything back; first: systemctl disable --now {SERVICE}")
    refused = _refused(look.removal) if look and look.removal else []
    if refused:
        report.problems += [*refused, "nothing was changed"]
        report.next += _ways_out(look.removal if look else None, both=wish.files)
        return report
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
    return report


# --- the node ------------------------------------------------------------------------


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


def _ways_out(removal: Removal | None, *, both: bool) -> list[str]:
    ways = []
    if removal is not None and removal.needed:
        ways.append("end these pods or move them away, and run it again")
    if both:
        ways.append("edgeagent uninstall --files-only   # and leave the node as it is; later: uninstall --node-only")
    guess = removal is not None and removal.problem
    ways.append(f"--force removes {'all that bears the prefix edgeagent.dev/' if guess else 'the labels all the same'}")
    return ways


def _clean(cluster: Cluster, look: Look, settings: Config, report: Report, *, force: bool) -> None:
    if look.found == "no cluster":
        report.notes.append(f"nothing was taken off a node: {look.why}")
        return
    if look.found == "no node":
        report.notes.append(f"there is no node {look.name} any more")
        return
    if look.removal is not None:
        # The service has stopped since: what it wrote last is looked at, too.
        look = cluster.look(force=force)
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
    if systemd.is_active():
        failed = systemd.tell("stop")
        if failed:
            raise InputError(f"{SERVICE} could not be stopped: {failed}")
        report.done.append(f"stopped {SERVICE}")
    if systemd.is_enabled():
        report.step(f"disabled {SERVICE}", f"disable {SERVICE}", systemd.disable)


def _remove(wish: Wish, systemd: Systemd, report: Report) -> None:
    root = wish.root
    k3s = places.k3s_files(root)
    # What K3s was told and what our configuration says about it belong together, whoever keeps the configuration.
    listed = [places.UNIT, places.TMPFILES, places.SYSUSERS, *k3s, places.RESERVES]
    gone, kept = files.removable(root, [*listed, *(path + files.NEW for path in listed)], force=wish.force)
    # A configuration is made to be edited: that it was is no reason to complain.
    own, _ = files.removable(root, [] if wish.keep_config else [places.CONFIG], force=False)
    for path in [*gone, *own]:
        files.remove(root, path)
        report.done.append(f"removed {path}")
    report.problems += kept
    if places.UNIT in gone and systemd.running:
        systemd.read_units()
    if set(k3s) & set(gone):
        report.next.append("systemctl restart k3s-agent   # k3s on a server: until then it keeps edgeagent's reserves")
    _folders(wish, systemd, report)


def _folders(wish: Wish, systemd: Systemd, report: Report) -> None:
    root = wish.root
    package = places.package_unit(root)
    if package:
        report.notes.append(f"{package} is a package's: what is left goes with the package")
    for path in (places.CONFIG_FOLDER, places.FOLDER):
        place = files.place(root, path)
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    left = [path for path in (places.FOLDER, places.STATE, places.DROP_INS) if files.place(root, path).exists()]
    if wish.purge:
        for path in left:
            files.remove_folder(root, path)
            report.done.append(f"removed {path}")
        if systemd.has_user() and not package:
            report.step(f"removed the user {USER}", f"remove the user {USER}", systemd.drop_user)
        return
    left += [f"the user {USER}"] if systemd.has_user() and not package else []
    if left:
        report.notes.append(f"kept: {', '.join(left)}; edgeagent uninstall --purge removes them")
