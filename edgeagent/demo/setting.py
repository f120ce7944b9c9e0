"""Where and how fast the demo is performed: from the command line, or made by a test."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

from edgeagent.agent import Options
from edgeagent.config import Config, Node, Serve
from edgeagent.errors import InputError
from edgeagent.system import dirs

NODE = "orin-nano"
NAMESPACE = "default"
AGENT, SCRIPT = "agent", "script"
"""Who asks, for the demo's own API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything that one performance needs."""

    config: Config
    """Of the agent; its durations are already those of ``speed``."""
    options: Options
    """Of the agent. ``host_root`` is where the board is laid out."""
    board_nvml: Path
    """Where the recorded answers of NVML are laid out."""
    agent_kubeconfig: Path
    """Credentials of the agent, as in its options."""
    kubeconfig: Path
    """Credentials of the script, which plays operator and kubelet."""
    runtime: Path
    namespace: str = NAMESPACE
    speed: float = 1.0
    keep: bool = False
    """Go on after the end of the story."""
    clear: bool = False
    """Take pods and node away in the end: the API server outlives the demo."""


def from_arguments(arguments: argparse.Namespace, config: Config, folder: Path) -> Setting:
    """The setting that the command line asks for. Everything that it does not place goes below ``folder``.

    Raises:
        InputError: the host root is in use, or a directory cannot be made.
    """
    runtime = arguments.runtime_dir or folder / "run"
    agent_kubeconfig = arguments.kubeconfig or folder / "agent.kubeconfig"
    return Setting(
        config=hurried(_configuration(arguments, config), arguments.speed),
        options=Options(
            kubeconfig=agent_kubeconfig,
            host_root=_root(arguments.host_root, folder),
            nvml_replay=arguments.nvml_replay or folder / "nvml.json",
            state_dir=arguments.state_dir or folder / "state",
            runtime_dir=runtime,
        ),
        board_nvml=folder / "nvml.json",
        agent_kubeconfig=agent_kubeconfig,
        kubeconfig=arguments.kubeconfig or folder / "script.kubeconfig",
        runtime=runtime,
        speed=arguments.speed,
        keep=arguments.keep,
        clear=arguments.kubeconfig is not None,
    )


def _configuration(arguments: argparse.Namespace, config: Config) -> Config:
    # The port of the service may be taken by the service.
    bind = arguments.bind or (config.serve.bind if config.serve != Serve() else "127.0.0.1:0")
    name = arguments.node or config.node.name or NODE
    return replace(config, node=Node(name), serve=replace(config.serve, bind=bind))


def _root(given: Path, folder: Path) -> Path:
    if given == Path("/"):
        return folder / "host"
    if any(dirs.prepare(given).iterdir()):
        raise InputError(f"{given}: the demo lays out its own board there, so it has to be empty")
    return given


def hurried(config: Config, speed: float) -> Config:
    """``config`` with the durations that make up the story's pace divided by ``speed``."""
    policy, pressure, sampling = config.policy, config.pressure, config.sampling
    return replace(
        config,
        policy=replace(policy, grace=policy.grace / speed, start_grace=policy.start_grace / speed),
        pressure=replace(pressure, horizon=pressure.horizon / speed),
        # How old a reading may be depends on the machine that reads, which is not any faster.
        sampling=replace(
            sampling,
            interval=sampling.interval / speed,
            fast=sampling.fast / speed,
            max_age=sampling.max_age / min(speed, 1.0),
        ),
    )


def write_kubeconfig(path: Path, url: str, user: str) -> None:
    """Credentials for the demo's own API server (JSON is YAML)."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": {"server": url}}],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": user}}],
        "current-context": "demo",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
