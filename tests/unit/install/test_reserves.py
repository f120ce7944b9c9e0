"""``--k3s-reserves``: what K3s is told is what its settings are then read as, and nothing of others is lost."""

from __future__ import annotations

import pytest
import yaml

from edgeagent import config
from edgeagent.errors import InputError
from edgeagent.host import k3s
from edgeagent.host.files import RootFiles
from edgeagent.install import reserves
from edgeagent.plan.messages import kubelet_args
from edgeagent.plan.types import Plan
from edgeagent.snapshot import live
from tests.cluster.recorded import recorded_board
from tests.unit.install.machine import K3S_RESERVES, OUR_RESERVES, Machine

K3S_CONFIG = "etc/rancher/k3s/config.yaml"
DROP_INS = "etc/rancher/k3s/config.yaml.d"


def arguments(machine: Machine) -> list[str]:
    """The lines of the file that K3s reads."""
    found: list[str] = yaml.safe_load(machine.read(K3S_RESERVES))["kubelet-arg+"]
    return found


def read(machine: Machine) -> tuple[str | None, ...]:
    """What the agent reads of K3s' settings: system-reserved, kube-reserved, eviction-hard."""
    found = k3s.settings(RootFiles(machine.root))
    settings = (found.system_reserved, found.kube_reserved, found.eviction_hard)
    assert found.problems == ()
    return tuple(setting[0] if setting else None for setting in settings)


def plan(machine: Machine) -> Plan:
    """What the agent would publish, with its own configuration."""
    settings = config.load(reserves.configuration(machine.root))
    _, found = live.look(settings, live.Source(host_root=machine.root, nvml_replay=recorded_board() / "nvml.json"))
    return found


# The board: total 7619.9 MiB; os 768, k3s 512, cma 256, headroom 256.
def test_the_kubelet_gets_our_reserves_and_the_cma_pages_with_those_of_the_system(machine: Machine) -> None:
    machine.install(k3s_reserves=True)

    assert arguments(machine) == [
        "system-reserved=memory=1024Mi",
        "kube-reserved=memory=512Mi",
        "eviction-hard=memory.available<256Mi,nodefs.available<5%,imagefs.available<5%",
    ]
    assert read(machine) == ("1024Mi", "512Mi", "256Mi")
    assert yaml.safe_load(machine.read(OUR_RESERVES)) == {"reserves": {"cma": 0}}


def test_they_are_the_lines_that_explain_prints(machine: Machine) -> None:
    (pool,) = plan(machine).pools
    machine.install(k3s_reserves=True)

    printed = [line.strip() for line in kubelet_args(pool).splitlines()]
    assert [line for line in printed if line.startswith("- ")] == [f'- "{line}"' for line in arguments(machine)]


def test_the_pool_stays_as_large_as_it_was(machine: Machine) -> None:
    before = plan(machine).node.capacity
    machine.install(k3s_reserves=True)

    after = plan(machine)
    # 7619 - (768 + 512 + 256 + 256) = 5827
    assert before["edgeagent.dev/gpu-memory"] == after.node.capacity["edgeagent.dev/gpu-memory"] == "5827Mi"
    lines = {line.name: (line.bytes >> 20, line.origin) for line in after.pools[0].reserves}
    assert lines["os"] == (1024, "kubelet")
    assert lines["cma"] == (0, "config")


def test_k3s_has_to_be_restarted_and_is_not(machine: Machine) -> None:
    report = machine.install(k3s_reserves=True)

    assert any("systemctl restart k3s-agent" in line for line in report.next)
    assert any("5827Mi" in line for line in report.next)
    assert not any("k3s" in call for call in machine.programs.calls)


def test_the_second_time_there_is_nothing_to_do(machine: Machine) -> None:
    machine.install(k3s_reserves=True)
    before = machine.files()

    report = machine.install(k3s_reserves=True)

    assert (report.done, report.next, machine.files()) == ([], [], before)


def test_a_running_service_takes_the_new_configuration_up(machine: Machine) -> None:
    machine.install()
    machine.programs.calls.clear()

    machine.install(k3s_reserves=True)

    assert machine.programs.calls == ["systemctl reload edgeagent.service"]


def test_a_smaller_reserve_of_ours_is_not_held_up_by_the_figure_of_the_last_time(machine: Machine) -> None:
    machine.install(k3s_reserves=True)
    machine.write("etc/edgeagent/config.yaml", "reserves: {os: 512Mi}\n")

    machine.install(k3s_reserves=True)

    # 512 + 256 of CMA
    assert arguments(machine)[0] == "system-reserved=memory=768Mi"


def test_reserves_that_others_gave_the_kubelet_are_kept(machine: Machine) -> None:
    machine.write(
        K3S_CONFIG,
        "node-name: orin-1\n"
        "kubelet-arg:\n"
        "  - max-pods=20\n"
        "  - system-reserved=cpu=500m,memory=2Gi\n"
        "  - eviction-hard=nodefs.available<10%,pid.available<5%\n",
    )

    machine.install(k3s_reserves=True)

    # The larger of ours and the kubelet's counts for os: 2 GiB, and 256 MiB of CMA beside it.
    assert arguments(machine) == [
        "system-reserved=memory=2304Mi,cpu=500m",
        "kube-reserved=memory=512Mi",
        "eviction-hard=memory.available<256Mi,nodefs.available<10%,pid.available<5%",
    ]
    assert read(machine) == ("2304Mi", "512Mi", "256Mi")
    assert "max-pods=20" in machine.read(K3S_CONFIG)
    told = k3s.arguments(RootFiles(machine.root))
    assert told is not None
    assert told.maps["eviction-hard"] == {
        "memory.available": "256Mi",
        "nodefs.available": "10%",
        "pid.available": "5%",
    }


def test_thresholds_in_the_kubelets_own_files_are_repeated_because_a_flag_replaces_them(machine: Machine) -> None:
    machine.write(
        "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf",
        "evictionHard: {imagefs.available: 7%, nodefs.available: 8%}\nsystemReserved: {cpu: 250m}\n",
    )

    machine.install(k3s_reserves=True)

    assert arguments(machine) == [
        "system-reserved=memory=1024Mi,cpu=250m",
        "kube-reserved=memory=512Mi",
        "eviction-hard=memory.available<256Mi,imagefs.available<7%,nodefs.available<8%",
    ]


def test_a_later_file_that_would_take_them_back_is_a_refusal(machine: Machine) -> None:
    machine.write(f"{DROP_INS}/95-site.yaml", "kubelet-arg:\n  - max-pods=20\n")

    with pytest.raises(InputError, match=r"write kubelet-arg\+ there"):
        machine.install(k3s_reserves=True)

    assert not machine.has(K3S_RESERVES)
    assert not machine.has(OUR_RESERVES)


def test_a_command_line_that_would_win_is_a_refusal_that_names_it(machine: Machine) -> None:
    machine.write(
        "etc/systemd/system/k3s-agent.service",
        "[Service]\nExecStart=/usr/local/bin/k3s agent --kubelet-arg=system-reserved=memory=100Mi\n",
    )

    with pytest.raises(
        InputError, match=r"system-reserved would stay at 100Mi, as /etc/systemd/system/k3s-agent\.serv"
    ):
        machine.install(k3s_reserves=True)


def test_an_edited_file_of_k3s_that_does_not_have_the_cma_pages_keeps_both_from_being_written(machine: Machine) -> None:
    machine.install(k3s_reserves=True)
    (machine.root / OUR_RESERVES).unlink()
    edited = machine.read(K3S_RESERVES).replace("memory=1024Mi", "memory=300Mi")
    machine.write(K3S_RESERVES, edited)

    with pytest.raises(InputError, match=r"system-reserved would stay at 300Mi.*reserves.yaml was edited.*--force"):
        machine.install(k3s_reserves=True)

    assert not machine.has(OUR_RESERVES)
    assert machine.read(K3S_RESERVES) == edited
    machine.install(k3s_reserves=True, force=True)
    assert read(machine) == ("1024Mi", "512Mi", "256Mi")
    assert yaml.safe_load(machine.read(OUR_RESERVES)) == {"reserves": {"cma": 0}}


def test_an_edited_file_of_ours_without_cma_keeps_both_from_being_written(machine: Machine) -> None:
    machine.install(k3s_reserves=True)
    (machine.root / K3S_RESERVES).unlink()
    machine.write(OUR_RESERVES, machine.read(OUR_RESERVES).replace("cma: 0", "cma: 256Mi"))

    with pytest.raises(InputError, match="was edited"):
        machine.install(k3s_reserves=True)

    assert not machine.has(K3S_RESERVES)


def test_an_edit_that_changes_no_figure_is_kept(machine: Machine) -> None:
    machine.install(k3s_reserves=True)
    (machine.root / OUR_RESERVES).unlink()
    machine.write(K3S_RESERVES, machine.read(K3S_RESERVES) + "# mine\n")

    machine.install(k3s_reserves=True)

    assert machine.read(K3S_RESERVES).endswith("# mine\n")
    assert machine.has(OUR_RESERVES)


def test_k3s_is_told_before_its_part_is_no_longer_subtracted(machine: Machine) -> None:
    # The other order, cut in the middle, would hand the pages of CMA out.
    report = machine.install(k3s_reserves=True)

    written = [line for line in report.done if "reserves.yaml" in line]
    assert written == [f"wrote /{K3S_RESERVES}", f"wrote /{OUR_RESERVES}"]


def test_cma_that_is_set_in_a_later_file_of_ours_would_count_twice(machine: Machine) -> None:
    machine.write("etc/edgeagent/config.d/95-site.yaml", "reserves: {cma: 128Mi}\n")

    with pytest.raises(InputError, match=r"reserves\.cma"):
        machine.install(k3s_reserves=True)


def test_k3s_with_another_configuration_file_gets_it_there(machine: Machine) -> None:
    machine.write(
        "etc/systemd/system/k3s-agent.service",
        "[Service]\nExecStart=/usr/local/bin/k3s agent --config=/srv/k3s/agent.yaml\n",
    )

    machine.install(k3s_reserves=True)

    assert machine.has("srv/k3s/agent.yaml.d/90-edgeagent-reserves.yaml")
    assert not machine.has(K3S_RESERVES)
    assert read(machine) == ("1024Mi", "512Mi", "256Mi")


def test_without_k3s_there_is_nobody_to_tell(machine: Machine) -> None:
    (machine.root / "var/lib/rancher").rename(machine.root / "var/lib/other")

    with pytest.raises(InputError, match="no K3s"):
        machine.install(k3s_reserves=True)

    assert not machine.has("etc/systemd/system/edgeagent.service")


def test_a_board_that_shares_no_memory_has_nothing_to_tell(machine: Machine) -> None:
    machine.write("etc/edgeagent/config.yaml", "unified: {detect: 'no'}\n")

    with pytest.raises(InputError, match="CPU and GPU share"):
        machine.install(k3s_reserves=True)
