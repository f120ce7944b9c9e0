"""What the command line makes of the agent's settings."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.config import Config, Node, Serve, cross_check
from edgeagent.demo import setting as settings


def arguments(**given: Any) -> argparse.Namespace:
    """As the command line gives them when nothing is said."""
    absent = dict.fromkeys(("kubeconfig", "node", "nvml_replay", "state_dir", "runtime_dir", "bind"))
    return argparse.Namespace(**{**absent, "host_root": Path("/"), "speed": 1.0, "keep": False, **given})


def test_speed_divides_the_durations_that_make_up_the_pace() -> None:
    fast = settings.hurried(Config(), 10.0)

    # 15 s, 2 min, 3 s, 2 s and 100 ms by ten; how old a reading may be stays.
    assert (fast.policy.grace, fast.policy.start_grace, fast.pressure.horizon) == (1.5, 12.0, 0.3)
    assert (fast.sampling.interval, fast.sampling.fast, fast.sampling.max_age) == (0.2, 0.01, 10.0)


@pytest.mark.parametrize("speed", [0.1, 0.5, 1.0, 1000.0])
def test_any_speed_leaves_a_configuration_that_can_be_used(speed: float) -> None:
    assert cross_check(settings.hurried(Config(), speed)) == []


def test_without_a_word_node_and_port_are_the_demos_own(tmp_path: Path) -> None:
    found = settings.from_arguments(arguments(), Config(), tmp_path).config

    assert (found.node.name, found.serve.bind) == ("orin-nano", "127.0.0.1:0")


def test_a_configuration_that_is_named_is_used(tmp_path: Path) -> None:
    named = replace(Config(), mode="observe", node=Node("another"), serve=Serve(bind="127.0.0.1:9900"))

    found = settings.from_arguments(arguments(), named, tmp_path).config

    assert (found.mode, found.node.name, found.serve.bind) == ("observe", "another", "127.0.0.1:9900")


def test_flags_go_before_it(tmp_path: Path) -> None:
    given = arguments(node="third", bind="127.0.0.1:9901", runtime_dir=tmp_path / "r", kubeconfig=tmp_path / "k")

    found = settings.from_arguments(given, Config(), tmp_path)

    assert (found.config.node.name, found.config.serve.bind) == ("third", "127.0.0.1:9901")
    assert (found.runtime, found.kubeconfig, found.agent_kubeconfig) == (tmp_path / "r", tmp_path / "k", tmp_path / "k")
    # Somebody else's API server is left as it was found.
    assert found.clear
