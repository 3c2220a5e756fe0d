"""Bars and curves of hand-written logs."""

from __future__ import annotations

from itertools import pairwise

from sakura.events import Event
from sakura.viz.lanes import (
    Bar,
    block_bars,
    curve,
    decode_bars,
    end_s,
    fault_times,
    fetch_bars,
    level_curve,
    stacked,
    stall_bars,
    step_starts,
)
from tests.viz.fake_run import fake_run


def test_overlapping_bars_get_lanes_of_their_own() -> None:
    bars = [Bar(0, 4, "fetch"), Bar(1, 2, "fetch"), Bar(2, 3, "fetch"), Bar(3.5, 5, "fetch")]
    assert [bar.lane for bar in stacked(bars)] == [0, 1, 1, 1]


def test_no_two_bars_of_a_lane_overlap() -> None:
    bars = fetch_bars(fake_run())
    for lane in {bar.lane for bar in bars}:
        row = [bar for bar in bars if bar.lane == lane]
        assert all(a.end_s <= b.start_s for a, b in pairwise(row))


def test_a_fetch_that_never_ended_reaches_to_the_end() -> None:
    log = [
        Event(1.0, "fetch_start", {"fetch": 0, "start": 0, "stop": 9}),
        Event(1.5, "fetch_start", {"fetch": 1, "start": 9, "stop": 18}),
        Event(2.0, "fetch_end", {"fetch": 1, "num_bytes": 9, "ok": False, "reason": "cut"}),
        Event(3.0, "run_end", {"latency_s": 3.0}),
    ]
    assert fetch_bars(log) == [Bar(1.0, 3.0, "fetch", lane=0), Bar(1.5, 2.0, "failed", lane=1)]


def test_a_log_that_was_cut_short_ends_with_its_last_event() -> None:
    assert end_s([Event(0.5, "buffer", {"buffer_s": 0.0})]) == 0.5
    assert end_s([]) == 0.0


def test_blocks_layers_stalls_and_steps() -> None:
    log = [
        Event(0.2, "decode", {"block": 0, "component": 1, "level": 2, "start_s": 0.1}),
        Event(0.4, "stall", {"step": 0, "block": 0, "start_s": 0.3}),
        Event(
            0.5, "block", {"step": 0, "block": 0, "mode": "compute", "level": -1, "start_s": 0.4}
        ),
        Event(0.7, "block", {"step": 0, "block": 1, "mode": "inject", "level": 3, "start_s": 0.6}),
        Event(0.8, "step", {"step": 0, "start_s": 0.25}),
    ]
    assert decode_bars(log) == [Bar(0.1, 0.2, "decode", 2)]
    assert stall_bars(log) == [Bar(0.3, 0.4, "stall")]
    assert block_bars(log) == [Bar(0.4, 0.5, "compute", -1), Bar(0.6, 0.7, "inject", 3)]
    assert step_starts(log) == [(0, 0.25)]
    assert level_curve(log).values == (3.0,)


def test_curves_scale_and_faults_are_found() -> None:
    log = [
        Event(0.1, "throughput", {"bps": 2e6}),
        Event(0.2, "fault", {"source": "fetch", "reason": "reset", "is_final": False}),
    ]
    assert curve(log, "throughput", "bps", 1e-6).values == (2.0,)
    assert curve(log, "buffer", "buffer_s").times_s == ()
    assert fault_times(log) == [0.2]
