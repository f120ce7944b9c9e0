"""The files of ``deploy/`` that are made from others: alerts for the operator, and the dashboard."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.deploy import dashboard

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "edgeagent.rules.yml"
RULES_TESTS = DEPLOY / "prometheus" / "edgeagent.rules.test.yml"
DASHBOARD = DEPLOY / "components" / "grafana-dashboard" / "edgeagent.json"
OPERATOR_RULES = DEPLOY / "components" / "alert-rules" / "prometheusrule.yaml"

_OPERATOR_HEAD = """\
# deploy/prometheus/edgeagent.rules.yml; python -m tests.deploy.rendering writes it.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: edgeagent
  namespace: edgeagent-system
  labels:
    app.kubernetes.io/name: edgeagent
spec:
"""


def made() -> dict[Path, str]:
    """What each of them has to be."""
    groups = RULES.read_text().partition("groups:")
    return {
        DASHBOARD: dashboard.text(),
        OPERATOR_RULES: _OPERATOR_HEAD + textwrap.indent("".join(groups[1:]), "  "),
    }
