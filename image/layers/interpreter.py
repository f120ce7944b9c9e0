"""The image's own Python, started from its unpacked files: what is made with it does not depend on this machine's."""

from __future__ import annotations

import subprocess
from pathlib import Path

from layers.places import PYTHON, native


class Interpreter:
    """Python of the tree ``root``, which is one for this machine. No file of the tree is written."""

    def __init__(self, root: Path) -> None:
        machine = native()
        libraries = f"{root}/usr/lib/{machine.triplet}"
        self._start = [f"{root}/{machine.loader}", "--library-path", libraries, f"{root}/usr/bin/python{PYTHON}", "-s"]

    def run(self, *arguments: str | Path, folder: Path | None = None, **environ: str) -> str:
        """Run Python to its end, in ``folder``; returns its standard output.

        Raises:
            subprocess.CalledProcessError: it failed; its message is on stderr.
        """
        command = [*self._start, *map(str, arguments)]
        # No bytecode but that of ``compile``: any other has a time in it.
        environ = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"} | environ
        return subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout

    def compile(self, root: Path, folder: str) -> None:
        """Write the bytecode of all modules in ``folder`` of another tree, of either machine: it is the same for both.

        With a read-only root Python could not keep it, and would compile at every start. It is not compared with the
        sources: their times are those of the image.
        """
        options = ["-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", f"-s{root}", "-p/"]
        self.run(*options, root / folder)
