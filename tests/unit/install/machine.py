"""A machine below a folder: a recorded Orin Nano with K3s, and systemd's programs as far as install uses them."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgeagent.install.report import Report
from edgeagent.install.setup import Wish, install
from edgeagent.install.systemd import Systemd
from tests.cluster.recorded import recorded_board

PROGRAM = "/srv/edgeagent/bin/edgeagent"
UNIT = "etc/systemd/system/edgeagent.service"
CONFIG = "etc/edgeagent/config.yaml"
SYSUSERS = "etc/sysusers.d/edgeagent.conf"
TMPFILES = "etc/tmpfiles.d/edgeagent.conf"
K3S_RESERVES = "etc/rancher/k3s/config.yaml.d/90-edgeagent-reserves.yaml"
OUR_RESERVES = "etc/edgeagent/config.d/90-k3s-reserves.yaml"


@dataclass
class Programs:
    """What systemctl and the others would do to the machine below ``root``; each call is noted."""

    root: Path
    calls: list[str] = field(default_factory=list)
    enabled: bool = False
    active: bool = False
    state: str = ""
    """The unit's ActiveState, where it is neither active nor inactive."""
    started: float = field(default_factory=time.monotonic)
    """When the service was started last, by the monotonic clock."""
    failing: dict[str, str] = field(default_factory=dict)
    """What a command says when it fails, by its verb."""

    def __call__(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        words = [word for word in argv if not word.startswith("--root=")]
        verb = words[1] if words[0] == "systemctl" else words[0]
        if verb == "show" and "--property=ActiveState" in words:
            state = self.state or ("active" if self.active else "inactive")
            return subprocess.CompletedProcess(list(argv), 0, f"{state}\n", "")
        if verb == "show":
            return subprocess.CompletedProcess(list(argv), 0, f"{self.started * 1_000_000:.0f}\n", "")
        if verb == "is-enabled":
            return subprocess.CompletedProcess(list(argv), 0 if self.enabled else 1, "", "")
        self.calls.append(" ".join(words))
        if verb in self.failing:
            return subprocess.CompletedProcess(list(argv), 1, "", self.failing[verb])
        if verb in ("enable", "disable"):
            self.enabled = verb == "enable"
        elif verb in ("start", "restart", "stop"):
            self.active, self.state = verb != "stop", ""
            self.started = time.monotonic()
        elif verb == "systemd-sysusers":
            (self.root / "etc/passwd").write_text(
                "root:x:0:0::/root:/bin/sh\nedgeagent:x:997:997:edgeagent node agent:/:/usr/sbin/nologin\n"
            )
        elif verb == "systemd-tmpfiles":
            (self.root / "etc/edgeagent/config.d").mkdir(parents=True, exist_ok=True)
        elif verb == "userdel":
            (self.root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
        return subprocess.CompletedProcess(list(argv), 0, "", "")


@dataclass
class Machine:
    """The machine. ``booted``: its systemd runs."""

    root: Path
    booted: bool = True
    programs: Programs = field(init=False)

    def __post_init__(self) -> None:
        shutil.copytree(recorded_board() / "host", self.root, symlinks=True)
        self.programs = Programs(self.root)

    @property
    def systemd(self) -> Systemd:
        return Systemd(self.root, booted=self.booted, run=self.programs)

    def install(self, *, program: str = PROGRAM, **wish: bool) -> Report:
        return install(Wish(root=self.root, **wish), self.systemd, program)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def files(self) -> dict[str, str]:
        """Every file and link below the root, but for what the board itself has: its content."""
        found = {}
        for folder in ("etc", "usr/lib"):
            for path in sorted((self.root / folder).rglob("*")):
                if path.is_symlink() or path.is_file():
                    found[str(path.relative_to(self.root))] = (
                        str(path.readlink()) if path.is_symlink() else path.read_text(errors="replace")
                    )
        return found
