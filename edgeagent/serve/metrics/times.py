"""When something last went well: an age that keeps growing shows what a frozen value hides."""

from __future__ import annotations

from edgeagent.serve.metrics.families import Families, Moment, gauge


def families(moment: Moment) -> Families:
    """Times of the last success, as Unix seconds."""
    shown = moment.shown
    sampled = moment.unix(shown.at) if shown.plan is not None else None
    yield gauge("sample_timestamp_seconds", "When the last complete sample was taken.", [((), sampled)])
    turns = [((name,), moment.unix(loop.beat_at)) for name, loop in sorted(shown.loops.items())]
    yield gauge("loop_last_turn_timestamp_seconds", "When a loop last completed a turn.", turns, "loop")
    yield from _readings(moment)
    yield from _cluster(moment)


def _readings(moment: Moment) -> Families:
    readings = sorted(moment.shown.readings.items())
    taken = [((name,), moment.unix(reading.succeeded_at)) for name, reading in readings]
    yield gauge(
        "reading_last_success_timestamp_seconds", "When a source of the board last gave a value.", taken, "reading"
    )
    states = [((name,), reading.stale(moment.now)) for name, reading in readings]
    yield gauge("reading_stale", "1 while the last value of a source is too old to be used.", states, "reading")


def _cluster(moment: Moment) -> Families:
    cluster = moment.shown.cluster
    if cluster is None:
        return
    answered = [((), moment.unix(cluster.succeeded_at))]
    yield gauge("api_last_success_timestamp_seconds", "When the API server last gave a good answer.", answered)
    seen = [((), moment.unix(cluster.fresh_at) if cluster.complete else None)]
    yield gauge("view_timestamp_seconds", "Up to when the view of the cluster is known to be current.", seen)
    yield gauge("published", "1 once the node carries the planned values.", [((), cluster.published)])
