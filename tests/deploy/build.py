"""Builds helm, kustomize and kubectl, the real ones, with which tests put ``deploy/`` on a cluster; once, into a cache.

From their Go modules, as ``tools/go.mod`` and ``tools/go.sum`` pin them: about four minutes on two cores, then found
again. Run ``python -m tests.deploy.build`` to build and print the folder. Where a program is on PATH it is not used:
the rendered files have to come out the same on every machine.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.build import BuildError, cache_root, go_toolchain, lock

TOOLS = Path(__file__).resolve().parent / "tools"
PACKAGES = {
    "helm": "helm.sh/helm/v4/cmd/helm",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
    "kubectl": "./kubectl",
}


def folder() -> Path:
    """Where they are kept: a folder for exactly this go.mod and go.sum."""
    pins = (TOOLS / "go.mod").read_bytes() + (TOOLS / "go.sum").read_bytes()
    return cache_root() / "deploy-tools" / hashlib.sha256(pins).hexdigest()[:16]


def missing() -> list[str]:
    """Names of the programs that are not in the folder yet."""
    return [name for name in PACKAGES if not os.access(folder() / name, os.X_OK)]


def build() -> Path:
    """Build whatever is missing; returns the folder of the programs. Safe to call from many processes.

    Raises:
        BuildError: a module could not be fetched or compiled.
    """
    if missing():
        folder().mkdir(parents=True, exist_ok=True)
        with lock(cache_root() / "build.lock"):
            go = go_toolchain()
            for name in missing():
                _build(go, name)
    return folder()


def _build(go: str, name: str) -> None:
    sys.stderr.write(f"building {name} …\n")
    partial = folder() / f".{name}.partial"
    command = [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(partial), PACKAGES[name]]
    env = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    if code := subprocess.run(command, check=False, cwd=TOOLS, env=env, stdout=sys.stderr).returncode:
        raise BuildError(f"exit {code} from: {' '.join(command)} (its output is above)")
    partial.rename(folder() / name)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except BuildError as error:
        sys.exit(f"tests.deploy.build: {error}")
