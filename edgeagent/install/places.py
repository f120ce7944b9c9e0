"""Which files make up the service, and where on the machine they go."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.config import DEFAULT_FILE
from edgeagent.host import k3s
from edgeagent.host.files import RootFiles
from edgeagent.install.files import File
from edgeagent.install.marks import marked
from edgeagent.system import dirs

if TYPE_CHECKING:
    from edgeagent.host.files import Files

UNIT = "/etc/systemd/system/edgeagent.service"
WANTS = "/etc/systemd/system/multi-user.target.wants"
"""Where systemctl enable puts a link (the unit's WantedBy=)."""
DROP_INS = f"{UNIT}.d"
"""What ``systemctl edit edgeagent`` writes."""
SYSUSERS = "/etc/sysusers.d/edgeagent.conf"
TMPFILES = "/etc/tmpfiles.d/edgeagent.conf"
PACKAGED = ("/usr/lib/systemd/system/edgeagent.service", "/lib/systemd/system/edgeagent.service")
"""Where a package has its unit; all that is ours is below /etc, as becomes an administrator's command."""
CONFIG = str(DEFAULT_FILE)
FOLDER = str(DEFAULT_FILE.parent)
CONFIG_FOLDER = f"{FOLDER}/config.d"
RESERVES = f"{CONFIG_FOLDER}/90-k3s-reserves.yaml"
"""What our own configuration has to say where K3s has been told our reserves."""
STATE = str(dirs.STATE)
RUNTIME = str(dirs.RUNTIME)
K3S_FOLDER = "/etc/rancher/k3s/config.yaml.d"
K3S_NAME = "90-edgeagent-reserves.yaml"
"""Late in the order of names, so that a file of others that sets ``kubelet-arg`` anew comes before it."""
START = "ExecStart=/opt/edgeagent/bin/edgeagent run"
"""The line of the unit that names the program."""


def configuration() -> File:
    """The configuration to begin with: it shows every default, and changes one: nobody is evicted."""
    return File(CONFIG, marked(_shipped("config.yaml")), personal=True)


def service(program: str) -> tuple[File, ...]:
    """The files of a service that starts ``program``, in the order in which they are written."""
    unit = _shipped("edgeagent.service").replace(START, f"ExecStart={program} run")
    return (
        File(SYSUSERS, marked(_shipped("edgeagent.sysusers.conf"))),
        File(TMPFILES, marked(_shipped("edgeagent.tmpfiles.conf"))),
        configuration(),
        File(UNIT, marked(unit)),
    )


def package_unit(root: Path) -> str | None:
    """The unit that a package has installed, with user and folders; None where there is none."""
    return next((path for path in PACKAGED if (root / path.lstrip("/")).exists()), None)


def k3s_files(root: Path) -> tuple[str, ...]:
    """Where a file that tells K3s our reserves may be: in its configuration's folder, and in the usual one."""
    found = k3s.arguments(host_files(root))
    folders = (*((found.folder,) if found else ()), K3S_FOLDER)
    return tuple(dict.fromkeys(f"{folder}/{K3S_NAME}" for folder in folders))


def host_files(root: Path) -> Files:
    """The files of the machine below ``root``, to read."""
    return RootFiles(root)


def _shipped(name: str) -> str:
    return (resources.files("edgeagent.install") / "data" / name).read_text(encoding="utf-8")
