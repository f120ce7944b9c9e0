"""K3s' kubelet evicts nobody when memory ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose.rule import Rule
from edgeagent.plan import messages

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding, KubeletSettings


_BY_HAND = (
    "Add to a file in /etc/rancher/k3s/config.yaml.d, and restart K3s:\n"
    "kubelet-arg+:\n"
    f'  - "eviction-hard=memory.available<256Mi,{messages.KUBELET_DEFAULTS}"'
)


def look(seen: Collected) -> Iterator[Finding]:
    """Of K3s alone: another kubelet has a threshold by default."""
    kubelet = seen.facts.host.kubelet
    if not seen.has_gpu or not seen.host.k3s or _threshold(kubelet):
        return
    pool = next((pool for pool in seen.plan.pools if pool.kind == "unified"), None)
    given = kubelet.eviction_hard
    yield RULE.finding(
        seen.node_subject,
        "K3s gives its kubelet no memory.available threshold: when memory ends, the kernel kills whom it likes.",
        evidence=(
            f"{given[1]}: eviction-hard memory.available<{given[0]}"
            if given
            else "K3s' configuration, its unit and kubelet.conf.d: no eviction-hard with memory.available",
            *kubelet.problems,
        ),
        remedy=messages.kubelet_args(pool) if pool else _BY_HAND,
        certainty="suspected" if kubelet.problems else "certain",
    )


def _threshold(kubelet: KubeletSettings) -> bool:
    """There is one that is not 0."""
    if kubelet.eviction_hard is None:
        return False
    try:
        return quantity.size(kubelet.eviction_hard[0], 100) > 0
    except ValueError:
        return True


RULE = Rule(
    id="no-memory-eviction",
    title="The kubelet evicts nobody when memory ends",
    severity="info",
    looks_at="`kubelet-arg` in K3s' configuration and unit, and the kubelet's own configuration files, by K3s' "
    "precedence",
    matters="K3s sets thresholds for disks only, and reserves nothing. The kernel's OOM killer then chooses among all "
    "processes of the node, K3s and the agent included.",
    remedy="Where edgeagent is a service, and CPU and GPU share one memory, `sudo edgeagent install --k3s-reserves` "
    f"writes it, for K3s to read when it starts. Else: {_BY_HAND[0].lower()}{_BY_HAND[1:]}",
    look=look,
    event="",
)
RULES = (RULE,)
