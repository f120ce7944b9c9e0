"""What the logs of containers say: what is known of them, how much is read, and that nothing else is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from edgeagent.cluster import podlogs
from edgeagent.cluster import pods as parsing
from edgeagent.diagnose import loglines
from edgeagent.facts.diagnosis import ContainerLog
from tests.cases.making import KEY, pod, pods
from tests.diagnose.making import NODE_JSON, PODS, Capture, creating, healthy
from tests.faults.conftest import Connect, write_kubeconfig
from tests.faults.conftest import connect as connect  # noqa: PLC0414 (a fixture)
from tests.faults.server import Exchange, answers, hangs, refuses, resets, serving
from tests.unit.snapshot.making import CONTAINER, write

LOG = "/api/v1/namespaces/default/pods/llm/log"


def said(text: str) -> Any:
    (step,) = loglines.steps([ContainerLog(container="main", text=text)])
    return step


# --- what is known ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told", "means"),
    [
        # cuda-samples and PyTorch on a container without a device.
        ("cudaGetDeviceCount returned 100 -> no CUDA-capable device is detected", "no CUDA-capable device", "no GPU"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check", "Found no NVIDIA driver", "no GPU"),
        ("CUDA driver version is insufficient for CUDA runtime version", "CUDA driver version", "newer CUDA"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "no kernel", "code for"),
        ("AssertionError: Torch not compiled with CUDA enabled", "Torch not compiled", "without CUDA"),
        ('level=INFO msg="no compatible GPUs were discovered"', "no compatible GPUs", "on the CPU"),
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            "Failed to initialize NVML",
            "restart the board",
        ),
        ("Failed to initialize NVML: Unknown Error", "Failed to initialize NVML", "daemon-reload"),
        ("E0506 factory.go:112] Incompatible strategy detected auto", "Incompatible strategy", "RuntimeClass"),
        ("I0123 main.go:381] No devices found. Waiting indefinitely.", "No devices found", "RuntimeClass"),
        ("Failed to initialize NVML: could not load NVML library.", "Failed to initialize NVML", "RuntimeClass"),
        ("libcuda.so.1: cannot open shared object file: No such file or directory", "libcuda.so.1", "driver's library"),
        ("NvRmMemInitNvmap failed with Permission denied", "NvRmMemInitNvmap failed", "group video"),
        ("NvRmMemInitNvmap failed: error Permission denied", "NvRmMemInitNvmap failed", "group video"),
        ("NvRmMemInitNvmap failed with No such file or directory", "NvRmMemInitNvmap failed", "no /dev/nvmap"),
        ("NvMapMemAllocInternalTagged: 1075072515 error 12", "1075072515 error 12", "no breach of a budget"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA out of memory", "left"),
    ],
)
def test_a_line_that_is_known_says_what_it_means(line: str, told: str, means: str) -> None:
    step = said(f"starting\n{line}\n")
    assert step.answer is False
    assert means in step.told
    (row,) = step.evidence
    assert told in row


@pytest.mark.parametrize(
    "line",
    [
        "NVML initialized, 1 device",
        "CUDA initialized, 1 device detected",
        "loaded libcuda.so.1",
        "NvMapMemAllocInternalTagged: 4096 error 120",
        "no GPU metrics are exported",
        "out of memory: killed by the kernel",
        "permission denied: /data",
        "",
    ],
)
def test_a_line_that_only_looks_like_it_says_nothing(line: str) -> None:
    step = said(line)
    assert (step.answer, step.plain, step.evidence) == (None, True, ())


def test_what_is_said_again_is_counted_and_two_causes_are_two() -> None:
    step = said("CUDA out of memory.\n" * 3 + "Torch not compiled with CUDA enabled\n")
    assert step.evidence == ("CUDA out of memory (3 times)", "Torch not compiled with CUDA enabled")
    assert all(known in step.told for known in ("no GPU memory left", "without CUDA"))


def test_nothing_of_a_log_is_told_but_the_words_that_are_known() -> None:
    step = said(
        "password=hunter2 CUDA out of memory \x1b[31m token=abc\nAWS_SECRET_ACCESS_KEY=xyz\n"
        "\x1b]0;NvMapMemAllocInternalTagged: " + "9" * 4000 + " error 12\n"
    )
    assert step.evidence == ("CUDA out of memory", f"NvMapMemAllocInternalTagged: {'9' * 4000}"[: loglines.LONGEST])
    assert not any(secret in step.told for secret in ("hunter2", "abc", "xyz"))


def test_a_log_without_end_of_line_takes_no_time() -> None:
    # 64 KiB of what the patterns begin with; a second is a thousand times what it takes.
    assert said("NvMapMemAllocInternalTagged: " * 2300).plain
    assert said("Failed to initialize NVML: " * 2300).plain


# --- how it is read --------------------------------------------------------------------


def running(*names: str) -> Any:
    found = pod(limits={KEY: "1Gi"}, container=CONTAINER)
    (main,), (state,) = found["spec"]["containers"], found["status"]["containerStatuses"]
    found["spec"]["containers"] = [{**main, "name": name} for name in names]
    found["status"]["containerStatuses"] = [{**state, "name": name} for name in names]
    return parsing.parse(found)


async def sends(exchange: Exchange, text: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
    await exchange.raw(head.encode() + text)


async def test_the_end_of_each_log_is_asked_for_and_no_more(connect: Connect) -> None:
    async def log(exchange: Exchange) -> None:
        await sends(exchange, b"CUDA out of memory\n")

    async with serving(log) as server, connect(server.url) as client:
        found = await podlogs.read(client, running("main", "side"))
    assert [(one.container, one.text) for one in found] == [
        ("main", "CUDA out of memory\n"),
        ("side", "CUDA out of memory\n"),
    ]
    request = server.requests[0]
    assert request.path == LOG
    assert request.query == {"container": "main", "limitBytes": "65536", "tailLines": "200"}


async def test_a_server_that_sends_more_than_it_was_asked_for_is_not_heard_out(connect: Connect) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            await exchange.raw(b"x" * 65536)

    async with serving(endless) as server, connect(server.url) as client:
        (found,) = await podlogs.read(client, running("main"))
    assert found.text == "x" * 65536


async def test_the_right_that_is_missing_is_named(connect: Connect) -> None:
    async with serving(refuses(403, "cannot get resource pods/log")) as server, connect(server.url) as client:
        (found,) = await podlogs.read(client, running("main"))
    assert (found.text, found.right) == (None, "get pods/log in the namespace default")
    (step,) = loglines.steps([found])
    assert step.answer is None
    assert "It needs the right to get pods/log in the namespace default." in step.told


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (refuses(400, "container main is waiting to start"), "waiting to start"),
        (refuses(500, "dial tcp 10.0.0.2:10250: i/o timeout"), "10250"),
        (resets(), "GET"),
    ],
)
async def test_a_log_that_cannot_be_had_says_why(connect: Connect, fault: Any, why: str) -> None:
    async with serving(fault) as server, connect(server.url) as client:
        (found,) = await podlogs.read(client, running("main"))
    assert found.text is None
    assert why in found.why
    assert found.right == ""


async def test_a_log_that_does_not_come_costs_its_seconds_and_not_more(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podlogs, "SECONDS", 0.2)
    async with serving(hangs) as server, connect(server.url) as client:
        (found,) = await asyncio.wait_for(podlogs.read(client, running("main")), 10)
    assert found.text is None


async def test_what_has_not_run_is_not_asked_for_nor_more_than_eight(connect: Connect) -> None:
    async with serving(answers(200, {})) as server, connect(server.url) as client:
        (none,) = await podlogs.read(client, parsing.parse(creating()))
        found = await podlogs.read(client, running(*(f"c{number}" for number in range(10))))
    assert none.why == "it has not run yet"
    assert len(server.requests) == 8
    assert [one.text is None for one in found] == [False] * 8 + [True] * 2
    assert found[9].why == "8 logs were read already"


# --- the command -----------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--logs"], ["--cluster", "--logs"], ["pod", "default/llm", "SNAPSHOT", "--logs"]])
def test_logs_are_of_one_pod_on_a_board(tmp_path: Path, capsys: Capture, words: list[str]) -> None:
    folder = str(write(tmp_path, healthy()))
    assert cli.main(["doctor", *(folder if word == "SNAPSHOT" else word for word in words)]) == 2
    assert "--logs goes with pod NAMESPACE/NAME" in capsys.readouterr().err


async def command(folder: Path, *options: str) -> list[str]:
    """The paths that were asked for."""
    files = healthy(**{PODS: pods(pod(limits={KEY: "1Gi"}, container=CONTAINER, spec={"runtimeClassName": "nvidia"}))})
    await asyncio.to_thread(write, folder, files)

    async def cluster(exchange: Exchange) -> None:
        path = exchange.request.path
        if path == LOG:
            await sends(exchange, b"secret=1\x1b[2J\nlibcuda.so.1: cannot open shared object file: no\x1b[2J\n")
        elif path.startswith("/api/v1/nodes/"):
            await exchange.answer(200, files[NODE_JSON])
        else:
            plural = path.rpartition("/")[2]
            await exchange.answer(200, files.get(f"cluster/{plural}.json", {"items": [], "metadata": {}}))

    settings = folder / "agent.yaml"
    await asyncio.to_thread(settings.write_text, "node: {name: edge-07}\n")
    async with serving(cluster) as server:
        kubeconfig = await asyncio.to_thread(write_kubeconfig, folder / "kubeconfig", server.url)
        given = ["--kubeconfig", str(kubeconfig), "--host-root", str(folder / "host"), "--config", str(settings)]
        await asyncio.to_thread(cli.main, ["doctor", "pod", "default/llm", *given, *options])
        return [request.path for request in server.requests]


async def test_with_logs_the_page_has_what_they_say(tmp_path: Path, capsys: Capture) -> None:
    assert LOG in await command(tmp_path, "--logs", "--format", "json")
    document = json.loads(capsys.readouterr().out)
    steps = {step["question"]: step for step in document["steps"]}
    step = steps["Does the log of container main say why?"]
    assert step["answer"] is False
    assert step["evidence"] == ["libcuda.so.1: cannot open shared object file"]
    # Between what its containers hold and what it uses.
    questions = list(steps)
    assert questions.index("Does container main run?") < questions.index("Does the log of container main say why?")
    assert questions.index("Does the log of container main say why?") < questions.index(f"Does it use {KEY}?")


async def test_without_the_option_no_log_is_asked_for(tmp_path: Path, capsys: Capture) -> None:
    assert LOG not in await command(tmp_path)
    out = capsys.readouterr().out
    assert "Scheduled?" in out
    assert "log of container" not in out
