"""The default runtime is one that containerd does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding


def look(seen: Collected) -> Iterator[Finding]:
    """Fatal for every pod, so it is told on a node without a GPU too."""
    used = seen.host.containerd
    fails = "Every pod on this node will fail"
    if used.twice:
        yield RULE.finding(
            seen.node_subject,
            f"{fails}: {used.path} sets {used.twice} twice, and containerd does not read such a file.",
            evidence=(used.problem,),
            remedy=_remedy(seen, f"Set {used.twice} once"),
        )
    elif used.default is not None and not used.has(used.default):
        yield RULE.finding(
            seen.node_subject,
            f"{fails}: the default runtime {used.default} of {used.path} is not defined there.",
            evidence=(
                f"{used.path}: default {used.default}",
                f"{used.path}: runtimes {', '.join(sorted(used.runtimes)) or 'none'}",
            ),
            remedy=_remedy(seen, f"Define the runtime {used.default}, or make runc the default one again"),
        )


def _remedy(seen: Collected, what: str) -> str:
    where = seen.host.containerd.path
    if seen.host.k3s and not seen.host.external:
        templates = [one.path for one in seen.host.templates]
        lost = f". What was edited by hand in {where} is lost when K3s starts"
        where = (templates[0] if templates else "a template of K3s'") + f", or by K3s' option default-runtime{lost}"
    return f"{what}, in {where}. Then: {advice.restart(seen)}"


RULE = Rule(
    id="runtime-default-undefined",
    title="The default runtime is not defined",
    severity="error",
    looks_at="`default_runtime_name` and the names of the runtimes in the configuration that containerd reads; "
    "Docker's `default-runtime` where that is what runs pods here",
    matters="Every pod on the node that names no RuntimeClass stays in `ContainerCreating`, with or without a GPU.",
    remedy="Define the runtime, or make `runc` the default again, in K3s' template or by its option "
    "`default-runtime`, and restart K3s.",
    look=look,
    condition=True,
)
RULES = (RULE,)
