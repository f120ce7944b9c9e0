"""What the pages about the deployment tell people to write is something that can be written."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.deploy.rendering import DEPLOY, NAMESPACE, objects, with_components
from tests.unit.test_docs import PAGES, blocks

TEXTS = [path.read_text(encoding="utf-8") for path in PAGES]
KUSTOMIZATIONS: list[dict[str, Any]] = [
    yaml.safe_load(block)
    for text in TEXTS
    for block in blocks(text, "yaml")
    if block.startswith("# kustomization.yaml")
]


def test_each_value_that_is_set_in_a_command_is_one_of_the_chart() -> None:
    schema = json.loads((DEPLOY / "chart" / "values.schema.json").read_text())
    found = {name for text in TEXTS for name in re.findall(r"--set ([\w.]+)=", text)}

    assert found
    for name in found:
        here = schema
        for part in name.split("."):
            here = here["properties"][part]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("content", KUSTOMIZATIONS, ids=lambda one: "+".join([*one, *one.get("components", ())]))
def test_each_kustomization_of_the_pages_builds(content: dict[str, Any]) -> None:
    assert content["resources"] == ["deploy/base"]
    components = [path.removeprefix("deploy/components/") for path in content.get("components", ())]
    more = {key: value for key, value in content.items() if key not in ("resources", "components")}
    generated = more.get("configMapGenerator", [])
    files = {name: "mode: enforce\n" for one in generated for name in one["files"]}

    built = with_components(*components, files=files, **more)

    for image in content.get("images", ()):
        assert f"image: {image['newName']}:" in built
    for one in generated:
        found = objects(built)["ConfigMap", NAMESPACE, one["name"]]
        assert found["data"] == {"config.yaml": {"mode": "enforce"}}


def test_paths_of_the_deployment_in_commands_exist() -> None:
    found = {path.rstrip(".") for text in TEXTS for path in re.findall(r"(?<![\w./])deploy/[\w./-]+", text)}

    assert found
    assert [path for path in found if not (DEPLOY.parent / path).exists()] == []
