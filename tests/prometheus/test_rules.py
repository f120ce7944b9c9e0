"""The alerts that ship, judged by promtool, and held to what the agent really shows."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from edgeagent.serve import metrics
from tests.deploy import dashboard, monitoring
from tests.deploy.monitoring import DEPLOY
from tests.prometheus.promtool import judge
from tests.prometheus.requirements import PROMETHEUS
from tests.unit.serve.states import DISCRETE, NOW, WALL, shown
from tests.unit.serve.whole import whole
from tests.unit.test_docs import blocks, page

if TYPE_CHECKING:
    from pathlib import Path

FOREIGN = {"up"}
"""What Prometheus itself adds."""
WORDS = {"and", "bool", "by", "on", "or", "unless", "group_left"}
"""What may stand before a bracket or alone and is no function."""


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(monitoring.RULES.read_text())["groups"] for rule in group["rules"]]


def shown_series() -> dict[str, set[str]]:
    """Label names by series, of boards on which nothing is unknown, and of an agent that has just begun."""
    found: dict[str, set[str]] = {}
    for one in (*whole().values(), None):
        for family in text_string_to_metric_families(metrics.text(one, NOW, WALL).decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def series_in(query: str) -> set[str]:
    """Names of series in a query: what is left of it without strings, ranges and the lists of labels."""
    plain = re.sub(r'"[^"]*"', "", query)
    plain = re.sub(r"\[[^\]]*\]|\{[^}]*\}|\b(?:by|on|ignoring|without|group_left|group_right) *\([^)]*\)", "", plain)
    return {name for name in re.findall(r"[a-zA-Z_]\w*\b(?! *\()", plain) if name not in WORDS}


def labels_in(query: str) -> set[str]:
    """Names of labels that are selected by or grouped by."""
    chosen = re.findall(r"(\w+) *=~?", " ".join(re.findall(r"\{([^}]*)\}", query)))
    grouped = " ".join(re.findall(r"\b(?:by|on|ignoring|group_left|without) *\(([^)]*)\)", query))
    return {*chosen, *re.findall(r"\w+", grouped)}


OF_TARGETS = {"job", "instance", "node"}
"""Labels that the scrape configuration gives."""


def test_queries_name_only_what_the_agent_shows() -> None:
    known = shown_series()
    asked = {rule["alert"]: rule["expr"] for rule in rules()} | dashboard.queries()

    labels = set().union(*known.values()) | OF_TARGETS
    unknown = {name: series_in(query) - set(known) - FOREIGN for name, query in asked.items()}
    assert {name: found for name, found in unknown.items() if found} == {}
    unknown = {name: labels_in(query) - labels for name, query in asked.items()}
    assert {name: found for name, found in unknown.items() if found} == {}


def test_every_series_is_on_the_dashboard() -> None:
    drawn = set().union(*(series_in(query) for query in dashboard.queries().values()))
    # A distribution is drawn from its buckets, and the start of the agent is of no use to look at.
    left = {name for name in shown_series() if not re.fullmatch(r"edgeagent_cycle_\w+_(sum|count)", name)}

    assert left - drawn == {
        "process_start_time_seconds",
        "edgeagent_published",
        "edgeagent_config_last_reload_successful",
    }


def test_values_of_labels_in_alerts_are_values_that_there_are() -> None:
    found = {
        (label, value)
        for one in (shown(), shown(plan=DISCRETE))
        for family in text_string_to_metric_families(metrics.text(one, NOW, WALL).decode())
        for sample in family.samples
        for label, value in sample.labels.items()
    }
    asked = {
        (label, value)
        for rule in rules()
        for label, values in re.findall(r'(\w+)=~?"([\w|-]+)"', rule["expr"])
        for value in values.split("|")
    }

    # The boards of this test have no card that waits for a reset.
    assert asked - found == {("health", "reset-required"), ("health", "degraded")}


def test_each_alert_says_what_it_is_and_how_bad() -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]


def test_each_alert_is_tested_to_fire_and_not_to_fire() -> None:
    tests = yaml.safe_load(monitoring.RULES_TESTS.read_text())["tests"]
    cases = [(case["alertname"], bool(case.get("exp_alerts"))) for test in tests for case in test["alert_rule_test"]]

    assert set(cases) == {(rule["alert"], fires) for rule in rules() for fires in (True, False)}


def test_what_is_made_from_other_files_is_up_to_date() -> None:
    for path, text in monitoring.made().items():
        assert path.read_text() == text, f"{path}: run python -m tests.deploy.rendering"


@PROMETHEUS
def test_promtool_accepts_the_rules() -> None:
    assert judge("check", "rules", "--lint=all", "--lint-fatal", monitoring.RULES) == ""


@PROMETHEUS
def test_promtool_finds_the_rules_to_do_what_their_tests_say() -> None:
    assert judge("test", "rules", monitoring.RULES_TESTS) == ""


def blocks_for_prometheus() -> dict[str, str]:
    """The configurations that the page about Prometheus shows."""
    shown_there = [one for one in blocks(page("how-to/prometheus.md"), "yaml") if "scrape_configs:" in one]
    example = yaml.safe_load((DEPLOY / "examples" / "prometheus" / "config.yaml").read_text())
    (service,) = [one for one in shown_there if one.startswith("# prometheus.yml")]
    return {"in the cluster": example["data"]["prometheus.yml"], "beside it": service}


@PROMETHEUS
@pytest.mark.parametrize(("name", "text"), blocks_for_prometheus().items())
def test_promtool_accepts_the_configurations_of_the_page(name: str, text: str, tmp_path: Path) -> None:
    for token in re.findall(r"credentials_file: /etc/prometheus/(\S+)", text):
        (tmp_path / token).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / token).write_text("a token")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / monitoring.RULES.name).write_text(monitoring.RULES.read_text())
    written = yaml.safe_load(text.replace("/etc/prometheus", str(tmp_path)))
    # Debian builds Prometheus without this discovery. What follows it is as it is.
    written["scrape_configs"][0].pop("kubernetes_sd_configs", None)
    (tmp_path / "prometheus.yml").write_text(json.dumps(written))

    assert judge("check", "config", tmp_path / "prometheus.yml") == ""
    assert ("rule_files" in written) == (name == "in the cluster")


@PROMETHEUS
def test_the_targets_in_the_cluster_are_the_agents_by_their_nodes(tmp_path: Path) -> None:
    (job,) = yaml.safe_load(blocks_for_prometheus()["in the cluster"])["scrape_configs"]
    del job["kubernetes_sd_configs"], job["authorization"]
    job["static_configs"] = [
        {
            "targets": [address],
            "labels": {
                "__meta_kubernetes_pod_label_app_kubernetes_io_name": name,
                "__meta_kubernetes_pod_container_port_name": port,
                "__meta_kubernetes_pod_node_name": "board-7",
            },
        }
        for address, name, port in (("a:1", "edgeagent", "http"), ("b:1", "edgeagent", "other"), ("c:1", "x", "http"))
    ]
    (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))
    command = ["promtool", "check", "service-discovery", "--timeout=1s", str(tmp_path / "prometheus.yml"), "edgeagent"]

    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)

    labels = [one["labels"] for one in found if one["labels"]]
    assert [(one["__address__"], one["node"], one["job"]) for one in labels] == [("a:1", "board-7", "edgeagent")]


def test_the_panels_lie_side_by_side_and_each_has_a_query() -> None:
    panels = json.loads(monitoring.DASHBOARD.read_text())["panels"]
    fields = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(fields) == len(set(fields)), "two panels are in the same place"
    assert {x for x, _ in fields} == set(range(24)), "Grafana's grid has 24 columns"
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["targets"]] == []
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert all('{node=~"$node", instance=~"$instance"' in query for query in queries)
