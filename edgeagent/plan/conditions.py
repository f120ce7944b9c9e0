"""Node conditions that state a problem; False is healthy. Messages carry no live figures, so that they stay still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from edgeagent.plan import hostmemory
from edgeagent.plan.types import Condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from edgeagent.facts import Finding, RuntimeFacts
    from edgeagent.memory.types import Board
    from edgeagent.plan.hostmemory import Blame
    from edgeagent.plan.pressure import Danger

PRESSURE = "GPUMemoryPressure"
UNAVAILABLE = "GPUUnavailable"
MISCONFIGURED = "GPURuntimeMisconfigured"
TYPES = (PRESSURE, UNAVAILABLE, MISCONFIGURED)


def conditions(
    board: Board,
    runtime: RuntimeFacts,
    danger: Danger,
    blamed: Blame | None,
    findings: Sequence[Finding] | None = (),
    present: Sequence[Mapping[str, Any]] = (),
) -> tuple[Condition, ...]:
    """All three conditions, or none on a node that is known to have no GPU.

    ``blamed``: the host, for pressure. ``findings``: of the last diagnosis, for the runtime; None: none was made yet,
    so what the node says of it now stays. ``present``: the node's conditions, as the API has them.
    """
    if board.kind == "none":
        return ()
    return (_pressure(board, danger, blamed), _unavailable(board), _misconfigured(runtime, findings, present))


def _pressure(board: Board, danger: Danger, blamed: Blame | None) -> Condition:
    if not danger.by_floor:
        reason, message = "MemoryAboveFloor", "Usable memory is above the floor."
        if board.unified is False:
            reason, message = "MemoryNotShared", "The GPU has memory of its own, so the host's is not judged."
        elif not danger.known:
            reason, message = "NotReadable", "Usable memory has not been readable so far."
        return Condition(type=PRESSURE, status="False", reason=reason, message=message)
    if blamed is not None:
        return Condition(type=PRESSURE, status="True", reason="HostMemory", message=hostmemory.message(blamed))
    return Condition(
        type=PRESSURE, status="True", reason="MemoryBelowFloor", message="Usable memory is below the floor."
    )


def _unavailable(board: Board) -> Condition:
    if board.kind == "unknown":
        message = "It is not known whether there is a GPU: the driver does not answer."
        return Condition(type=UNAVAILABLE, status="Unknown", reason="DriverNotAnswering", message=message)
    bad = [device for device in board.devices if device.health != "ok"]
    if not bad:
        return Condition(type=UNAVAILABLE, status="False", reason="DevicesHealthy", message="Every GPU answers.")
    # A card that is powered down is no problem, beside one that is lost it is none either.
    awake = [device for device in bad if device.health != "asleep"]
    bad = awake or bad
    reason = {
        "lost": "DeviceLost",
        "reset-required": "ResetRequired",
        "degraded": "DeviceDegraded",
        "asleep": "DeviceAsleep",
    }.get(bad[0].health, "DriverNotAnswering")
    named = "; ".join(
        f"{device.name} {device.uuid or ''}".strip() + (f": {device.why}" if device.why else "") for device in bad
    )
    status: Literal["True", "False"] = "True" if awake else "False"
    return Condition(type=UNAVAILABLE, status=status, reason=reason, message=f"{named}.")


def _misconfigured(
    runtime: RuntimeFacts, findings: Sequence[Finding] | None, present: Sequence[Mapping[str, Any]]
) -> Condition:
    """What the runtime's own file says comes first: it is read in every sample, and a diagnosis is older."""
    if runtime.readable and not runtime.nvidia:
        message = f"{runtime.path} names no NVIDIA runtime, so pods run without the GPU."
        return Condition(type=MISCONFIGURED, status="True", reason="RuntimeMissing", message=message)
    missing = sorted(binary for binary, exists in runtime.nvidia.values() if not exists)
    if missing and len(missing) == len(runtime.nvidia):
        message = f"{runtime.path} names {', '.join(missing)}, which does not exist."
        return Condition(type=MISCONFIGURED, status="True", reason="RuntimeBinaryMissing", message=message)
    if findings is None:
        before = next((one for one in present if one.get("type") == MISCONFIGURED), {})
        if before.get("status") == "True":
            reason, message = str(before.get("reason") or ""), str(before.get("message") or "")
            return Condition(type=MISCONFIGURED, status="True", reason=reason, message=message)
    sure = (one for one in findings or () if (one.certainty, one.severity) == ("certain", "error"))
    found = next((one for one in sure if one.condition), None)
    if found is not None:
        return Condition(type=MISCONFIGURED, status="True", reason=found.condition, message=found.summary)
    if not runtime.readable:
        return Condition(
            type=MISCONFIGURED,
            status="False",
            reason="NotReadable",
            message="No container runtime configuration was found to look at.",
        )
    return Condition(
        type=MISCONFIGURED,
        status="False",
        reason="RuntimeConfigured",
        message=f"{runtime.path} names an NVIDIA runtime.",
    )
