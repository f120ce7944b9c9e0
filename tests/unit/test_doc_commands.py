"""The commands of the documentation are ones that the program takes, and print what the pages show."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgeagent import cli, config, quantity
from edgeagent.cluster import pods
from edgeagent.config import Config
from edgeagent.facts import GPU_MEMORY
from edgeagent.memory.budgets import budget
from edgeagent.quantity import GIB, MIB
from tests.unit.test_docs import DOCS, PAGES, blocks, page, part, rows

ROOT = DOCS.parent
EXAMPLES = ROOT / "deploy" / "examples"
FILES = sorted(EXAMPLES.rglob("*.yaml"))
TEXTS = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (*PAGES, ROOT / "README.md")}
SYNOPSIS = ("[", "…", "COMMAND", " DIR", "SNAPSHOT")
"""What a command has in it that is written to be read, not run."""
PROGRAM = re.compile(r"^(?:sudo )?(?:\S*/)?edgeagent (?=[a-z-])")


@dataclass(frozen=True)
class Indented:
    """An indented block of a page, without its four blanks."""

    page: Path
    section: str
    lines: tuple[str, ...]


def indented(name: Path, text: str) -> Iterator[Indented]:
    """The indented blocks of a page; an empty line inside one belongs to it, and to both sides of another."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        title = section.splitlines()[0] if section else ""
        for block in re.findall(r"(?:^    .*\n(?:^\n(?=    ))*)+", section, re.MULTILINE):
            for piece in pieces([line[4:] for line in block.splitlines()]):
                yield Indented(name, title, piece)


def pieces(lines: list[str]) -> Iterator[tuple[str, ...]]:
    """The block in parts: a command begins one, and so does the first line after an empty one below a command."""
    part: list[str] = []
    for line in lines:
        if part and (is_command(line) or (is_command(part[-1]) and not line)):
            yield tuple(part)
            part = []
        if line or part:
            part.append(line)
    if part:
        yield tuple(part)


def is_command(line: str) -> bool:
    return bool(PROGRAM.match(line)) and not line.startswith("edgeagent: ")


def arguments(line: str) -> list[str]:
    """What the program is given; a comment is none of it."""
    words = shlex.split(PROGRAM.sub("", line), comments=True)
    return words[: words.index("|")] if "|" in words else words


BLOCKS = [block for name, text in TEXTS.items() for block in indented(name, text)]
COMMANDS = [
    (block.page, line)
    for block in BLOCKS
    for line in block.lines
    if is_command(line) and not any(word in line for word in SYNOPSIS)
]


def parsed(words: list[str]) -> argparse.Namespace:
    """The arguments as the program's own parser reads them."""
    return cli._parser().parse_args(words)  # noqa: SLF001 (main would run the command)


# --- every command -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "line"), sorted(set(COMMANDS)), ids=str)
def test_the_program_takes_the_command(name: Path, line: str) -> None:
    words = arguments(line)
    if words == ["--version"]:
        return
    try:
        parsed(words)
    except SystemExit as end:
        pytest.fail(f"{name}: {line}: exit {end.code}")


def test_there_are_commands_of_every_kind() -> None:
    kinds = {arguments(line)[0] for _, line in COMMANDS}

    assert kinds >= {"run", "explain", "history", "record", "config", "install", "uninstall"}


def test_a_command_that_the_program_does_not_take_is_noticed() -> None:
    for line in ("edgeagent explian", "edgeagent explain --would-fit", "edgeagent install --purge"):
        assert is_command(line)
        with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            parsed(arguments(line))


# --- those that can run here -----------------------------------------------------------------


def recorded(line: str) -> bool:
    """Whether the command looks at a board of the repository."""
    return is_command(line) and bool(re.search(r" (tests/boards|edgeagent/demo/board)/", line))


def shown() -> Iterator[tuple[Path, str, tuple[tuple[str, ...], ...]]]:
    """Each command about a recorded board, and the blocks after it, up to the next command."""
    for name, of_page in itertools.groupby(BLOCKS, key=lambda block: block.page):
        command, below = "", list[tuple[str, ...]]()
        for block in of_page:
            first, *rest = block.lines
            if looks_like_a_command(first):
                if recorded(command):
                    yield name, command, tuple(below)
                command, below = first, [tuple(rest)] if rest else []
            else:
                below.append(block.lines)
        if recorded(command):
            yield name, command, tuple(below)


def looks_like_a_command(line: str) -> bool:
    programs = (
        r"(sudo |cd |git |curl |kubectl |systemctl |journalctl |helm |echo |openssl |nvidia|CUDA_\w+=|\./scripts)"
    )
    return is_command(line) or bool(re.match(programs, line))


SHOWN = list(shown())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the paths of the commands lead somewhere."""
    for name in ("edgeagent", "tests", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "line", "below"), SHOWN, ids=[f"{one[0].stem}-{number}" for number, one in enumerate(SHOWN)]
)
def test_a_command_about_a_recorded_board_prints_what_the_page_shows(
    name: Path, line: str, below: tuple[tuple[str, ...], ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(name)

    code = cli.main(arguments(line))

    out = capsys.readouterr().out
    assert code in (cli.OK, cli.PROBLEMS)
    for lines in below:
        text = "\n".join(lines).strip("\n")
        if "…" in text:
            continue  # shortened for people
        assert f"\n{text}\n" in f"\n{out}", f"{name}: {line}"


def write_files(name: Path) -> None:
    """The files that a page tells to write, such as ``# try.yaml``."""
    for block in blocks(TEXTS[name], "yaml"):
        title = block.splitlines()[0].removeprefix("# ")
        if re.fullmatch(r"[\w-]+\.yaml", title):
            Path(title).write_text(block, encoding="utf-8")


def test_output_is_compared_on_these_pages() -> None:
    compared = {str(name) for name, _, below in SHOWN if below}

    assert compared >= {
        "docs/tutorial/orin-nano.md",
        "docs/tutorial/five-services.md",
        "docs/tutorial/first-steps.md",
        "docs/how-to/will-it-fit.md",
        "docs/how-to/sla-and-batch.md",
    }


# --- manifests ---------------------------------------------------------------------------------


def named() -> dict[str, list[tuple[Path, str]]]:
    """Blocks of the pages that say which file of ``deploy/examples`` they are."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for name, text in TEXTS.items():
        for block in blocks(text, "yaml"):
            title, _, body = block.partition("\n")
            if title.startswith("# deploy/examples/"):
                found.setdefault(title.removeprefix("# "), []).append((name, body))
    return found


@pytest.mark.parametrize("path", sorted(named()))
def test_a_manifest_of_a_page_is_the_file_that_it_names(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")

    assert [body == text for _, body in named()[path]] == [True] * len(named()[path])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_a_file_of_the_examples_is_on_a_page(path: Path) -> None:
    assert any(str(path.relative_to(ROOT)) in text for text in TEXTS.values())


def test_the_new_pages_show_no_other_manifest() -> None:
    pages = (
        "tutorial/orin-nano.md",
        "tutorial/five-services.md",
        *(f"how-to/{name}.md" for name in ("mps", "tenants", "one-manifest", "sla-and-batch", "migrate", "prometheus")),
    )
    others = [
        block
        for name in pages
        for block in blocks(page(name), "yaml")
        # A kustomization is built by the tests of the deployment.
        if "kind" in yaml.safe_load(block) and not block.startswith(("# deploy/examples/", "# kustomization.yaml"))
    ]

    assert others == []


def test_images_and_registries_are_nobodys() -> None:
    images = [image for path in FILES for image in re.findall(r"image: (\S+)", path.read_text(encoding="utf-8"))]

    assert images
    assert [image for image in images if not image.startswith("example.com/")] == []


# --- kubectl -------------------------------------------------------------------------------------


KUBECTL = sorted(
    {
        (name, line.strip().removeprefix("sudo k3s "))
        for name, text in TEXTS.items()
        for line in re.findall(r"^ {4,6}((?:sudo k3s )?kubectl .*)$", text, re.MULTILINE)
    }
)
VERBS = {
    "annotate",
    "apply",
    "create",
    "delete",
    "describe",
    "edit",
    "exec",
    "get",
    "label",
    "logs",
    "patch",
    "port-forward",
    "rollout",
    "scale",
}


@pytest.mark.parametrize(("name", "line"), KUBECTL, ids=str)
def test_a_kubectl_command_names_a_verb_and_files_that_are_there(name: Path, line: str) -> None:
    words = shlex.split(line, comments=True)
    words = words[: words.index("|")] if "|" in words else words
    verbs = [word for word in words[1:] if word in VERBS]

    assert verbs, line
    for flag, value in itertools.pairwise(words):
        if flag in ("-f", "-k"):
            written = {block.splitlines()[0].removeprefix("# ") for block in blocks(TEXTS[name], "yaml")}
            if value == ".":  # the folder of the kustomization that the page has the reader write
                assert "kustomization.yaml" in written, line
                continue
            assert (ROOT / value).exists() or value in written, line
            assert flag == "-f" or (ROOT / value / "kustomization.yaml").is_file(), line
        if flag == "-p":
            json.loads(value)


# --- what the pages compute --------------------------------------------------------------------


def would_fit(board: str, wishes: list[str]) -> dict[str, Any]:
    """The program's answer about a recorded board."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        cli.main(["explain", str(ROOT / board), "--format", "json", "--would-fit", *wishes])
    answer: dict[str, Any] = json.loads(out.getvalue())["would_fit"]
    return answer


FIVE = "tutorial/five-services.md"
SERVICES = ("detector", "speech", "llm", "anomaly", "recommender")


def limits(path: Path) -> dict[str, str]:
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    spec = manifest["spec"].get("template", manifest)["spec"]
    found: dict[str, str] = spec["containers"][0]["resources"]["limits"]
    return found


def wish(service: str) -> str:
    asked = limits(EXAMPLES / "five-services" / f"{service}.yaml")
    return f"{service}=gpu:{asked[GPU_MEMORY]},memory:{asked['memory']}"


def test_the_five_figures_are_those_of_the_manifests() -> None:
    table = list(rows(part(page(FIVE), "1. Five figures")))[1:]

    assert len(table) == len(SERVICES)
    for _, gpu, host, memory, file in table:
        asked = limits(ROOT / file.strip("`"))
        sizes = [quantity.parse(text.replace(" MiB", "Mi").replace(" GiB", "Gi")) for text in (gpu, host)]
        assert memory.strip("`") == asked["memory"]
        assert sizes[0] == quantity.parse(asked[GPU_MEMORY])
        assert sum(sizes) == quantity.parse(asked["memory"])


def groups() -> dict[frozenset[str], list[str]]:
    """The groups of the table, with the two last cells."""
    table = list(rows(part(page(FIVE), "3. Who fits beside whom on 8 GB")))[1:]
    return {
        frozenset(service for service, cell in zip(SERVICES, row, strict=False) if cell == "x"): row[-2:]
        for row in table
    }


def test_who_fits_beside_whom_is_what_the_program_says() -> None:
    told = groups()
    fitting: set[frozenset[str]] = set()
    others: set[frozenset[str]] = set()
    for size in range(2, len(SERVICES) + 1):
        for group in itertools.combinations(SERVICES, size):
            answer = would_fit("tests/boards/orin-nano-8gb-jp61-full/snapshot", [wish(name) for name in group])
            (fitting if answer["fits"] else others).add(frozenset(group))
            if frozenset(group) in told:
                (line,) = [line for line in answer["sum"] if line["key"] == GPU_MEMORY]
                together, left = told[frozenset(group)]
                assert together == f"{line['asked'] // MIB} MiB"
                wanted = f"{line['left'] // MIB} MiB"
                if not answer["fits"]:
                    # 5827 MiB are advertised.
                    wanted = f"does not fit, {line['asked'] // MIB - 5827} MiB short"
                assert left == wanted

    assert all(frozenset(pair) in fitting for pair in itertools.combinations(SERVICES, 2))
    biggest = {group for group in fitting if not any(group < other for other in fitting)}
    smallest = {group for group in others if not any(other < group for other in others)}
    told_fitting = {group for group, cells in told.items() if "does not" not in cells[1]}
    assert biggest == told_fitting
    assert smallest == set(told) - told_fitting


def test_what_else_the_five_services_page_says() -> None:
    asked = {name: quantity.parse(limits(EXAMPLES / "five-services" / f"{name}.yaml")["memory"]) for name in SERVICES}
    text = page(FIVE)

    assert "1728 + 3072 + 1024 = 5824 MiB" in text
    assert 1728 * MIB + asked["llm"] + asked["recommender"] == 5824 * MIB < 5827 * MIB
    assert would_fit(
        "tests/boards/orin-nano-8gb-jp61-full/snapshot",
        ["speech=gpu:1Gi,memory:1728Mi", wish("llm"), wish("recommender")],
    )["fits"]
    # On a K3s server of 4291 MiB, beside the language model.
    beside = [name for name in SERVICES if name != "llm" and asked["llm"] + asked[name] <= 4291 * MIB]
    assert beside == ["anomaly", "recommender"]
    # 16 GB with CMA pages like an Orin Nano's: 13891 - 256 = 13635, and 6 services ask for 11 GiB.
    assert 2 * asked["llm"] + sum(asked.values()) - asked["llm"] == 11 * GIB < 13635 * MIB


def test_the_orin_nano_page_counts_right() -> None:
    text = page("tutorial/orin-nano.md")
    llm, detector = (limits(EXAMPLES / "orin-nano" / f"{name}.yaml") for name in ("llm", "detector"))
    gpu = [quantity.parse(one[GPU_MEMORY]) // MIB for one in (llm, detector)]
    host = [quantity.parse(one["memory"]) // MIB - share for one, share in zip((llm, detector), gpu, strict=True)]

    assert (gpu, host) == ([1536, 768], [1024, 512])
    for said in ("4291 − 1024 = 3267 MiB", "3267 − 512 = 2755 MiB", "1536 + 768 = 2304", "451 MiB are left"):
        assert said in text
    # 2755 - 2304, and a third wants 1280 of them.
    assert 2755 - 2304 == 451
    assert "short of 829 MiB" in text
    assert 1280 - 451 == 829


def test_the_sla_page_counts_right() -> None:
    text = page("how-to/sla-and-batch.md")
    sla, beside = (limits(EXAMPLES / "sla-and-batch" / f"{name}.yaml") for name in ("sla", "batch-beside"))

    assert (sla[f"{GPU_MEMORY}-0"], beside[f"{GPU_MEMORY}-0"]) == ("16Gi", "20Gi")
    # 40377 / 1024 = 39.4
    assert round(40377 / 1024, 1) == 39.4
    assert "39.4 − 16 − 20 = 3.4 GiB" in text


@pytest.mark.parametrize("name", ["hami", "kai", "gpushare", "kube-share"])
def test_a_pod_of_another_project_has_its_budget_from_the_first_look_on(name: str) -> None:
    old = yaml.safe_load((EXAMPLES / "migrate" / f"before-{name}.yaml").read_text(encoding="utf-8"))

    found = budget(read(old), GPU_MEMORY, "unified", Config().policy, primary=True)

    # 1 GiB of `memory` cannot contain 2 GiB for the GPU, so it is the host's, and counted beside them.
    assert (found.gpu, found.source, found.booked) == (2 * GIB, "foreign", 3 * GIB)
    assert [problem.reason for problem in found.problems] == ["UnderRequested"]


def test_a_time_sliced_pod_gets_its_budget_by_the_annotation() -> None:
    old = yaml.safe_load((EXAMPLES / "migrate" / "before-time-slicing.yaml").read_text(encoding="utf-8"))
    before = budget(read(old), GPU_MEMORY, "unified", Config().policy, primary=True)
    (annotation,) = re.findall(r"kubectl annotate pod llm (\S+)", page("how-to/migrate.md"))
    key, _, value = annotation.partition("=")
    old["metadata"]["annotations"] = {key: value}

    after = budget(read(old), GPU_MEMORY, "unified", Config().policy, primary=True)

    assert (before.gpu, before.source) == (None, "none")
    assert (after.gpu, after.source, after.booked - before.booked) == (2 * GIB, "annotation", 2 * GIB)


def test_after_the_migration_gpu_and_host_are_as_said() -> None:
    new = yaml.safe_load((EXAMPLES / "migrate" / "after.yaml").read_text(encoding="utf-8"))

    found = budget(read(new), GPU_MEMORY, "unified", Config().policy, primary=True)

    assert (found.gpu, found.host_request, found.total, found.problems) == (2 * GIB, GIB, 3 * GIB, ())


def read(manifest: dict[str, Any]) -> Any:
    """The pod as the API server would show it: limits without a request are the request."""
    metadata = {"namespace": "n", "uid": "u", **manifest["metadata"]}
    for container in manifest["spec"]["containers"]:
        container["resources"].setdefault("requests", container["resources"]["limits"])
    return pods.parse({"metadata": metadata, "spec": manifest["spec"]})


def test_a_tenant_who_asks_for_nothing_may_use_nothing() -> None:
    (item,) = yaml.safe_load((EXAMPLES / "tenants" / "limit-range.yaml").read_text(encoding="utf-8"))["spec"]["limits"]
    container = {"name": "web", "resources": {"limits": item["default"], "requests": item["defaultRequest"]}}
    spec = {"containers": [container]}
    metadata = {"name": "web", "annotations": {"edgeagent.dev/gpu-memory-limit": "2Gi", "gpu-memory": "2048"}}

    found = budget(read({"metadata": metadata, "spec": spec}), GPU_MEMORY, "unified", Config().policy, primary=True)

    # 256 MiB of host memory with no GPU memory beside it are read as they stand.
    assert (found.gpu, found.source, found.host_request, found.problems) == (0, "limit", 256 * MIB, ())


def test_metrics_of_the_examples_and_of_the_page_are_metrics() -> None:
    known = {name for row in rows(page("reference/http.md")) for name in re.findall(r"`(\w+)`", row[0])}
    used = set(re.findall(r"\bedgeagent_\w+", page("how-to/prometheus.md")))

    assert len(used) > 5
    assert used - known == set()


def test_prometheus_configuration_is_yaml_and_selects_the_agents() -> None:
    data = yaml.safe_load((EXAMPLES / "prometheus" / "config.yaml").read_text(encoding="utf-8"))["data"]
    (job,) = yaml.safe_load(data["prometheus.yml"])["scrape_configs"]
    daemonset = yaml.safe_load((ROOT / "deploy/base/daemonset.yaml").read_text(encoding="utf-8"))
    pod = daemonset["spec"]["template"]
    (port,) = pod["spec"]["containers"][0]["ports"]
    (keep,) = [rule for rule in job["relabel_configs"] if rule["action"] == "keep"]

    assert job["kubernetes_sd_configs"][0]["namespaces"]["names"] == [daemonset["metadata"]["namespace"]]
    assert keep["regex"] == f"{pod['metadata']['labels']['app.kubernetes.io/name']};{port['name']}"


def test_alerts_are_those_of_the_reference() -> None:
    file = ROOT / "deploy" / "prometheus" / "edgeagent.rules.yml"
    (group,) = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    shipped = [(rule["alert"], rule["labels"]["severity"], rule.get("for", "")) for rule in group["rules"]]
    told = page("reference/http.md").split("\n### Alerts\n")[1]

    assert [(row[0].strip("`"), row[1], row[2]) for row in list(rows(told))[1:]] == shipped


def test_the_service_serves_other_machines_with_a_token_only() -> None:
    (example,) = [one for one in blocks(page("how-to/prometheus.md"), "yaml") if one.startswith("# /etc/edgeagent")]

    found = config.load([("how-to", example)]).serve

    assert (found.bind, found.token_file) == ("0.0.0.0:9843", "/etc/edgeagent/metrics-token")


def test_the_kustomization_for_prometheus_leaves_out_what_the_operator_alone_knows() -> None:
    folder = EXAMPLES / "prometheus"
    content = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    (patch,) = content["patches"]

    for path in (*content["resources"], *content["components"]):
        assert (folder / path / "kustomization.yaml").is_file()
    assert yaml.safe_load(patch["patch"])["$patch"] == "delete"
    assert patch["target"] == {"kind": "PodMonitor"}


def test_no_page_installs_an_extra_from_an_index_that_does_not_have_the_program() -> None:
    for path in PAGES:
        for said in re.findall(r"pip install [^\n]*edgeagent\[[^\n]*", path.read_text()):
            assert "--no-index" in said, f"{path}: {said}"


def test_no_environment_is_made_where_a_checkout_lies() -> None:
    # git clone makes ~/edgeagent, and a virtual environment of that name would be written into it.
    assert [path for path in PAGES if re.search(r"venv ~/edgeagent(\s|$)", path.read_text())] == []
