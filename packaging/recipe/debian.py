"""The Debian package of one architecture: a staged tree, packed by dpkg-deb."""

from __future__ import annotations

import email.utils
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from recipe import licences, stage, tools
from recipe.targets import FOLDER, NO_LONGER, PYTHONS, ROOT, debian_version, version

_FILES = FOLDER / "debian"
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/edgeagent",
    "zsh": "usr/share/zsh/vendor-completions/_edgeagent",
    "fish": "usr/share/fish/vendor_completions.d/edgeagent.fish",
}
"""Where Debian's shells look for the completion of a command, by shell."""
_SCRIPTS = ("preinst", "postinst", "prerm", "postrm")


def build(out: Path, architecture: str, wheels: list[Path]) -> Path:
    """Pack ``wheels``, our own among them, for ``architecture``; the package in ``out``."""
    target = out / f"edgeagent_{debian_version(version())}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place)
        _fill(tree, wheels)
        _control(tree, architecture)
        stage.settle(tree, int(tools.epoch()))
        # Wheels are compressed: xz would take twenty times as long for 8 % less.
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, target],  # noqa: S607 (as its builder has it)
            env=tools.environment(tools.epoch()),
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return target


def _fill(tree: Path, wheels: list[Path]) -> None:
    for wheel in wheels:
        stage.put(wheel, tree / "usr/lib/edgeagent/wheels" / wheel.name)
    stage.put(FOLDER / "make-venv", tree / "usr/lib/edgeagent/make-venv", 0o755)
    # /lib is a link to /usr/lib on every system that this package is for, and dpkg knows a file by one name only.
    stage.put(ROOT / "systemd/edgeagent.service", tree / "usr/lib/systemd/system/edgeagent.service")
    for kind in ("sysusers", "tmpfiles"):
        stage.put(ROOT / f"systemd/edgeagent.{kind}.conf", tree / f"usr/lib/{kind}.d/edgeagent.conf")
    stage.put(ROOT / "edgeagent/install/data/config.yaml", tree / "usr/share/edgeagent/config.yaml")
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/edgeagent").symlink_to("/opt/edgeagent/bin/edgeagent")
    for shell, place in _COMPLETIONS.items():
        stage.write(tree / place, _completion(shell))
    stage.put(_FILES / "lintian-overrides", tree / "usr/share/lintian/overrides/edgeagent")
    documents = tree / "usr/share/doc/edgeagent"
    stage.write(documents / "copyright", licences.copyright_file(wheels))
    stage.compress(documents / "changelog.gz", (ROOT / "CHANGELOG.md").read_text())
    stage.compress(documents / "changelog.Debian.gz", _changelog())


def _completion(shell: str) -> str:
    """As the program itself prints it, which takes nothing but the standard library."""
    # -B: the sources are left as they are.
    command = [sys.executable, "-B", "-m", "edgeagent", "completion", shell]
    environment = tools.environment(tools.epoch())
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _maintainer() -> str:
    lines = (_FILES / "control").read_text().splitlines()
    return next(line.removeprefix("Maintainer: ") for line in lines if line.startswith("Maintainer: "))


def _changelog() -> str:
    date = email.utils.formatdate(int(tools.epoch()))
    entry = f"edgeagent ({debian_version(version())}) stable; urgency=medium\n\n  * See changelog.gz.\n"
    return f"{entry}\n -- {_maintainer()}  {date}\n"


def _control(tree: Path, architecture: str) -> None:
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    values = {
        "@VERSION@": debian_version(version()),
        "@ARCHITECTURE@": architecture,
        "@OLDEST@": PYTHONS[0],
        "@NO_LONGER@": NO_LONGER,
        "@KIB@": str(sum(-(-path.stat().st_size // 1024) for path in files)),
    }
    text = (_FILES / "control").read_text()
    for name, value in values.items():
        text = text.replace(name, value)
    sums = [f"{_md5(path)}  {path.relative_to(tree)}\n" for path in files]
    stage.write(tree / "DEBIAN/control", text)
    stage.write(tree / "DEBIAN/md5sums", "".join(sums))
    stage.put(_FILES / "triggers", tree / "DEBIAN/triggers")
    for script in _SCRIPTS:
        stage.put(_FILES / script, tree / "DEBIAN" / script, 0o755)


def _md5(path: Path) -> str:
    """What dpkg --verify compares with; against damage, not against anybody."""
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
