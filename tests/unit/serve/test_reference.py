"""The reference names what is served, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from edgeagent.serve import health, metrics
from edgeagent.serve.http import PAGES
from edgeagent.serve.shown import Refused

from .states import DISCRETE, MIB, NOW, PLAN, WALL, cluster, shown

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text()

Series = dict[str, set[str]]
"""Label names by series."""


def served() -> Series:
    """Every series of two boards on which nothing is unknown."""
    known = replace(PLAN, usage=replace(PLAN.usage, unattributed_gpu=7 * MIB))
    found: Series = {}
    for plan in (known, DISCRETE):
        text = metrics.text(shown(plan=plan), NOW, WALL).decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def documented() -> Series:
    rows = re.findall(r"^\| (`(?:edgeagent|process)_.*?) \| (.*?) \|", REFERENCE, re.MULTILINE)
    return {
        name: set(re.findall(r"`(\w+)`", labels)) for names, labels in rows for name in re.findall(r"`(\w+)`", names)
    }


def test_every_series_is_in_the_reference_with_its_labels() -> None:
    assert documented() == served()


def test_every_path_is_in_the_reference() -> None:
    assert set(re.findall(r"^\| `(/\S+)` \|", REFERENCE, re.MULTILINE)) == set(PAGES)


def test_every_check_is_in_the_reference() -> None:
    state = shown(cluster=cluster(refused=(Refused(part="evict", code=403, message="no"),)))
    names = {check["name"] for check in health.readyz(state, NOW, verbose=True)[1]["checks"]}
    names |= {health.sample(None, NOW).name}

    told = set(re.findall(r"^\| `(\S+)` \| .* \| (?:503)? ?\| 503 \|$", REFERENCE, re.MULTILINE))
    patterns = [re.sub(r"<\w+>", r".+", re.escape(name).replace(r"\<", "<").replace(r"\>", ">")) for name in told]
    assert [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in names)] == []
