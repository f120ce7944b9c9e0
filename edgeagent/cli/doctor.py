"""``edgeagent doctor``: why a pod does not get the GPU."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.cli.arguments import (
    OK,
    PROBLEMS,
    beside_a_snapshot,
    board_options,
    source,
    warn_in_a_pod,
    with_extra,
)
from edgeagent.cli.endpoint import in_force
from edgeagent.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeagent.cli.arguments import Commands
    from edgeagent.diagnose.collected import Collected
    from edgeagent.diagnose.story import Step
    from edgeagent.facts import Finding, PodFacts
    from edgeagent.plan.types import GpuPath
    from edgeagent.snapshot.live import Source

POD = "pod"
_LOGS = "--logs goes with pod NAMESPACE/NAME on a board: logs are read from the cluster, of one pod"


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="why a pod does not get the GPU",
        description="Look for what keeps pods from the GPU, on this board, on a recorded one or in a whole cluster.",
        usage="edgeagent doctor [SNAPSHOT | pod NAMESPACE/NAME [SNAPSHOT] | --cluster] [options]",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="SNAPSHOT | pod NAMESPACE/NAME",
        help="a snapshot folder or .tar.gz (default: this board); pod: one pod from end to end",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--cluster", action="store_true", help="all nodes, by the API alone, from any machine")
    parser.add_argument("--logs", action="store_true", help="with pod: read the ends of its containers' logs too")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig, with --cluster")
    board_options(parser)
    parser.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    words = list(arguments.words)
    if arguments.cluster:
        if words:
            raise InputError("--cluster asks the API server alone: it takes no snapshot and no pod")
        if arguments.logs:
            raise InputError(_LOGS)
        return _cluster(arguments)
    if arguments.context:
        raise InputError("--context goes with --cluster")
    key = None
    # A folder of that name can be given as ./pod.
    if words and words[0] == POD:
        if len(words) < 2 or words[1].count("/") != 1:  # noqa: PLR2004 (pod and which)
            raise InputError("doctor pod: expected NAMESPACE/NAME")
        key, words = words[1], words[2:]
    if len(words) > 1:
        raise InputError("expected one snapshot at most")
    if arguments.logs and (key is None or words):
        raise InputError(_LOGS)
    return _board(arguments, Path(words[0]) if words else None, key)


def _board(arguments: argparse.Namespace, snapshot: Path | None, key: str | None) -> int:
    from edgeagent.diagnose import story, telling

    seen = _collected(arguments, snapshot)
    steps: Sequence[Step] = ()
    findings: Sequence[Finding] = seen.plan.findings
    if key is not None:
        pod = story.find(seen, key)
        if pod is None:
            raise InputError(f"pod {key}: {_absent(seen)}; {_where(key)}")
        steps = story.story(seen, pod, _said(arguments, seen, pod) if arguments.logs else ())
        findings = [one for one in findings if _concerns(one, key)]
    _tell(
        arguments,
        findings,
        node=seen.node.name if seen.node else None,
        path=seen.plan.gpu_path,
        looked=telling.on_board(seen),
        unlisted=telling.unseen(seen),
        steps=steps,
    )
    return PROBLEMS if any(one.severity == "error" for one in findings) else OK


def _said(arguments: argparse.Namespace, seen: Collected, pod: PodFacts) -> Sequence[Step]:
    from edgeagent.diagnose import loglines
    from edgeagent.snapshot import live

    return loglines.steps(live.logs(seen.facts.config, _source(arguments), seen.facts.host, pod))


def _source(arguments: argparse.Namespace) -> Source:
    """As the agent does it: the question is what keeps pods of this very node from the GPU."""
    return replace(source(arguments), discover=True)


def _absent(seen: Collected) -> str:
    if not seen.plan.listed:
        return f"the pods of this node are not known: {seen.cluster.waiting.why}"
    waiting = "" if seen.cluster.waiting.items is None else ", nor of those that wait for a node"
    return f"is not among the pods that are bound here{waiting}"


def _where(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"where it is: kubectl -n {shlex.quote(namespace)} get pod {shlex.quote(name)} -o wide"


def _concerns(one: Finding, key: str) -> bool:
    """It is about this pod, or about the node or a pool, and so about every pod."""
    kind, _, name = one.subject.partition(" ")
    return name == key if kind == "pod" else True


def _collected(arguments: argparse.Namespace, snapshot: Path | None) -> Collected:
    from edgeagent.diagnose.collected import Collected

    if snapshot is None:
        from edgeagent.snapshot import live

        warn_in_a_pod(arguments)
        found = live.examine(in_force(arguments), _source(arguments))
        return Collected(now=found.host.at, facts=found.facts, plan=found.plan, host=found.host, cluster=found.cluster)
    from edgeagent.snapshot import recording, replay

    beside_a_snapshot(arguments)
    # Of a series the last sample says what is wrong now.
    *_, (at, facts, plan, host, cluster) = replay.diagnosed(recording.read(snapshot))
    return Collected(now=at, facts=facts, plan=plan, host=host, cluster=cluster)


def _cluster(arguments: argparse.Namespace) -> int:
    try:
        from edgeagent.fleet.connect import connect
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "edgeagent":
            raise
        raise InputError(f"doctor --cluster needs the extra operator: {with_extra('operator')}") from error
    from edgeagent.diagnose import telling
    from edgeagent.diagnose.diagnosis import across
    from edgeagent.fleet import doctor

    with connect(arguments.kubeconfig, arguments.context, os.environ) as api:
        seen = doctor.look(api)
    findings = across(seen)
    _tell(
        arguments,
        findings,
        node=None,
        path=None,
        looked=telling.in_cluster(seen),
        unlisted=telling.unlisted(seen.cluster),
    )
    return PROBLEMS if any(one.severity == "error" for one in findings) else OK


def _tell(
    arguments: argparse.Namespace,
    findings: Sequence[Finding],
    *,
    node: str | None,
    path: GpuPath | None,
    looked: Sequence[str],
    unlisted: Sequence[str],
    steps: Sequence[Step] = (),
) -> None:
    from edgeagent.diagnose import telling

    if arguments.format == "json":
        document = telling.document(findings, node=node, path=path, looked=looked, unlisted=unlisted, steps=steps)
        print(json.dumps(document, indent=2))
        return
    from edgeagent.cli.page import page_style

    print(telling.text(findings, page_style(), path=path, looked=looked, unlisted=unlisted, steps=steps), end="")
