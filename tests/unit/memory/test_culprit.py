"""The largest process outside pods, by what it holds of the memory that host and GPU share."""

from __future__ import annotations

from edgeagent.facts import HostProcess, Process
from edgeagent.memory.culprit import Culprit, largest
from edgeagent.memory.types import Usage
from tests.unit.factories import GIB, MIB, Held, Run, Scene, card, container, igpu, nvml, pod, processes


def used(**gpu: int) -> Usage:
    """GPU bytes of processes outside pods, by ``p<pid>``."""
    by_pid = {int(name[1:]): held for name, held in gpu.items()}
    return Usage(pods={}, system_gpu=0, unattributed_gpu=0, leaving=0, gpu_total={}, system_processes=by_pid)


def process(pid: int, own: int | None, container_id: str | None = None) -> HostProcess:
    return HostProcess(pid=pid, name=f"p{pid}", bytes=own, container_id=container_id)


def test_gpu_memory_counts_as_much_as_its_own() -> None:
    # 300 MiB and 4 GiB by the driver are more than 4 GiB of its own.
    model, build = process(812, 300 * MIB), process(900, 4 * GIB)
    assert largest([build, model], used(p812=4 * GIB), ()) == Culprit(model, 4 * GIB)
    # 300 MiB and 3 GiB are less.
    assert largest([build, model], used(p812=3 * GIB), ()) == Culprit(build, 0)


def test_of_two_alike_the_smaller_pid() -> None:
    one, other = process(812, 5), process(90, 5)
    assert largest([one, other], used(), ()) == Culprit(other, 0)


def test_what_is_known_of_it_counts() -> None:
    model, build = process(812, None), process(900, 200 * MIB)
    assert largest([model, build], used(p812=300 * MIB), ()) == Culprit(model, 300 * MIB)
    assert largest([model, build], used(p812=100 * MIB), ()) == Culprit(build, 0)


def test_of_whom_nothing_is_known_is_not_accused() -> None:
    assert largest([process(812, None)], used(), ()) is None
    assert largest([], used(p812=GIB), ()) is None


def test_the_container_of_a_live_pod_is_no_host_process() -> None:
    a_pod = pod("a", containers=(container(container_id="c1"),))
    in_pod, other, outside = process(1, 30, "c1"), process(2, 20, "c2"), process(3, 10)
    assert largest([in_pod, other, outside], used(), (a_pod,)) == Culprit(other, 0)
    assert largest([in_pod, outside], used(), (a_pod,)) == Culprit(outside, 0)
    # That of a pod that is over is anybody's: no pod that is left has it. A container that has no id yet is none.
    over = pod("a", phase="Succeeded", containers=(container(container_id="c1"), container(container_id=None)))
    assert largest([in_pod, outside], used(), (over,)) == Culprit(in_pod, 0)
    starting = pod("a", containers=(container(container_id=None),))
    assert largest([outside], used(), (starting,)) == Culprit(outside, 0)


def test_the_attribution_says_which_process_outside_pods_holds_what() -> None:
    scene = Scene(
        pods=(pod("a", GIB),),
        held={"a": Held(gpu=700 * MIB)},
        system=64 * MIB,
        extra=((Process(pid=812, start_ticks=3, name="ollama"), 2 * GIB),),
    )
    # Not the pod's; 2651 is the scene's display server.
    assert Run().step(scene).usage.system_processes == {2651: 64 * MIB, 812: 2 * GIB}


def test_memory_of_a_card_is_not_the_hosts() -> None:
    # A mixed board: the card lists 812 with 5 GiB of its own memory, the iGPU lists it with 1 GiB of the board's.
    devices = nvml(igpu(compute=processes((812, GIB))), card(compute=processes((812, 5 * GIB))))
    scene = Scene(nvml=devices, extra=((Process(pid=812, start_ticks=3, name="ollama"), 0),))
    assert Run().step(scene).usage.system_processes == {812: GIB}
