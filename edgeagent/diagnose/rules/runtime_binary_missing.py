"""A runtime of NVIDIA's is configured whose binary is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding


def look(seen: Collected) -> Iterator[Finding]:
    """An error where no other runtime is left, or where it is the default one."""
    used = seen.host.containerd
    gone = [name for name in used.nvidia if not used.runtimes[name][1]]
    if not seen.has_gpu or not gone:
        return
    left = [name for name in used.nvidia if name not in gone]
    binaries = sorted({used.runtimes[name][0] for name in gone} - {""})
    lack = f"{', '.join(binaries)} does not exist" if binaries else "it names no binary of its own, so it is runc"
    yield RULE.finding(
        seen.node_subject,
        f"{used.path} names the runtime {', '.join(sorted(gone))}, but {lack}.",
        evidence=(f"{used.path}: {', '.join(f'{name} → {used.runtimes[name][0] or None}' for name in used.nvidia)}",),
        remedy="Install what is missing, and let the file be written anew:\n"
        f"sudo apt-get install -y --reinstall nvidia-container-toolkit\n{advice.restart(seen)}",
        severity="warning" if left and used.default not in gone else "error",
    )


RULE = Rule(
    id="runtime-binary-missing",
    title="The runtime's binary does not exist",
    severity="error",
    looks_at="`BinaryName` of every NVIDIA runtime in the configuration that containerd reads, and whether that file "
    "exists; a name without a folder is looked for where programs are",
    matters="Every pod that asks for this runtime stays in `ContainerCreating`; if it is the default one, every pod.",
    remedy="Install `nvidia-container-toolkit` again, or take the runtime out of the configuration, and restart K3s.",
    look=look,
    condition=True,
)
RULES = (RULE,)
