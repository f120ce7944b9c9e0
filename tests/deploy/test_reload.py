"""An agent whose configuration is a mounted ConfigMap: a change is taken without a signal, whole or not at all."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.service import QUICK, Manager, Service, command, environment, furnish


def mount(folder: Path, version: str, text: str) -> None:
    """Put a version of the ConfigMap in place as the kubelet does."""
    (folder / version).mkdir()
    (folder / version / "config.yaml").write_text(text)
    (folder / "..data_tmp").symlink_to(version)
    (folder / "..data_tmp").rename(folder / "..data")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    furnish(tmp_path)
    (tmp_path / "config.yaml").unlink()
    mount(tmp_path, "..1", QUICK)
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    manager = Manager(tmp_path)
    with (tmp_path / "log").open("a") as log:
        process = subprocess.Popen(command(tmp_path), env=environment(manager), stdout=log, stderr=log, text=True)
    try:
        manager.until("READY")
        yield Service(tmp_path, manager, process)
    finally:
        process.kill()
        process.wait()
        manager.close()


def digest(service: Service) -> str:
    found = re.search(r'^edgeagent_config_info\{digest="(\w+)"\} 1\.0$', service.get("/metrics")[1], re.MULTILINE)
    assert found
    return found[1]


def reloaded(service: Service) -> None:
    """Wait for a reload, and for the cycle after it to be shown."""
    service.manager.until("RELOADING")
    service.manager.until("READY")
    service.manager.until("WATCHDOG")
    service.manager.until("WATCHDOG")


def test_a_changed_config_map_is_taken_whole_or_not_at_all(service: Service) -> None:
    first = digest(service)
    assert service.metric("observe") == 0

    mount(service.folder, "..2", QUICK + "mode: observe\n")
    reloaded(service)

    assert service.metric("observe") == 1
    assert service.metric("config_last_reload_successful") == 1
    second = digest(service)
    assert second != first

    mount(service.folder, "..3", QUICK + "mode: enforce\npolicy: {grace: soon}\n")
    reloaded(service)

    assert service.metric("observe") == 1, "also the half that could be used was not taken"
    assert service.metric("config_last_reload_successful") == 0
    assert digest(service) == second

    mount(service.folder, "..4", QUICK)
    reloaded(service)

    assert service.metric("config_last_reload_successful") == 1
    assert digest(service) == first
