"""containerd's own configuration names no NVIDIA runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding


def look(seen: Collected) -> Iterator[Finding]:
    """The file that containerd reads, and nothing else, is proof."""
    used = seen.host.containerd
    if not seen.has_gpu or used.nvidia or used.twice or not used.pods:
        return
    if used.problem:
        # Where K3s never ran there is nothing to be read, and nothing to be told.
        if used.there and seen.host.k3s:
            yield RULE.finding(
                seen.node_subject,
                f"Whether containerd has an NVIDIA runtime cannot be told: {used.problem}.",
                evidence=(used.problem,),
                remedy=_written(seen),
                severity="info",
                certainty="cannot-tell",
            )
        return
    users = sorted(view.pod.key for view in seen.plan.pods if view.use.seen)
    yield RULE.finding(
        seen.node_subject,
        f"{used.path} names no NVIDIA runtime, so pods run without the GPU"
        + (f"; {users[0]} reaches it some other way." if users else "."),
        evidence=(
            f"{used.path}: runtimes {', '.join(sorted(used.runtimes)) or 'none'}",
            *(seen.host.toolkit or ("nvidia-container-runtime: not found",)),
            *(f"{template.path}: is a template of it" for template in seen.host.templates),
        ),
        remedy=advice.configure(seen),
        severity="warning" if users else "error",
    )


def _written(seen: Collected) -> str:
    """Who writes a file that cannot be read: K3s its own one, anything else a person."""
    path = seen.host.containerd.path
    if seen.host.external or not seen.host.containerd.problem.startswith(path):
        return f"Mend that file, and then:\n{advice.restart(seen)}"
    template = next((f" from {one.path}; look at that first" for one in seen.host.templates), "")
    return f"K3s writes {path} when it starts{template}:\n{advice.restart(seen)}"


RULE = Rule(
    id="runtime-missing",
    title="No NVIDIA runtime",
    severity="error",
    looks_at="the configuration that the containerd of this node reads: K3s' own, "
    "`<data-dir>/agent/etc/containerd/config.toml`, with its imports; another one only where K3s was started with "
    "`--docker` or `--container-runtime-endpoint`; where `nvidia-container-runtime` is; templates of K3s'",
    matters="containerd starts every container with runc then, and the GPU's devices and libraries are not in it. "
    "A program that can do without runs on the CPU and tells nobody.",
    remedy="Install `nvidia-container-toolkit` and restart K3s, which looks for the runtime when it starts. "
    "Where there is a template, it has to name the runtime or take in K3s' own text.",
    look=look,
    condition=True,
)
RULES = (RULE,)
