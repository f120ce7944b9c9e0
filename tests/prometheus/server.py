"""A real Prometheus, that scrapes and evaluates four times a second."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tests.controlplane.processes import Daemon, free_port
from tests.deploy.monitoring import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INTERVAL = "250ms"


@dataclass(frozen=True)
class Target:
    """Where an agent answers, and what Prometheus says of it."""

    address: str
    labels: Mapping[str, str]


class Prometheus:
    """One server in ``folder``, with the alerts that ship, each without its patience."""

    def __init__(self, folder: Path, targets: list[Target]) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        (folder / "edgeagent.rules.yml").write_text(impatient(RULES.read_text()))
        (folder / "prometheus.yml").write_text(json.dumps(_configuration(targets)))
        argv = [
            *("prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
            f"--web.listen-address={self._url.removeprefix('http://')}",
        ]
        self._daemon = Daemon("prometheus", argv, folder / "prometheus.log")

    def start(self) -> None:
        self._daemon.start()
        self._daemon.wait_ready(self._ready, seconds=30)

    def stop(self) -> None:
        self._daemon.stop()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of the API.

        Raises:
            ValueError: it is refused; the message says why.
        """
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            raise ValueError(refusal.read().decode()) from None

    def query(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of everything that a query finds at this moment."""
        found = self.ask("query", query=query)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def firing(self, instance: str) -> set[str]:
        """Names of the alerts that fire for one target."""
        alerts = self.ask("alerts")["alerts"]
        return {
            one["labels"]["alertname"]
            for one in alerts
            if one["state"] == "firing" and one["labels"].get("instance") == instance
        }


def impatient(rules: str) -> str:
    """The rules, firing as soon as what they look for is so; promtool has tested the rest."""
    groups = yaml.safe_load(rules)["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        rule.pop("for", None)
    return json.dumps({"groups": groups})


def _configuration(targets: list[Target]) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": ["edgeagent.rules.yml"],
        "scrape_configs": [
            {
                "job_name": "edgeagent",
                "honor_labels": True,
                "static_configs": [{"targets": [one.address], "labels": dict(one.labels)} for one in targets],
            }
        ],
    }
