"""What a driver or a card that does not answer as it should makes of a whole recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent import cli
from tests.unit.host.nvml_documents import GIB, T4, document, without
from tests.unit.snapshot.making import pod, process, write

CARD = {**without(T4, "graphics", "mps"), "pci_bus_id": "00000000:01:00.0", "name": "NVIDIA RTX A2000 Laptop GPU"}
IDLE = {**CARD, "compute": {"code": 0, "processes": []}}
USED = {**CARD, "compute": {"code": 0, "processes": [{"pid": 4242, "used": GIB}]}}
SIZE = "15872Mi"  # 16 GiB - 512 MiB
MEMINFO = "MemTotal:       16000000 kB\nMemFree:         8000000 kB\nMemAvailable:    9000000 kB\n"
PCI = "host/sys/bus/pci/devices"


def laptop(status: str = "active", files: dict[str, Any] | None = None) -> dict[str, Any]:
    """An x86 machine with one card, a pod with a budget and a process of it."""
    return {
        "snapshot.yaml": {"format": 1, "taken": "2026-01-31T12:00:00Z", "node": "orin", "arch": "x86_64"},
        "host/proc/meminfo": MEMINFO,
        "host/proc/2/stat": "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 23 0 0\n",
        "host/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n",
        **card("0000:01:00.0", status),
        "cluster/pods.json": {"kind": "PodList", "items": [pod()]},
        **process(4242, "llm"),
        **(files or {}),
    }


def card(address: str, status: str) -> dict[str, Any]:
    return {
        f"{PCI}/{address}/vendor": "0x10de\n",
        f"{PCI}/{address}/class": "0x030000\n",
        f"{PCI}/{address}/power/runtime_status": f"{status}\n",
    }


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The documents of a recording that is made of the files given."""

    def explained(files: dict[str, Any]) -> list[dict[str, Any]]:
        assert cli.main(["explain", str(write(tmp_path, files)), "--format", "json"]) == 0
        out = capsys.readouterr().out
        return [json.loads(line) for line in out.splitlines()] if out.startswith('{"') else [json.loads(out)]

    return explained


def unavailable(found: dict[str, Any]) -> tuple[str, str]:
    (condition,) = [one for one in found["node"]["conditions"] if one["type"] == "GPUUnavailable"]
    return condition["status"], condition["reason"]


def test_a_card_that_was_never_awake(explain: Any) -> None:
    (found,) = explain(laptop("suspended"))
    assert (found["board"]["kind"], found["board"]["warnings"]) == ("discrete", [])
    assert [(one["health"], one["total_bytes"], one["usable_bytes"]) for one in found["devices"]] == [
        ("asleep", None, None)
    ]
    assert (found["node"]["capacity"], found["node"]["labels"]) == ({}, {})
    assert unavailable(found) == ("False", "DeviceAsleep")
    assert found["pods"][0]["gpu_bytes"] == 0


def test_a_card_that_sleeps_with_its_figures(explain: Any) -> None:
    (found,) = explain(laptop("suspended", {"nvml.json": document(IDLE)}))
    assert [(one["health"], one["total_bytes"]) for one in found["devices"]] == [("asleep", 16 * GIB)]
    assert found["node"]["capacity"]["edgeagent.dev/gpu-memory"] == SIZE
    assert unavailable(found) == ("False", "DeviceAsleep")
    assert (found["pods"][0]["gpu_bytes"], found["pods"][0]["state"]) == (0, "ok")
    assert (found["host"]["system_gpu_bytes"], found["host"]["unattributed_gpu_bytes"]) == (0, 0)


def test_a_card_that_falls_asleep_and_wakes_up(explain: Any) -> None:
    asleep = {"host/sys/bus/pci/devices/0000:01:00.0/power/runtime_status": "suspended\n"}
    changes: dict[str, Any] = {
        f"frames/{number:04}/{name}": text for number in (1, 2, 3, 4) for name, text in asleep.items()
    }
    # In the second and third nothing was asked, in the fourth the figures are as the agent keeps them.
    changes |= {f"frames/{number:04}/removed.txt": "nvml.json\n" for number in (1, 2, 3)}
    changes["frames/0004/nvml.json"] = document(IDLE)
    times = [0, 2, 300, 700, 702, 704]
    frames = [{"frame": f"{number:04}", "at": at} for number, at in enumerate(times)]
    found = explain(laptop(files={"nvml.json": document(USED), "frames.yaml": frames, **changes}))
    assert [one["devices"][0]["health"] for one in found] == ["ok", *["asleep"] * 4, "ok"]
    assert [one["devices"][0]["total_bytes"] for one in found] == [16 * GIB] * 6
    assert [one["pods"][0]["gpu_bytes"] for one in found] == [GIB, 0, 0, 0, 0, GIB]
    assert [one["node"]["capacity"]["edgeagent.dev/gpu-memory"] for one in found] == [SIZE] * 6
    assert {one["node"]["labels"]["edgeagent.dev/gpu.product"] for one in found} == {"NVIDIA-RTX-A2000-Laptop-GPU"}


@pytest.mark.parametrize("listed", [True, False])
def test_one_of_two_sleeps(explain: Any, *, listed: bool) -> None:
    other = {**IDLE, "uuid": "GPU-2", "minor": 1, "pci_bus_id": "00000000:65:00.0"}
    devices = [IDLE, other] if listed else [other]
    files = laptop("suspended", {**card("0000:65:00.0", "active"), "nvml.json": document(*devices)})
    (found,) = explain(files)
    assert [(one["uuid"], one["health"]) for one in found["devices"]] == [
        (T4["uuid"] if listed else None, "asleep"),
        ("GPU-2", "ok"),
    ]
    assert found["node"]["capacity"]["edgeagent.dev/gpu-memory"] == ("31744Mi" if listed else SIZE)  # 2 × 15872


def test_a_library_that_does_not_fit_the_module(explain: Any) -> None:
    files = laptop(
        files={
            "host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09": b"",
            "nvml.json": document(IDLE),
            "frames.yaml": [{"frame": "0000", "at": 0}, {"frame": "0001", "at": 2}, {"frame": "0002", "at": 4}],
            "frames/0001/nvml.json": {"library": "present", "init": 18},
        }
    )
    good, bad, again = explain(files)
    (warning,) = bad["board"]["warnings"]
    assert "580.95.05" in warning
    assert "580.126.09" in warning
    assert [one["devices"][0]["health"] for one in (good, bad, again)] == ["ok", "degraded", "ok"]
    assert unavailable(bad) == ("True", "DeviceDegraded")
    assert {one["node"]["capacity"]["edgeagent.dev/gpu-memory"] for one in (good, bad, again)} == {SIZE}
    assert [one["pods"][0]["gpu_bytes"] for one in (good, bad, again)] == [0, None, 0]


def test_a_wsl_guest_lists_processes_of_windows(explain: Any) -> None:
    # Its pid 4242 is another program than the guest's, which belongs to a pod.
    files = {name: text for name, text in laptop().items() if "/pci/" not in name and "/nvidia/" not in name}
    (found,) = explain({**files, "host/dev/dxg": b"", "nvml.json": document(USED)})
    assert (found["board"]["kind"], found["board"]["signals"]) == ("wsl", ["nvml", "wsl"])
    assert found["node"]["capacity"]["edgeagent.dev/gpu-memory"] == SIZE
    assert (found["pods"][0]["gpu_bytes"], found["pods"][0]["state"]) == (None, "unknown")
    assert (found["host"]["system_gpu_bytes"], found["plan"]["evictions"]) == (None, [])


def test_a_driver_without_its_library(explain: Any) -> None:
    (found,) = explain({name: text for name, text in laptop().items() if "/pci/" not in name})
    assert (found["board"]["kind"], len(found["board"]["warnings"])) == ("discrete", 1)
    assert [(one["health"], one["total_bytes"]) for one in found["devices"]] == [("degraded", None)]
    assert found["node"]["capacity"] == {}
