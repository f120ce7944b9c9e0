"""The offline bundle: one archive with which a board without network is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from recipe import stage, tools
from recipe.targets import FOLDER, ROOT, version
from recipe.wheels import digest


def build(out: Path, packages: list[Path], wheels: list[Path]) -> Path:
    """Pack Debian packages, and the wheels for boards that have none; the archive in ``out``."""
    name = f"edgeagent-{version()}-offline"
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, name)
        for package in packages:
            stage.put(package, tree / package.name)
        for wheel in wheels:
            stage.put(wheel, tree / "wheels" / wheel.name)
        for file in sorted((ROOT / "systemd").iterdir()):
            stage.put(file, tree / "systemd" / file.name)
        stage.put(FOLDER / "make-venv", tree / "make-venv", 0o755)
        stage.put(FOLDER / "bundle/install.sh", tree / "install.sh", 0o755)
        stage.put(FOLDER / "bundle/README", tree / "README")
        stage.put(ROOT / "LICENSE", tree / "LICENSE")
        files = sorted(path for path in tree.rglob("*") if path.is_file())
        stage.write(tree / "SHA256SUMS", "".join(f"{digest(path)}  {path.relative_to(tree)}\n" for path in files))
        stage.settle(tree, int(tools.epoch()))
        stage.archive(tree, out / f"{name}.tar.gz")
    return out / f"{name}.tar.gz"
