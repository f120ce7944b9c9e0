"""The NVIDIA runtime is configured in a file that this node's containerd does not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding


def look(seen: Collected) -> Iterator[Finding]:
    """Other files matter only while the one that counts lacks the runtime."""
    used = seen.host.containerd
    others = [one for one in seen.host.elsewhere if one.nvidia]
    if not seen.has_gpu or used.problem or used.nvidia or not used.pods or not others:
        return
    paths = " and ".join(one.path for one in others)
    yield RULE.finding(
        seen.node_subject,
        f"{paths} {'name' if len(others) > 1 else 'names'} an NVIDIA runtime, but pods of this node are run as "
        f"{used.path} says, which names none.",
        evidence=(
            *(f"{one.path}: runtimes {', '.join(sorted(one.runtimes))}" for one in others),
            f"{used.path}: runtimes {', '.join(sorted(used.runtimes)) or 'none'}",
        ),
        remedy=advice.configure(seen),
    )


RULE = Rule(
    id="runtime-config-wrong-file",
    title="NVIDIA runtime in a file that nobody reads",
    severity="warning",
    looks_at="`/etc/docker/daemon.json`, `/etc/containerd/config.toml` and `/etc/containerd/conf.d/*.toml`, beside the "
    "configuration that the containerd of this node reads",
    matters="`nvidia-ctk runtime configure` edits the files of Docker or of the system's containerd. K3s brings a "
    "containerd of its own, so the edit has no effect, and pods still get runc.",
    remedy="Leave those files as they are, and let K3s find the runtime: see `runtime-missing`.",
    look=look,
)
RULES = (RULE,)
