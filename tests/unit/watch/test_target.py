"""Where a pod shows its own latency."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import PodFacts
from edgeagent.watch.target import Refused, Target, target
from tests.unit import factories
from tests.unit.watch.making import METRIC, PATH, PORT


def pod(*, ip: str | None = "10.42.0.9", **annotations: str) -> PodFacts:
    keys = {"port": PORT, "path": PATH, "metric": METRIC}
    return factories.pod(ip=ip, annotations={keys[name]: text for name, text in annotations.items()})


def test_a_pod_that_says_nothing_is_not_asked() -> None:
    assert target(pod()) is None
    assert target(factories.pod(ip="10.0.0.1", annotations={"edgeagent.dev/gpu-memory-limit": "1Gi"})) is None


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pod(port="8000", metric="x_seconds"), Target("http://10.42.0.9:8000/metrics", "x_seconds")),
        (pod(port="1", path="/a?b=c&d[]=e", metric="x"), Target("http://10.42.0.9:1/a?b=c&d[]=e", "x")),
        (pod(port="8000", metric="vllm:e2e_bucket"), Target("http://10.42.0.9:8000/metrics", "vllm:e2e")),
        (pod(ip="2001:db8::9", port="80", metric="x"), Target("http://[2001:db8::9]:80/metrics", "x")),
        (pod(ip="::ffff:10.42.0.9", port="80", metric="x"), Target("http://10.42.0.9:80/metrics", "x")),
        # the path cannot become a host
        (pod(port="80", path="//192.0.2.1/", metric="x"), Target("http://10.42.0.9:80//192.0.2.1/", "x")),
        (pod(port="80", path="/@192.0.2.1:1/", metric="x"), Target("http://10.42.0.9:80/@192.0.2.1:1/", "x")),
    ],
)
def test_what_is_asked(pod: PodFacts, expected: Target) -> None:
    assert target(pod) == expected


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"metric": "x"}, "port"),
        ({"port": "0", "metric": "x"}, "port"),
        ({"port": "65536", "metric": "x"}, "port"),
        ({"port": "8000000", "metric": "x"}, "port"),
        ({"port": "-1", "metric": "x"}, "port"),
        ({"port": "80@192.0.2.1", "metric": "x"}, "port"),
        ({"port": "٨٠", "metric": "x"}, "port"),
        ({"port": "http", "metric": "x"}, "port"),
        ({"port": "80", "path": "metrics", "metric": "x"}, "path"),
        ({"port": "80", "path": "@192.0.2.1/", "metric": "x"}, "path"),
        ({"port": "80", "path": "", "metric": "x"}, "path"),
        ({"port": "80", "path": "/a b", "metric": "x"}, "path"),
        ({"port": "80", "path": "/a\r\nHost: x", "metric": "x"}, "path"),
        ({"port": "80", "path": "/" + "a" * 1024, "metric": "x"}, "path"),
        ({"port": "80", "path": "/a#b", "metric": "x"}, "path"),
        ({"port": "80"}, "metric"),
        ({"port": "80", "metric": ""}, "metric"),
        ({"port": "80", "metric": "x{y}"}, "metric"),
        ({"port": "80", "metric": "x" * 257}, "metric"),
        ({"port": "80", "metric": "x", "ip": None}, "address"),
        ({"port": "80", "metric": "x", "ip": ""}, "address"),
        ({"port": "80", "metric": "x", "ip": "localhost"}, "address"),
        ({"port": "80", "metric": "x", "ip": "127.0.0.1"}, "address"),
        ({"port": "80", "metric": "x", "ip": "::1"}, "address"),
        ({"port": "80", "metric": "x", "ip": "169.254.169.254"}, "address"),
        ({"port": "80", "metric": "x", "ip": "0.0.0.0"}, "address"),  # noqa: S104 (what must be refused)
        ({"port": "80", "metric": "x", "ip": "224.0.0.1"}, "address"),
        ({"port": "80", "metric": "x", "ip": "::ffff:127.0.0.1"}, "address"),
        ({"port": "80", "metric": "x", "ip": "::ffff:169.254.169.254"}, "address"),
    ],
)
def test_what_is_refused_says_why(fields: dict[str, Any], about: str) -> None:
    found = target(pod(**fields))
    assert isinstance(found, Refused)
    assert about in found.why
