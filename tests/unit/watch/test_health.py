"""The board's health from what its sources say."""

from __future__ import annotations

from edgeagent.facts.neighbours import DeviceActivity
from edgeagent.facts.vitals import BoardReadings, Vitals
from edgeagent.watch.health import Jtop, vitals

NOTHING = BoardReadings()


def test_a_board_that_tells_nothing_is_not_a_board_that_is_well() -> None:
    assert vitals(7.0, NOTHING, None, ()) == Vitals(at=7.0)
    assert Vitals(at=7.0).throttled is None


def test_cooling_that_slows_something_down_is_throttling() -> None:
    cool = BoardReadings(cooling=(("cpufreq-cpu0", 0), ("gpu-throttle-alert", 0)))
    hot = BoardReadings(cooling=(("cpufreq-cpu0", 2), ("cpufreq-cpu4", 1), ("gpu-throttle-alert", 1)))
    assert vitals(0.0, cool, None, ()).throttled is False
    found = vitals(0.0, hot, None, ())
    assert (found.throttled, found.throttle_reasons) == (True, ("cpufreq", "gpu-throttle-alert"))


def test_alarms_of_the_supply_count_while_their_counters_rise() -> None:
    before, now = BoardReadings(over_current=(("oc1", 0), ("oc3", 37))), BoardReadings(over_current=(("oc3", 41),))
    assert vitals(0.0, now, None, ()).throttled is None  # what was counted since boot may be long over
    assert vitals(0.0, now, before, ()).throttle_reasons == ("over-current-oc3",)
    assert vitals(0.0, now, now, ()).throttled is False
    fewer = BoardReadings(over_current=(("oc3", 1),))
    assert vitals(0.0, fewer, now, ()).throttled is False


def test_what_the_driver_says_of_clocks_counts_too() -> None:
    device = DeviceActivity(uuid="GPU-1", minor=3, busy=0.5, celsius=61.0, held_back=("power-cap",))
    found = vitals(0.0, NOTHING, None, (device,))
    assert found == Vitals(
        at=0.0,
        temperatures=(("nvidia3", 61.0),),
        throttled=True,
        throttle_reasons=("gpu-power-cap",),
        busy={"GPU-1": 0.5},
        source="files, nvml",
    )
    assert vitals(0.0, NOTHING, None, (DeviceActivity(uuid="GPU-1", held_back=()),)).throttled is False
    assert vitals(0.0, NOTHING, None, (DeviceActivity(uuid="GPU-1"),)).throttled is None


def test_a_tegra_s_own_gpu_has_no_uuid() -> None:
    found = vitals(0.0, BoardReadings(gpu_busy=0.413), None, (DeviceActivity(uuid="GPU-1"),))
    assert found.busy == {"tegra": 0.413}


def test_jetson_stats_fills_in_what_files_do_not_tell() -> None:
    told = Jtop(power_mode="25W", temperatures={"cpu-thermal": 99.0, "tj": 50.0}, fan=0.9)
    files = BoardReadings(power_mode="MAXN", temperatures=(("cpu-thermal", 49.0), ("cv0-thermal", None)), fan=0.4)
    found = vitals(0.0, files, None, (), told)
    assert (found.power_mode, found.fan_ratio, found.source) == ("MAXN", 0.4, "files, jtop")
    assert found.temperatures == (("cpu-thermal", 49.0), ("cv0-thermal", None), ("tj", 50.0))
    alone = vitals(0.0, NOTHING, None, (), told)
    assert (alone.power_mode, alone.fan_ratio) == ("25W", 0.9)
    # It says nothing of throttling.
    assert alone.throttled is None


def test_it_is_told_for_thirty_five_seconds() -> None:
    assert not Vitals(at=100.0).stale(135.0)
    assert Vitals(at=100.0).stale(135.1)
