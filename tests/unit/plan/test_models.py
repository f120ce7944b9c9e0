"""What people write after --would-fit."""

from __future__ import annotations

import pytest

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY
from edgeagent.plan.fitting import models
from tests.unit.factories import GIB, MIB


def test_amounts_by_resource() -> None:
    found, problems = models.parse(["llm=gpu:2Gi,memory:3Gi,gpu-milli:250", "cam=igpu:512Mi", "web=memory:1500M"])
    assert problems == ()
    assert [(model.name, model.amounts) for model in found] == [
        ("llm", {GPU_MEMORY: 2 * GIB, "memory": 3 * GIB, GPU_MILLI: 250}),
        ("cam", {IGPU_MEMORY: 512 * MIB}),
        ("web", {"memory": 1_500_000_000}),
    ]


def test_replicas_stand_one_by_one() -> None:
    found, problems = models.parse(["llm*3=gpu:2Gi", "asr*1=gpu:1Gi"])
    assert problems == ()
    assert [model.name for model in found] == ["llm-1", "llm-2", "llm-3", "asr"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("llm", "expected NAME="),
        ("boards/orin", "SNAPSHOT stands before"),
        ("=gpu:2Gi", "expected NAME="),
        ("llm=", "expected NAME="),
        ("-x=gpu:2Gi", "expected NAME="),
        ("llm=2Gi", "expected one of gpu"),
        ("llm=vram:2Gi", "expected one of gpu"),
        ("llm=gpu:2Gi,gpu:3Gi", "gpu is given twice"),
        ("llm=gpu:2", "2 bytes; write the suffix"),
        ("llm=gpu:two", "is not a quantity"),
        ("llm=gpu:-2Gi", "below 0"),
        ("llm=gpu-milli:250", "expected gpu or memory"),
        ("llm=gpu:0", "expected gpu or memory"),
        ("llm=gpu:2Gi,gpu-milli:0.25", "whole number of thousandths"),
        ("llm*0=gpu:2Gi", "0 replicas"),
        ("llm*111=gpu:2Gi", "expected 1 to 110"),
    ],
)
def test_what_cannot_be_meant(wish: str, said: str) -> None:
    found, problems = models.parse([wish])
    assert found == ()
    assert len(problems) == 1
    assert said in problems[0]


def test_every_problem_is_told_at_once() -> None:
    found, problems = models.parse(["a=gpu:2", "ok=gpu:2Gi", "b=vram:1Gi,gpu:x", "ok=gpu:1Gi"])
    assert [model.name for model in found] == ["ok"]
    assert [problem.partition(":")[0] for problem in problems] == ["a", "b", "b", "ok"]
