"""As whom the containers of a pod run, by its manifest."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.cluster import pods


def parsed(pod: Any, own: Any) -> Any:
    container = {"name": "main", "securityContext": own}
    metadata = {"namespace": "a", "name": "b", "uid": "1"}
    return pods.parse({"metadata": metadata, "spec": {"containers": [container], "securityContext": pod}})


@pytest.mark.parametrize(
    ("pod", "own", "ids"),
    [
        (None, None, (None, None)),
        ({"runAsUser": 1000, "runAsGroup": 2000}, None, (1000, 2000)),
        ({"runAsUser": 1000, "runAsGroup": 2000}, {"runAsUser": 0}, (0, 2000)),
        ({}, {"runAsUser": 7, "runAsGroup": 8}, (7, 8)),
        ("odd", {"runAsUser": 7}, (None, None)),
        ({"runAsUser": "odd"}, None, (None, None)),
    ],
)
def test_the_container_counts_more_than_the_pod(pod: Any, own: Any, ids: tuple[int | None, int | None]) -> None:
    (one,) = parsed(pod, own).containers
    assert (one.user, one.group) == ids


@pytest.mark.parametrize(
    ("pod", "groups", "strict"),
    [
        (None, (), False),
        ({"fsGroup": 9, "supplementalGroups": [44, 9]}, (44, 9), False),
        ({"supplementalGroups": None, "supplementalGroupsPolicy": "Strict"}, (), True),
        ({"supplementalGroups": ["odd"]}, (), False),
        (["odd"], (), False),
    ],
)
def test_groups_of_all_containers(pod: Any, groups: tuple[int, ...], *, strict: bool) -> None:
    found = parsed(pod, None)
    assert (found.groups, found.strict_groups) == (groups, strict)
