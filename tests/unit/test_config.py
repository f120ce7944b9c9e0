from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from edgeagent import config
from edgeagent.config import Config, Tls, load
from edgeagent.errors import ConfigError


def problems(*texts: str) -> tuple[str, ...]:
    """What is wrong with documents that are named 0.yaml, 1.yaml and so on."""
    with pytest.raises(ConfigError) as caught:
        load([(f"{number}.yaml", text) for number, text in enumerate(texts)])
    return caught.value.problems


def test_defaults() -> None:
    found = load([])
    assert found == Config()
    assert found.mode == "enforce"
    assert (found.node.name, found.k3s.data_dir) == (None, None)
    lines = found.reserves
    assert (lines.os, lines.k3s, lines.cma, lines.headroom, lines.driver, lines.ceiling) == (None,) * 6
    assert (found.unified.detect, found.unified.coupling, found.unified.gpu_from_hugepages) == (
        "auto",
        "requests",
        False,
    )
    assert found.discrete.pools == "node"
    policy = found.policy
    assert (policy.grace, policy.start_grace, policy.max_grace, policy.pressure_grace) == (15.0, 120.0, 30.0, 2.0)
    assert (policy.tolerance, policy.default_budget) == (None, None)
    assert (policy.unbudgeted, policy.daemonsets, policy.protect, policy.kill) == (
        "report",
        "report",
        ("kube-system",),
        "pressure",
    )
    assert (policy.evictions_per_hour, policy.aliyun_unit) == (6, "Gi")
    pressure = found.pressure
    assert (pressure.floor, pressure.critical, pressure.horizon, pressure.within_budget) == (None, None, 3.0, "alarm")
    assert (found.sampling.interval, found.sampling.fast, found.sampling.max_age) == (2.0, 0.1, 10.0)
    serve = found.serve
    assert (serve.bind, serve.tls, serve.token_file, serve.insecure) == ("127.0.0.1:9843", None, None, False)
    assert (found.labels.ai_capable, found.labels.gfd, found.labels.removal) == (True, False, "when-unused")


def test_every_kind_of_value() -> None:
    found = load(
        [
            (
                "a.yaml",
                """
                mode: observe
                node: {name: edge-1}
                reserves: {os: 1Gi, k3s: 536870912, headroom: 2%, ceiling: null}
                unified: {detect: yes, gpu_from_hugepages: true}
                policy: {grace: 250ms, start_grace: 2min, max_grace: 1h, tolerance: 0}
                serve: {bind: "[::1]:0", tls: {cert: c.pem, key: k.pem}}
                labels: {ai_capable: gpu.example.com/ready}
                """,
            ),
            ("b.yaml", "policy: {default_budget: 2Gi, protect: [a, b/c]}"),
        ]
    )
    assert found.mode == "observe"
    assert found.node.name == "edge-1"
    assert (found.reserves.os, found.reserves.k3s) == (2**30, 536_870_912)
    assert (found.reserves.headroom, found.reserves.ceiling) == ("2%", None)
    # a bare yes is a boolean in YAML 1.1
    assert (found.unified.detect, found.unified.gpu_from_hugepages) == ("yes", True)
    assert (found.policy.grace, found.policy.start_grace, found.policy.max_grace) == (0.25, 120.0, 3600.0)
    assert (found.policy.tolerance, found.policy.default_budget) == (0, 2 * 2**30)
    assert found.policy.protect == ("a", "b/c")
    assert (found.serve.bind, found.serve.tls) == ("[::1]:0", Tls("c.pem", "k.pem"))
    assert found.labels.ai_capable == "gpu.example.com/ready"


def test_later_documents_win_key_by_key() -> None:
    found = load(
        [
            ("config.yaml", "policy: {grace: 5s, max_grace: 20s, protect: [a]}"),
            ("10.yaml", "policy: {grace: 7s, protect: [b]}"),
            ("20.yaml", ""),
            ("30.yaml", "policy:"),
        ]
    )
    assert (found.policy.grace, found.policy.max_grace, found.policy.protect) == (7.0, 20.0, ("b",))


def test_an_unknown_key_names_file_key_and_the_nearest_one() -> None:
    assert problems("policy: {gracee: 5s}") == (
        "0.yaml: unknown key policy.gracee; the nearest known key is policy.grace",
    )
    assert problems("resrves: {os: 1Gi}") == ("0.yaml: unknown key resrves; the nearest known key is reserves",)


@pytest.mark.parametrize("text", ["mode: [", "since: 2026-13-45T00:00:00Z", "a: " + "[" * 20_000])
def test_what_is_no_yaml_is_one_problem(text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("0.yaml: not valid YAML: ")


def test_every_problem_is_reported_at_once() -> None:
    found = problems("mode: sometimes\npolicy: {grace: 15, kill: maybe}", "reserves: {os: 101%}\nmod: observe")
    assert len(found) == 5
    for file, part in [
        ("0.yaml", "mode"),
        ("0.yaml", "policy.grace"),
        ("0.yaml", "policy.kill"),
        ("1.yaml", "reserves.os"),
        ("1.yaml", "unknown key mod;"),
    ]:
        assert any(problem.startswith(f"{file}: ") and part in problem for problem in found), part


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("policy: {grace: 15}", "policy.grace"),
        ("policy: {grace: 0s}", "policy.grace"),
        ("policy: {grace: -1s}", "policy.grace"),
        ("policy: {grace: 2m}", "policy.grace"),
        ("policy: {tolerance: -1}", "policy.tolerance"),
        ("policy: {tolerance: 1.5}", "policy.tolerance"),
        ("policy: {default_budget: 5%}", "policy.default_budget"),
        ("policy: {default_budget: true}", "policy.default_budget"),
        ("policy: {evictions_per_hour: -1}", "policy.evictions_per_hour"),
        ("policy: {evictions_per_hour: true}", "policy.evictions_per_hour"),
        ("policy: {protect: kube-system}", "policy.protect"),
        ("policy: {protect: [1]}", "policy.protect"),
        ("policy: {unbudgeted: kill}", "policy.unbudgeted"),
        ("reserves: {os: 6 %}", "reserves.os"),
        ("reserves: {headroom: much}", "reserves.headroom"),
        ("unified: {detect: maybe}", "unified.detect"),
        ("unified: {gpu_from_hugepages: 1}", "unified.gpu_from_hugepages"),
        ("node: {name: 7}", "node.name"),
        ('node: {name: ""}', "node.name"),
        ("mode: null", "mode"),
        ("serve: {bind: 9843}", "serve.bind"),
        ("serve: {bind: '127.0.0.1:70000'}", "serve.bind"),
        ("serve: {tls: {cert: a}}", "serve.tls"),
        ("labels: {ai_capable: -x-}", "labels.ai_capable"),
        ("policy: strict", "policy"),
    ],
)
def test_wrong_values(text: str, key: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith((f"0.yaml: {key}: expected", f"0.yaml: {key}: '"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("sampling: {fast: 3s}", "sampling.fast"),  # interval is 2 s
        ("sampling: {max_age: 2s}", "sampling.max_age"),
        ("pressure: {floor: 64Mi, critical: 65Mi}", "pressure.critical"),
        ("serve: {bind: '0.0.0.0:9843'}", "serve.bind"),
        ("serve: {bind: '[::]:9843'}", "serve.bind"),
        ("serve: {bind: '127.example.com:9843'}", "serve.bind"),  # a name, not a loopback address
    ],
)
def test_settings_that_do_not_fit_together(text: str, key: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"0.yaml: {key}: ")


@pytest.mark.parametrize(
    "text",
    [
        "serve: {bind: '0.0.0.0:1', insecure: true}",
        "serve: {bind: '0.0.0.0:1', token_file: /token}",
        "serve: {bind: '0.0.0.0:1', tls: {cert: c, key: k}}",
        "serve: {bind: 'localhost:1'}",
        "serve: {bind: '127.0.0.2:1'}",
    ],
)
def test_an_address_is_local_or_guarded(text: str) -> None:
    assert load([("a.yaml", text)]).serve.bind.endswith(":1")


@pytest.mark.parametrize("text", ["a: [", "- 1", "just text"])
def test_not_settings(text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("0.yaml: ")


def test_a_named_file_must_be_readable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: cannot be read"):
        config.read(tmp_path / "missing.yaml")


def test_a_named_file_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("mode: observe\nnode: {name: a}\n", encoding="utf-8")
    found = config.read(file, [("--node", "node: {name: b}")])
    assert (found.mode, found.node.name) == ("observe", "b")


def test_a_key_that_is_set_twice_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        load([("a.yaml", "mode: observe\npolicy: {grace: 1s}\nmode: enforce\n")])
    (problem,) = refused.value.problems
    assert "a.yaml" in problem
    assert "mode is set twice" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reserves: {os: 1Gib}", "0.yaml: reserves.os: expected a quantity such as 512Mi or plain bytes, got '1Gib'"),
        ("reserves: {os: 101%}", "0.yaml: reserves.os: expected a percentage from 0% to 100%, got '101%'"),
    ],
)
def test_a_wrong_size_is_named_once(text: str, expected: str) -> None:
    assert problems(text) == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "policy: {grace: 1500ms, max_grace: 2min, protect: [a, b], tolerance: 1Gi}\nsampling: {fast: 50ms}",
        "mode: observe\nreserves: {os: 1Gi, headroom: 2.5%, ceiling: null}\nlabels: {ai_capable: my/key}",
        "serve: {bind: 0.0.0.0:1, tls: {cert: a, key: b}, token_file: c}\npressure: {floor: 128Mi, critical: 64Mi}",
    ],
)
def test_a_configuration_that_is_told_could_stand_in_a_file(text: str) -> None:
    given = load([("a.yaml", text)])

    told = json.dumps(config.plain(given))

    assert load([("told.yaml", told)]) == given


def test_a_configuration_is_told_with_every_key_in_the_words_of_the_file() -> None:
    told = config.plain(load([("a.yaml", "policy: {grace: 1500ms}\nreserves: {os: 1Gi}")]))

    assert list(told) == [item.name for item in dataclasses.fields(Config)]
    assert (told["policy"]["grace"], told["policy"]["protect"]) == ("1.5s", ["kube-system"])
    assert (told["sampling"]["fast"], told["sampling"]["interval"]) == ("0.1s", "2s")
    assert (told["reserves"]["os"], told["reserves"]["k3s"]) == (1024**3, None)
