"""Commands that change what a pod is made from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent.plan import peaks

if TYPE_CHECKING:
    from edgeagent.facts import ContainerFacts, PodFacts

_TEMPLATES = ("Deployment", "StatefulSet", "DaemonSet")


def changed(pod: PodFacts, container: ContainerFacts, *, spec: dict[str, Any], fields: dict[str, Any]) -> str:
    """How its maker, or the pod itself, gets these fields of its spec and of one container. Null takes one away.

    A maker that brings out new pods by itself is patched. A pod of its own has to be made anew. Of any other the lines
    are told.
    """
    listed = "containers" if container.kind == "regular" else "initContainers"
    whole = {**spec, **({listed: [{"name": container.name, **fields}]} if fields else {})}
    maker = peaks.workload(pod, container.name)
    at = f"kubectl -n {pod.namespace}"
    if pod.mirror:
        return f"In the file on the node that the static pod {pod.name} is made from:\n{_lines(whole)}"
    if maker.kind in _TEMPLATES:
        body = {"spec": {"template": {"spec": whole}}}
        return f"{at} patch {maker.kind.lower()} {maker.name} --type strategic -p '{json.dumps(body)}'"
    if maker.kind == "CronJob":
        body = {"spec": {"jobTemplate": {"spec": {"template": {"spec": whole}}}}}
        return f"{at} patch cronjob {maker.name} --type strategic -p '{json.dumps(body)}'"
    if maker.kind == "Pod":
        # Without its node, so that it is the scheduler that places it again.
        alone = {"spec": {"nodeName": None, **whole}}
        return (
            f"{at} get pod {pod.name} -o json \\\n"
            f"  | kubectl patch --local -f - --type strategic -o json -p '{json.dumps(alone)}' \\\n"
            f"  | {at} replace --force -f -"
        )
    return f"In the pod template of {maker.kind} {pod.namespace}/{maker.name}, and make it anew:\n{_lines(whole)}"


def _lines(spec: dict[str, Any]) -> str:
    return str(yaml.safe_dump({"spec": spec}, sort_keys=False, default_flow_style=False)).rstrip()
