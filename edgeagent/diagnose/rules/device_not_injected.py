"""A pod asks for GPU memory of ours and gets no device: the resource is counted, it brings none (k3s-io/k3s#10034)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import injection
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import PREFIX

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding


def look(seen: Collected) -> Iterator[Finding]:
    """Every container of pods that are bound here, started or not."""
    if not seen.has_gpu:
        return
    for view in seen.plan.pods:
        pod = view.pod
        for container in injection.lasting(pod) if not pod.terminating else ():
            amounts = injection.asked(container, PREFIX)
            barred = injection.barred(seen, pod, container) if amounts else None
            if barred is None or injection.holds(seen, view, container):
                continue
            yield RULE.finding(
                pod_subject(pod),
                f"Container {container.name} asks for {', '.join(amounts)} and gets no GPU: {barred.why}.",
                evidence=(
                    *(f"container {container.name} requests {key}: {amount}" for key, amount in amounts.items()),
                    *barred.evidence,
                ),
                remedy=injection.remedy(seen, pod, container, by_runtime=barred.by_runtime),
                pod=pod,
            )


RULE = Rule(
    id="device-not-injected",
    title="A pod asks for GPU memory and gets no GPU",
    severity="error",
    looks_at="containers with a resource of edgeagent's; `spec.runtimeClassName` and the handler that it leads to, "
    "else the default runtime in containerd's own configuration; `NVIDIA_VISIBLE_DEVICES` where the manifest sets it. "
    "Not one that may get a device in another way: a CDI annotation, a resource claim, another device plugin's "
    "resource, `privileged`, the host's `/dev`; nor one that holds a GPU device node all the same",
    matters="`edgeagent.dev/gpu-memory` makes the scheduler count memory. It gives no container a device: that is what "
    "NVIDIA's runtime does, for pods that run under it. Without it the memory is taken from others and used by nobody.",
    remedy="Name the RuntimeClass, and the variable unless the image sets it:\n"
    "spec:\n"
    "  runtimeClassName: nvidia\n"
    "  containers:\n"
    "    - name: main\n"
    "      env:\n"
    "        - {name: NVIDIA_VISIBLE_DEVICES, value: all}",
    look=look,
)
RULES = (RULE,)
