"""The explain document as a page of text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgeagent.quantity import human, mib

_MARKS = {"ok": " ", "breach": "!", "unbudgeted": "?", "unknown": "?", "terminating": "…", "protected": "#"}


def text(document: dict[str, Any], *, listed: bool) -> str:
    """Lines in reading order: what the board is, how its pool is made up, who holds what, what is done about it.

    ``listed``: the pods of the node are known; else none in the document does not mean that there are none.
    """
    return "\n".join(_lines(document, listed=listed)) + "\n"


def _lines(document: dict[str, Any], *, listed: bool) -> Iterator[str]:
    yield from _board(document)
    for pool in document["pools"]:
        yield from _pool(pool)
    yield from _host(document["host"])
    yield from _pods(document["pods"], listed=listed)
    yield from _plan(document)
    yield from _node(document["node"])
    yield from _findings(document["findings"])


def _board(document: dict[str, Any]) -> Iterator[str]:
    board = document["board"]
    details = [f"{name} {board[name]}" for name in ("soc", "module", "l4t", "jetpack") if board[name]]
    yield f"Board: {board['product'] or 'unknown product'} — {board['kind']}" + (
        f" ({', '.join(details)})" if details else ""
    )
    yield f"  signals: {', '.join(board['signals']) or 'none'}"
    for warning in board["warnings"]:
        yield f"  warning: {warning}"
    for device in document["devices"]:
        size = f", {human(device['total_bytes'])}" if device["total_bytes"] is not None else ""
        yield (
            f"  device {device['name']} {device['uuid'] or ''}".rstrip()
            + f": {device['memory']}{size}, health {device['health']}"
        )


def _pool(pool: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield f"Pool {pool['resource']} ({pool['kind']})"
    yield _row("total", pool["total_bytes"])
    for line in pool["reserves"]:
        yield _row(f"− {line['name']}", line["bytes"], line["origin"])
    if pool["kind"] == "unified":
        yield _row("− host parts of pods", pool["host_committed_bytes"])
    yield _row("= advertised", pool["advertised_bytes"])
    yield _row("of it requested by pods", pool["gpu_committed_bytes"], "overcommitted" if pool["overcommitted"] else "")


def _row(name: str, amount: int | None, note: str = "") -> str:
    shown = "unknown" if amount is None else mib(amount)
    return f"  {name:<26}{shown:>12}  {note}".rstrip()


def _host(host: dict[str, Any]) -> Iterator[str]:
    yield ""
    state = "under pressure" if host["pressure"] else "no pressure"
    yield f"Host: {human(host['available_bytes'])} available, {human(host['usable_bytes'])} usable, {state}"
    yield (
        f"  GPU memory outside pods: system {human(host['system_gpu_bytes'])}, "
        f"unattributed {human(host['unattributed_gpu_bytes'])}; leaving {human(host['leaving_bytes'])}"
    )


def _pods(pods: list[dict[str, Any]], *, listed: bool) -> Iterator[str]:
    yield ""
    if not pods:
        yield (
            "Pods: none" if listed else "Pods: not known, no cluster was asked; the figures are those of an empty board"
        )
        return
    width = max(len(f"{pod['namespace']}/{pod['name']}") for pod in pods)
    yield f"  {'POD':<{width}}  {'GPU':>10}  {'BUDGET':>10}  {'HOST':>10}  STATE"
    for pod in pods:
        budget = "none" if pod["gpu_budget_bytes"] is None else human(pod["gpu_budget_bytes"])
        yield (
            f"{_MARKS[pod['state']]} {pod['namespace'] + '/' + pod['name']:<{width}}  {human(pod['gpu_bytes']):>10}  "
            f"{budget:>10}  {human(pod['host_bytes']):>10}  {pod['state']}"
            + (f": {pod['reason']}" if pod["reason"] else "")
        )


def _plan(document: dict[str, Any]) -> Iterator[str]:
    plan = document["plan"]
    names = {pod["uid"]: f"{pod['namespace']}/{pod['name']}" for pod in document["pods"]}
    yield ""
    yield "Plan:" + ("" if any(plan[key] for key in ("evictions", "kills", "held", "events")) else " nothing to do")
    for eviction in plan["evictions"]:
        pod = f"{eviction['namespace']}/{eviction['name']}"
        yield f"  evict {pod} with {eviction['grace_seconds']} s grace: {eviction['message']}"
    for kill in plan["kills"]:
        pids = ", ".join(map(str, kill["pids"]))
        yield f"  kill processes {pids} of {names.get(kill['uid'], kill['uid'])}: {kill['message']}"
    for held in plan["held"]:
        left = f", {held['seconds_left']:.0f} s left" if held["seconds_left"] is not None else ""
        yield f"  hold {names.get(held['uid'], held['uid'])} ({held['code']}{left}): {held['why']}"
    for event in plan["events"]:
        yield f"  event {event['reason']} on {event['regarding']}: {event['note']}"


def _node(node: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "Node:"
    for key, value in node["capacity"].items():
        yield f"  capacity {key}: {value}"
    for key, value in node["labels"].items():
        yield f"  label {key}={value}"
    for condition in node["conditions"]:
        yield f"  condition {condition['type']}={condition['status']} ({condition['reason']})"
    yield f"  writes due now: {len(node['requests'])}"


def _findings(findings: list[dict[str, Any]]) -> Iterator[str]:
    if findings:
        yield ""
        yield "Findings:"
    for finding in findings:
        about = f"{finding['certainty']}, {finding['subject']}"
        yield f"  {finding['severity']} {finding['id']} ({about}): {finding['summary']}"
        for line in finding["remedy"].splitlines():
            yield f"    {line}"
