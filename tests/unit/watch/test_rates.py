"""What happened between two readings of counters."""

from __future__ import annotations

from edgeagent.facts import CgroupOwner, Process
from edgeagent.facts.neighbours import DeviceActivity, Throttling
from edgeagent.watch.rates import HeldBack, busy, stalled, throttled
from tests.unit import factories
from tests.unit.watch.making import host as host_facts

POD, OTHER = "uid-a", "uid-b"


def test_the_share_of_periods_in_which_a_quota_was_used_up() -> None:
    before, now = {"": Throttling(1000, 100, 5.0)}, {"": Throttling(1050, 120, 6.5)}
    assert throttled(before, now) == HeldBack(0.4, Throttling(50, 20, 1.5))  # 20 of 50


def test_the_cgroup_held_back_most_speaks_for_the_pod() -> None:
    before = {"": Throttling(100, 0, 0.0), "c": Throttling(100, 10, 1.0), "d": Throttling(100, 0, 0.0)}
    now = {"": Throttling(150, 0, 0.0), "c": Throttling(150, 35, 2.0), "d": Throttling(150, 5, 0.25)}
    assert throttled(before, now) == HeldBack(0.5, Throttling(50, 25, 1.0))


def test_without_a_quota_there_is_nothing_to_be_held_back_by() -> None:
    assert throttled({"": Throttling(0, 0, 0.0)}, {"": Throttling(0, 0, 0.0)}) is None


def test_with_a_quota_and_nothing_to_do_it_was_not_held_back() -> None:
    same = {"": Throttling(100, 10, 1.0)}
    assert throttled(same, same) == HeldBack(0.0, Throttling(0, 0, 0.0))


def test_counters_that_went_backwards_say_nothing() -> None:
    assert throttled({"": Throttling(100, 10, 1.0)}, {"": Throttling(50, 5, 0.5)}) is None
    # A container that is new has nothing to compare; the pod's own cgroup goes on.
    before, now = {"": Throttling(100, 0, 0.0)}, {"": Throttling(110, 1, 0.1), "new": Throttling(9, 9, 0.9)}
    assert throttled(before, now) == HeldBack(0.1, Throttling(10, 1, 0.1))


def test_pressure_is_the_share_of_the_time() -> None:
    assert stalled({"cpu": 10.0, "io": 1.0}, {"cpu": 11.25, "io": 1.0}, 5.0) == {"cpu": 0.25, "io": 0.0}


def test_pressure_that_cannot_be_told_is_left_out() -> None:
    assert stalled({}, {"cpu": 5.0}, 5.0) == {}  # the first reading
    assert stalled({"cpu": 9.0}, {"cpu": 1.0}, 5.0) == {}  # made anew
    assert stalled({"cpu": 1.0}, {}, 5.0) == {}  # not told any more
    assert stalled({"cpu": 1.0}, {"cpu": 1.1}, 0.0) == {}
    # The clocks of kernel and agent differ a little.
    assert stalled({"cpu": 0.0}, {"cpu": 5.001}, 5.0) == {"cpu": 1.0}


def process(pid: int, pod: str | None) -> Process:
    return Process(pid=pid, start_ticks=1, name="x", owner=CgroupOwner(pod, None) if pod else None)


def test_a_pod_is_as_busy_as_its_processes_together_on_its_busiest_device() -> None:
    one = factories.card(uuid="GPU-1", compute=factories.processes((1, 0), (2, 0), (3, 0), (4, 0)))
    two = factories.card(uuid="GPU-2", compute=factories.processes((1, 0)))
    held = {pid: process(pid, pod) for pid, pod in ((1, POD), (2, POD), (3, OTHER), (4, None))}
    host = host_facts(nvml=factories.nvml(one, two), processes=held)
    devices = (
        DeviceActivity(uuid="GPU-1", processes={1: 0.25, 2: 0.5, 4: 0.25}),
        DeviceActivity(uuid="GPU-2", processes={1: 0.5}),
    )
    # POD: 0.25 + 0.5 on the first, 0.5 on the second. OTHER holds the first and ran nothing: 0, which is not unknown.
    assert busy(devices, host) == {POD: 0.75, OTHER: 0.0}


def test_where_the_driver_does_not_tell_no_pod_is_busy_or_idle() -> None:
    card = factories.card(uuid="GPU-1", compute=factories.processes((1, 0)))
    host = host_facts(nvml=factories.nvml(card), processes={1: process(1, POD)})
    assert busy((DeviceActivity(uuid="GPU-1", busy=0.5),), host) == {}
    assert busy((), host) == {}


def test_more_than_all_of_a_device_is_all_of_it() -> None:
    card = factories.card(uuid="GPU-1", compute=factories.processes((1, 0), (2, 0)))
    host = host_facts(nvml=factories.nvml(card), processes={1: process(1, POD), 2: process(2, POD)})
    assert busy((DeviceActivity(uuid="GPU-1", processes={1: 0.75, 2: 0.75}),), host) == {POD: 1.0}
