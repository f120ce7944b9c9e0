"""The files for systemd, as systemd's own programs read them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .requirements import ROOT, SYSTEMD
from .unit import FOLDER, UNIT, section

OLDEST = 249
"""systemd of Ubuntu 22.04, on which JetPack 6 is built."""

# Directives by the version of systemd that brought them, from the "Added in version" notes of its manual pages
# (systemd.unit, systemd.service, systemd.exec, systemd.resource-control, systemd.kill); 0: before those notes begin.
SINCE = {
    "Description": 0, "After": 0, "Wants": 0, "StartLimitIntervalSec": 230, "WantedBy": 0,
    "Type": 0, "ExecStart": 0, "ExecReload": 0, "WatchdogSec": 0, "Restart": 0, "RestartSec": 0,
    "RestartPreventExitStatus": 0, "TimeoutStartSec": 188, "TimeoutStopSec": 188, "OOMScoreAdjust": 0, "User": 0,
    "AmbientCapabilities": 229, "CapabilityBoundingSet": 0, "NoNewPrivileges": 187, "RestrictSUIDSGID": 242,
    "KeyringMode": 235, "UMask": 0, "StateDirectory": 235, "StateDirectoryMode": 234, "RuntimeDirectory": 211,
    "RuntimeDirectoryMode": 234, "ProtectSystem": 214, "ProtectHome": 214, "PrivateTmp": 0, "PrivateMounts": 239,
    "ProtectKernelTunables": 232, "ProtectControlGroups": 232, "ProtectKernelModules": 232, "ProtectKernelLogs": 244,
    "ProtectProc": 247, "ProcSubset": 247, "DevicePolicy": 208, "DeviceAllow": 208, "RestrictAddressFamilies": 211,
    "IPAddressDeny": 235, "IPAddressAllow": 235, "MemoryDenyWriteExecute": 231, "SystemCallArchitectures": 209,
    "SystemCallFilter": 187, "SystemCallErrorNumber": 209, "RestrictNamespaces": 233, "RestrictRealtime": 231,
    "LockPersonality": 235, "PrivateIPC": 248, "RemoveIPC": 232, "ProtectClock": 245, "ProtectHostname": 242,
    "ReadOnlyPaths": 231, "Nice": 187, "RuntimeDirectoryPreserve": 235,
}  # fmt: skip


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@SYSTEMD
def test_the_exposure_is_at_most_2() -> None:
    report = run("systemd-analyze", "security", "--offline=true", "--threshold=20", UNIT)

    assert report.returncode == 0, report.stdout + report.stderr


@SYSTEMD
def test_systemd_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    # The program is not installed here; everything else is taken as it is.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/edgeagent/bin/edgeagent run", "/bin/sh"))

    verdict = run("systemd-analyze", "verify", "--man=no", unit)

    assert (verdict.returncode, verdict.stdout + verdict.stderr) == (0, "")


def test_no_directive_is_newer_than_the_oldest_systemd() -> None:
    assert {key for name in ("Unit", "Service", "Install") for key in section(name)} == set(SINCE)
    assert max(SINCE.values()) <= OLDEST


def test_the_order_is_after_k3s_but_nothing_is_required() -> None:
    unit = section("Unit")

    assert {"k3s.service", "k3s-agent.service", "network-online.target"} <= set(unit["After"].split())
    assert not {"Requires", "Requisite", "BindsTo", "PartOf", "Upholds"} & set(unit)
    # k3s-killall.sh stops every unit with such a name.
    assert not UNIT.name.startswith("k3s")


def test_it_is_started_again_unless_its_configuration_is_wrong() -> None:
    service = section("Service")

    # 2 is the exit code for input that cannot be used. After 75 it tries again: it takes over when the other one ends.
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("always", "2")


def test_it_runs_as_its_own_user_with_four_capabilities() -> None:
    service = section("Service")

    assert service["User"] == "edgeagent"
    wanted = {"CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE", "CAP_IPC_LOCK", "CAP_KILL"}
    assert set(service["AmbientCapabilities"].split()) == set(service["CapabilityBoundingSet"].split()) == wanted


@SYSTEMD
def test_the_user_and_its_groups_are_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()

    made = run("systemd-sysusers", f"--root={tmp_path}", FOLDER / "edgeagent.sysusers.conf")

    assert made.returncode == 0, made.stderr
    (row,) = [line for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("edgeagent:")]
    assert row.endswith(":edgeagent node agent:/:/usr/sbin/nologin")
    members = {
        name: users
        for name, _, _, users in (line.split(":") for line in (tmp_path / "etc/group").read_text().splitlines())
    }
    assert (members["video"], members["render"]) == ("edgeagent", "edgeagent")


@ROOT
def test_the_configuration_folder_is_made(tmp_path: Path) -> None:
    made = run("systemd-tmpfiles", f"--root={tmp_path}", "--create", FOLDER / "edgeagent.tmpfiles.conf")

    assert made.returncode == 0, made.stderr
    assert (tmp_path / "etc/edgeagent/config.d").is_dir()
    assert (tmp_path / "etc/edgeagent").stat().st_mode & 0o777 == 0o755
