"""What tests look at in a machine."""

from __future__ import annotations

import json

from tests.packages.machine import Machine

# What a package may leave behind, and whose it is.
LEFT = (
    "/var/lib/dpkg/",  # dpkg's own books
    "/var/log/",  # what happened
    "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid",  # and their backups;
    # the group render, which is the distribution's and was missing
    "/etc/.pwd.lock",
    "/var/lib/systemd/timers/", "/var/lib/systemd/random-seed", "/var/lib/systemd/catalog/",  # systemd's, of any start
    "/var/tmp/systemd-private-", "/tmp/systemd-private-",  # noqa: S108 (folders of services that run)
)  # fmt: skip


def files(machine: Machine) -> set[str]:
    """All files of the machine, without those that may come and go."""
    found = machine.run("find / -xdev -printf '%p\\n'").splitlines()
    return {path for path in found if not path.startswith(LEFT)}


def running(machine: Machine) -> str:
    """The agents that run."""
    return machine.run("grep -l ^edgeagent /proc/[0-9]*/comm", check=False)


def board(machine: Machine, user: str) -> str:
    """What explain says of the recorded board: its kind."""
    document = json.loads(machine.run("edgeagent explain --format json /media/board", user=user))
    return str(document["board"]["kind"])
