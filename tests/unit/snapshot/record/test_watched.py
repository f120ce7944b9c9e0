"""What is watched for people stands in a recording too, without what identifies anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeagent import cli
from edgeagent.host.disk import RootFiles
from edgeagent.host.thermal import readings
from tests.unit.host.test_podcounters import pressure, stat_v2
from tests.unit.host.test_thermal import CONF, ORIN
from tests.unit.snapshot.making import write
from tests.unit.snapshot.record import secretive
from tests.unit.snapshot.record.telling import explain, secrets_in


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    secretive.build(tmp_path / "root")
    secretive.replay(tmp_path)
    hidden = f"# {secretive.HOST} {secretive.USER}\n".encode()
    more = {**ORIN, "etc/nvpmodel.conf": hidden + CONF}
    write(tmp_path / "root", {path: entry for path, entry in more.items() if entry is not None})
    assert cli.main(["record", "snapshot", "--host-root", "root", "--nvml-replay", "nvml-answers.json"]) == 0
    capsys.readouterr()
    return tmp_path / "snapshot"


def test_the_sensors_of_the_board_read_as_before(recorded: Path) -> None:
    assert readings(RootFiles(recorded / "host")) == readings(RootFiles(recorded.parent / "root"))
    assert readings(RootFiles(recorded / "host")).power_mode == "MAXN_SUPER"


def test_nothing_that_identifies_is_in_it(recorded: Path) -> None:
    assert secrets_in(recorded) == []
    # Of the configuration the lines that name power modes are kept, and nothing that people wrote beside them.
    assert (recorded / "host/etc/nvpmodel.conf").read_text() == (
        "< POWER_MODEL ID=0 NAME=15W >\n< POWER_MODEL ID=1 NAME=25W >\n< POWER_MODEL ID=2 NAME=MAXN_SUPER >\n"
        "< PM_CONFIG DEFAULT=1 >\n"
    )
    assert (recorded / "host/var/lib/nvpmodel/status").read_text() == "pmode:0002\n"


def test_the_power_mode_is_a_label_of_the_recorded_board(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(capsys, str(recorded))["node"]["labels"]["edgeagent.dev/jetson.power-mode"] == "MAXN_SUPER"


def test_formats_of_the_kernel_are_kept_as_they_are() -> None:
    from edgeagent.snapshot.record import reduce  # noqa: PLC0415
    from tests.unit.snapshot.record.test_settings import NOBODY  # noqa: PLC0415

    for path, content in (
        ("sys/fs/cgroup/kubepods.slice/cpu.stat", stat_v2(600, 120, 4_500_000)),
        ("sys/fs/cgroup/kubepods.slice/cpu.pressure", pressure(2_500_000)),
    ):
        assert reduce.content(NOBODY, path, content) == content
