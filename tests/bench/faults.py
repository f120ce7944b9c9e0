"""Are the properties worth their name? ``python -m tests.bench.faults [WORDS]`` plants faults, and each must be caught.

Every fault is an edit of a copy of the package, see ``tests/bench/faults_planted.py``; against it the properties of
evictions are run. One that survives means a missing or weak property, and ends in 1, as does one whose place in the
source is not found any more. WORDS choose the faults whose promise or name has them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.faults_planted import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("pyproject.toml", "edgeagent", "tests/__init__.py", "tests/conftest.py", "tests/properties", "tests/unit")
SUITE = "tests/properties/test_evictions.py"
SURVIVED, MISSING, BROKEN = "SURVIVED", "NOT FOUND", "BROKEN"


def main() -> int:
    """Prints promise, fault and the test that caught it."""
    words = [word.lower() for word in sys.argv[1:]]
    faults = [one for one in FAULTS if all(word in f"{one.promise} {one.what}".lower() for word in words)]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        clean = run(copied(Path(scratch) / "clean"))
        if clean != SURVIVED:
            print(f"without any fault: {clean}")
            return 1
        places = [Path(scratch) / str(number) for number in range(len(faults))]
        promise, caught = "", []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for fault, by in zip(faults, pool.map(tried, faults, places), strict=True):
                caught.append(by)
                if fault.promise != promise:
                    promise = fault.promise
                    print(f"\n{promise}")
                print(f"  {fault.what:<56} {by}", flush=True)
    bad = sum(by in (SURVIVED, MISSING, BROKEN) for by in caught)
    print(f"\n{len(faults)} faults, {len(faults) - bad} caught, {bad} not; {time.monotonic() - begun:.0f} s")
    return int(bool(bad))


def tried(fault: Fault, folder: Path) -> str:
    """The test that catches the fault, or why none did."""
    source = ROOT / "edgeagent" / fault.file
    text = source.read_text()
    if text.count(fault.old) != 1:
        return MISSING
    try:
        (copied(folder) / "edgeagent" / fault.file).write_text(text.replace(fault.old, fault.new))
        return run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copied(folder: Path) -> Path:
    """A copy of what the properties need."""
    for name in NEEDED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


def run(folder: Path) -> str:
    """The first test that fails on the package in ``folder``, or that none does."""
    command = [sys.executable, "-m", "pytest", SUITE, "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return SURVIVED
    failed = re.search(r"(?m)^FAILED \S+::(\w+)", ended.stdout)
    return failed[1] if failed else BROKEN


if __name__ == "__main__":
    sys.exit(main())
