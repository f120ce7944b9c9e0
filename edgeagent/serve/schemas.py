"""What the answers of the API look like, as JSON Schema: what the explain document does not describe already.

Nothing here is loaded by a running agent; ``openapi.json`` is made of it.
"""

from __future__ import annotations

from typing import Any, get_args

from edgeagent.plan.incidents import Ended
from edgeagent.plan.incidents import Kind as IncidentKind
from edgeagent.serve.shown import Feed
from edgeagent.serve.trail import MOST_LINES, POINTS, STEP

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
NUMBER: Json = {"type": "number"}
COUNT: Json = {"type": "integer", "minimum": 0}
TIME: Json = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC"}
SECONDS: Json = {"type": "number", "minimum": 0}
RATIO: Json = {"type": "number", "minimum": 0}


def maybe(schema: Json) -> Json:
    """The same, or null for what is not known."""
    if "enum" not in schema and isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Json, **more: Any) -> Json:
    """A list."""
    return {"type": "array", "items": schema, **more}


def keyed(**properties: Json) -> Json:
    """An object that has all of these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def among(*values: str) -> Json:
    """One of these words."""
    return {"type": "string", "enum": list(values)}


def named(name: str) -> Json:
    """What stands under ``name`` among the components."""
    return {"$ref": f"#/components/schemas/{name}"}


_BYTES = maybe(COUNT)
_LINE = listed(_BYTES, maxItems=POINTS)
_POD = {"namespace": TEXT, "name": TEXT, "uid": TEXT}

REASON = keyed(name=TEXT, message=TEXT)
_CHECK = keyed(name=TEXT, ok=FLAG, message=TEXT)
_CHECK["properties"] |= {"age_seconds": maybe(NUMBER), "allowed_seconds": SECONDS}
HEALTH = keyed(status=among("ok", "unavailable", "degraded"), reasons=listed(named("Reason")))
HEALTH["properties"] |= {"checks": listed(_CHECK, description="With ?verbose alone.")}
REFUSAL = keyed(status=among("error", "unavailable"), reasons=listed(named("Reason"), minItems=1))

EVENT = keyed(
    at=maybe(TIME), reason=TEXT, regarding={"type": "string", "description": "pod ns/name or node name"}, note=TEXT
)
_CONFIGURED = {
    "digest": TEXT,
    "last_reload_ok": FLAG,
    "problems": listed(TEXT, description="Why the files, as they are now, cannot be used."),
}
CONFIG = keyed(
    **_CONFIGURED,
    values={"type": "object", "description": "Every key of config.yaml, as it is in force."},
)
HISTORY = keyed(
    step_seconds={"const": STEP},
    ages_seconds=listed(COUNT, maxItems=POINTS, description="Of the figures in each list, newest first."),
    usable_bytes=_LINE,
    pools=listed(keyed(resource=TEXT, gpu_used_bytes=_LINE)),
    pods=listed(
        keyed(
            **_POD,
            gpu_bytes=_LINE,
            host_bytes=_LINE,
            pools=listed(keyed(resource=TEXT, gpu_bytes=_LINE), description="Only where there are several."),
        ),
        maxItems=MOST_LINES,
    ),
)

_OWNER = maybe(keyed(kind=TEXT, name=TEXT))
_ROW = keyed(
    t=NUMBER,
    pods_t=NUMBER,
    usable_bytes=_BYTES,
    floor_bytes=COUNT,
    drop_bytes={"type": "integer"},
    pods=listed(maybe(listed(_BYTES, minItems=2, maxItems=2))),
)
_ANSWER = keyed(t=NUMBER, outcome=TEXT, message=TEXT)
_ANSWER["properties"] |= {"pids": listed(COUNT), "more_pids": COUNT}
BRIEF = keyed(
    format={"const": 1},
    id=TEXT,
    wall=TIME,
    wall_plausible=FLAG,
    boot_id=maybe(TEXT),
    seconds=SECONDS,
    node=maybe(TEXT),
    kind=among(*get_args(IncidentKind)),
    mode=among("enforce", "observe"),
    pod=maybe(keyed(**_POD, owner=_OWNER)),
    breach=maybe(TEXT),
    resource=maybe(TEXT),
    used_bytes=_BYTES,
    budget_bytes=_BYTES,
    excess_bytes=maybe({"type": "integer"}),
    over_since=maybe(NUMBER),
    place=maybe(COUNT),
    places=COUNT,
    reason=TEXT,
    grace_seconds=maybe(COUNT),
    pids=listed(COUNT),
    more_pids=COUNT,
    pods=listed(
        keyed(
            **_POD,
            owner=_OWNER,
            state=TEXT,
            breach=maybe(TEXT),
            held=maybe(TEXT),
            resource=maybe(TEXT),
            gpu_budget_bytes=_BYTES,
            total_budget_bytes=_BYTES,
        )
    ),
    more_pods=COUNT,
    left_out=COUNT,
    attempts=maybe(COUNT),
    outcomes=listed(_ANSWER),
    ended=maybe(keyed(t=NUMBER, why=among(*get_args(Ended)))),
    events=listed(keyed(reason=TEXT, note=TEXT, ending=maybe(TEXT), ended=maybe(TIME))),
)
INCIDENT = keyed(**BRIEF["properties"], before=listed(_ROW), after=listed(_ROW))

_AMOUNTS = {
    "peak_day_bytes": _BYTES,
    "peak_week_bytes": _BYTES,
    "budget_bytes": _BYTES,
    "recommended_bytes": _BYTES,
}
BUDGET = keyed(
    namespace=TEXT,
    owner=keyed(kind=TEXT, name=TEXT),
    container=TEXT,
    pods=listed(TEXT),
    gpu=keyed(**_AMOUNTS),
    pools=listed(keyed(resource=TEXT, **_AMOUNTS)),
    host=keyed(**_AMOUNTS),
    write={"type": "object", "additionalProperties": TEXT},
    observed_seconds=SECONDS,
    why=TEXT,
)
_LATENCY = {
    "p50_seconds": maybe(SECONDS),
    "p99_seconds": maybe(SECONDS),
    "requests_per_second": maybe(SECONDS),
}
_FIGURES = keyed(**_LATENCY, cpu_throttled_ratio=maybe(RATIO))
NEIGHBOUR = keyed(
    **_POD,
    cpu_throttled_ratio=maybe(RATIO),
    cpu_stall_ratio=maybe(RATIO),
    memory_stall_ratio=maybe(RATIO),
    io_stall_ratio=maybe(RATIO),
    gpu_utilization_ratio=maybe(RATIO),
    latency=maybe(keyed(**_LATENCY)),
    latency_why=TEXT,
    since_newcomer=maybe(keyed(pod=TEXT, seconds=SECONDS, before=_FIGURES, after=_FIGURES)),
)
VITALS = keyed(
    power_mode=maybe(TEXT),
    temperatures=listed(keyed(zone=TEXT, celsius=maybe(NUMBER))),
    throttled=maybe(FLAG),
    throttle_reasons=listed(TEXT),
    fan_ratio=maybe(RATIO),
    devices=listed(keyed(uuid=TEXT, utilization_ratio=RATIO)),
    source={"type": "string", "description": "files, nvml, jtop, with commas between them"},
)
BAR = keyed(
    resource=TEXT,
    kind=among("unified", "discrete"),
    total_bytes=_BYTES,
    segments=maybe(
        listed(
            keyed(
                kind=among("reserve", "host", "pod-gpu", "pod-host", "system-gpu", "unattributed", "leaving", "free"),
                name=maybe(TEXT),
                uid=maybe(TEXT),
                bytes=COUNT,
            )
        )
    ),
)
STATE = keyed(
    at=TIME,
    node=maybe(TEXT),
    version=TEXT,
    started=maybe(TIME),
    cluster=maybe(keyed(complete=FLAG, view_age_seconds=maybe(SECONDS), error=TEXT)),
    config=maybe(keyed(**_CONFIGURED)),
    mode=maybe(among("enforce", "observe")),
    observe_because=TEXT,
    ready=named("Health"),
    sample_age_seconds=maybe(SECONDS),
    floor_bytes=maybe(COUNT | {"description": "Usable memory below which the board is under pressure."}),
    ai_capable=maybe(
        keyed(value=maybe(FLAG), why=TEXT)
        | {"description": "Whether a pod can use the GPU here. value null: neither proven nor disproven."}
    ),
    readings={
        "type": "object",
        "additionalProperties": keyed(age_seconds=maybe(SECONDS), stale=FLAG, why=TEXT),
    },
    stale=listed(among(*get_args(Feed))),
    board=maybe(named("Board")),
    devices=named("Devices"),
    host=maybe(named("Host")),
    pools=named("Pools"),
    bars=listed(named("Bar")),
    pods=maybe(named("Pods")) | {"description": "null: not known, as where there is no cluster."},
    plan=maybe(named("Plan")),
    findings=named("Findings"),
    diagnosed=FLAG | {"description": "false: it was not looked yet, or not lately, for what findings would tell."},
    budgets=listed(named("Budget")),
    neighbours=listed(named("Neighbour")),
    vitals=maybe(named("Vitals")),
    incidents=listed(named("IncidentInBrief"), description="As /api/v1/incidents, without before and after."),
    events=listed(named("Event")),
)

COMPONENTS = {
    "Reason": REASON,
    "Health": HEALTH,
    "Refusal": REFUSAL,
    "Event": EVENT,
    "Config": CONFIG,
    "History": HISTORY,
    "Incident": INCIDENT,
    "IncidentInBrief": BRIEF,
    "Budget": BUDGET,
    "Neighbour": NEIGHBOUR,
    "Vitals": VITALS,
    "Bar": BAR,
    "State": STATE,
}
