"""The OpenAPI document of the endpoint.

``python -m edgeagent.serve.openapi docs/reference/explain.schema.json`` writes ``openapi.json``, which the agent serves
as it is. A running agent loads nothing else of this.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

from edgeagent.serve import dashboard
from edgeagent.serve.pages import DOCUMENT, file
from edgeagent.serve.schemas import COMPONENTS, listed, maybe, named

Json = dict[str, Any]

_EXPLAINED = ("board", "devices", "pools", "host", "pods", "plan", "findings")
_FORGOTTEN = (
    ("host", "leaving_bytes"),
    ("host", "pressure"),
    ("pools", "total_bytes"),
    ("pools", "overcommitted"),
)
"""What a stale reading makes unknown, and is never unknown in an explain document."""
_JSON = "application/json"
_VERBOSE: Json = {
    "name": "verbose",
    "in": "query",
    "description": "List every check, those too that passed. Its value does not matter.",
    "allowEmptyValue": True,
    "schema": {"type": "string"},
}
_EXCLUDE: Json = {
    "name": "exclude",
    "in": "query",
    "description": "Name of a check that is to count as passed. May be given several times.",
    "schema": {"type": "array", "items": {"type": "string"}},
    "explode": True,
}
_ERRORS = {
    "401": "The token is missing or wrong.",
    "403": "The Host header names another machine.",
    "503": "There is nothing to tell yet, or only what is too old.",
}

_SAMPLED: dict[str, tuple[str, Json]] = {
    "board": (
        "What the board is, its GPUs and its memory",
        {"board": named("Board"), "devices": named("Devices"), "host": named("Host")},
    ),
    "pools": ("The pools of GPU memory", {"pools": named("Pools")}),
    "pods": ("The live pods of the node and what they hold", {"pods": named("Pods")}),
    "plan": ("What is to be done, and what is held back and why", {"plan": named("Plan")}),
    "findings": ("What is wrong, and what to do about it", {"findings": named("Findings")}),
}
_KEPT: dict[str, tuple[str, Json]] = {
    "events": ("The latest hundred events that were told or are to be told, newest first", listed(named("Event"))),
    "incidents": ("The latest twenty incidents, newest first", listed(named("Incident"))),
    "history": ("The last quarter of an hour", named("History")),
    "config": ("The configuration in force", named("Config")),
    "budgets": ("What to write into each workload", listed(named("Budget"))),
    "neighbours": ("How pods fare beside each other", listed(named("Neighbour"))),
    "vitals": ("Power, temperature and throttling of the board", maybe(named("Vitals"))),
}


def document(explained: Json) -> Json:
    """The document. ``explained`` is the JSON Schema of the explain document, from which the API tells parts."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "edgeagent",
            "version": "1",
            "summary": "The endpoint of a node agent for GPU memory on edge boards.",
            "description": "Read-only: GET, and HEAD for every path. Bytes are integers, null is unknown, and a value "
            "of a reading that is too old is not told.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": "health"}, {"name": "metrics"}, {"name": "api"}, {"name": "dashboard"}],
        "security": [{}, {"token": []}],
        "paths": dict(sorted(_paths().items())),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Needed where serve.token_file is set."}
            },
            "schemas": {**_of_explain(explained), **COMPONENTS},
            "responses": {
                code: {"description": said, "content": {_JSON: {"schema": named("Refusal")}}}
                for code, said in _ERRORS.items()
            },
        },
    }


def _of_explain(explained: Json) -> Json:
    parts = copy.deepcopy({name: explained["properties"][name] for name in _EXPLAINED})
    for part, key in _FORGOTTEN:
        properties = parts[part].get("items", parts[part])["properties"]
        properties[key] = maybe(properties[key])
    return {name.capitalize(): schema for name, schema in parts.items()}


def _paths() -> Json:
    health = {"parameters": [_VERBOSE, _EXCLUDE]}
    return {
        "/livez": _open("health", "Alive: 503 for what a restart cures", _health("503"), **health),
        "/readyz": _open("health", "Ready: the board is seen, published and current", _health("503"), **health),
        "/healthz": _open("health", "Anybody there; the reasons are those of /readyz", _health(), **health),
        "/metrics": _path("metrics", "Metrics in the Prometheus text format", _ok("text/plain")),
        **{
            f"/api/v1/{name}": _path("api", summary, _ok(_JSON, _whole(parts)), "503")
            for name, (summary, parts) in _SAMPLED.items()
        },
        **{
            f"/api/v1/{name}": _path("api", summary, _ok(_JSON, _whole({name: schema})), "503")
            for name, (summary, schema) in _KEPT.items()
        },
        "/api/v1/state": _path("api", "Everything at once", _ok(_JSON, named("State"))),
        "/api/v1/stream": _path(
            "api",
            "Server-sent events: state, each with the document of /api/v1/state",
            _ok("text/event-stream"),
            "503",
        ),
        "/openapi.json": _path("api", "This document", _ok(_JSON, {"type": "object"})),
        **{path: _open("dashboard", "The dashboard, or a part of it", _ok(_type(path))) for path in dashboard.PATHS},
    }


def _type(path: str) -> str:
    found = file(path)
    assert found is not None  # noqa: S101 (it is one of them)
    return found[0].partition(";")[0]


def _whole(parts: Json) -> Json:
    return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}


def _ok(content_type: str, schema: Json | None = None) -> Json:
    return {"200": {"description": "The answer.", "content": {content_type: {"schema": schema or {"type": "string"}}}}}


def _health(*worse: str) -> Json:
    content = {_JSON: {"schema": named("Health")}, "text/plain": {"schema": {"type": "string"}}}
    said = {"200": "It is so.", "503": "It is not so, for these reasons."}
    return {code: {"description": said[code], "content": content} for code in ("200", *worse)}


def _open(tag: str, summary: str, answers: Json, **more: Any) -> Json:
    """A path that needs no token."""
    return _both({"tags": [tag], "summary": summary, "security": [{}], **more}, _and(answers, "403"))


def _path(tag: str, summary: str, answers: Json, *codes: str) -> Json:
    return _both({"tags": [tag], "summary": summary}, _and(answers, "401", "403", *codes))


def _and(answers: Json, *codes: str) -> Json:
    return {**answers, **{code: {"$ref": f"#/components/responses/{code}"} for code in codes}}


def _both(operation: Json, answers: Json) -> Json:
    """The path asked by GET, and by HEAD for the headers alone."""
    bare = {code: {"description": "The headers of the answer to GET."} for code in answers}
    return {"get": {**operation, "responses": answers}, "head": {**operation, "responses": bare}}


def encoded(value: Json) -> str:
    """The document as it stands in the file."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(encoded(document(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))), encoding="utf-8")
