"""The simulator against theory, and what it promises of runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sakura.bench.sim_clock import SimClock
from sakura.bench.sim_link import FluidLink
from sakura.bench.simulate import simulate
from sakura.bench.waste import wasted_bytes
from sakura.play.policy import POLICIES, create_policy
from sakura.store.link import LinkModel
from sakura.store.trace import Trace
from tests.bench.scenes import LINKS, MBPS, make_scene

FAST = Trace.constant(100 * MBPS)


class Load:
    """Ranges asked for at time 0, and when their bytes came."""

    def __init__(self, model: LinkModel, sizes: list[int], num_warm: int = 99) -> None:
        self.clock = SimClock()
        self.came: list[tuple[float, int, int]] = []
        link = FluidLink(self.clock, model, num_warm, tick_s=1.0)
        for number, size in enumerate(sizes):
            link.open(size, [size], lambda n, number=number: self._note(number, n))
        self.clock.pass_until(1e7)

    def _note(self, number: int, num_bytes: int) -> None:
        self.came.append((self.clock.now_s, number, num_bytes))

    def end_s(self, number: int) -> float:
        return max(time_s for time_s, own, _ in self.came if own == number)

    def by(self, time_s: float) -> int:
        return sum(num_bytes for at_s, _, num_bytes in self.came if at_s <= time_s)


sizes = st.lists(st.integers(1, 200_000), min_size=1, max_size=6)
powers = st.lists(st.one_of(st.none(), st.floats(5, 8)), min_size=1, max_size=8).filter(any)


@settings(max_examples=50, deadline=None)
@given(sizes, powers, st.sampled_from([0.0, 0.04, 0.5]))
def test_a_link_carries_its_trace_and_nothing_is_lost(
    sizes: list[int], powers: list[float | None], rtt_s: float
) -> None:
    times_s = tuple(0.2 * index for index in range(len(powers)))
    trace = Trace(times_s, tuple(0.0 if power is None else 10.0**power for power in powers))
    load = Load(LinkModel(trace, rtt_s), sizes)
    for number, size in enumerate(sizes):
        assert sum(n for _, own, n in load.came if own == number) == size
    before = trace.bytes_by(rtt_s / 2)  # passed while the requests were on their way
    for time_s, _, _ in load.came:
        assert load.by(time_s) <= trace.bytes_by(time_s - rtt_s / 2) - before + 1
    done_s = max(time_s for time_s, _, _ in load.came)
    assert done_s == pytest.approx(trace.time_of(before + sum(sizes)) + rtt_s / 2, abs=1e-5)


def test_ranges_share_the_rate_evenly() -> None:
    load = Load(LinkModel(Trace.constant(8e6), 0.1), [100_000, 300_000])
    assert load.end_s(0) == pytest.approx(0.1 + 0.2)
    assert load.end_s(1) == pytest.approx(0.1 + 0.4)


def test_a_connection_has_to_be_opened_first() -> None:
    load = Load(LinkModel(Trace.constant(8e6), 0.1), [100_000], num_warm=0)
    assert load.end_s(0) == pytest.approx(0.2 + 0.1)


def test_slow_start_doubles_with_every_round() -> None:
    load = Load(LinkModel(Trace.constant(8e9), 0.1, initial_window=10_000), [150_000])
    for num_rounds in range(1, 4):
        assert load.by(0.1 * num_rounds + 0.05) == 10_000 * (2**num_rounds - 1)
    assert load.end_s(0) == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_scene_gives_the_same_log(policy: str) -> None:
    scene = make_scene(LINKS["flapping"])
    first, second = (simulate(scene, create_policy(policy)) for _ in range(2))
    assert list(first.events) == list(second.events)
    assert first.report == second.report


def test_the_device_alone_takes_its_time_and_fetches_nothing() -> None:
    scene = make_scene(FAST)
    report = simulate(scene, create_policy("device")).report
    assert report.latency_s == pytest.approx(scene.device_s)
    assert (report.num_bytes, report.finished_by) == (0, "device")


def test_a_fetch_that_stays_silent_has_failed() -> None:
    """0.6 s, doubled five times, is 37.8 s; what waits for bytes then computes."""
    scene = make_scene(LINKS["outage from the start"], loop=False)
    report = simulate(scene, create_policy("wait")).report
    assert report.fetch_error == "no byte came for too long"
    assert report.finished_by == "device"
    assert 37.8 <= report.latency_s - scene.device_s <= 37.8 + 0.5


def test_a_run_can_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    from sakura.viz.timeline import timeline_png

    events = list(simulate(make_scene(LINKS["slow"]), create_policy("sakura")).events)
    assert timeline_png(events).startswith(b"\x89PNG")


def test_decoding_takes_the_decoder_time() -> None:
    scene = make_scene(FAST)
    slow = replace(scene, device=replace(scene.device, shard_s=0.05))
    policy = create_policy("sakura")
    assert simulate(slow, policy).report.latency_s > simulate(scene, policy).report.latency_s
    decodes = simulate(slow, policy).events.of("decode")
    assert all(e.t_s - e.data["start_s"] == pytest.approx(0.05) for e in decodes)
    starts = [e.data["start_s"] for e in decodes]
    assert all(b >= a + 0.05 - 1e-9 for a, b in pairwise(starts))


def test_an_ample_deadline_is_spent_on_fidelity() -> None:
    scene = make_scene(FAST, floor_db=33.0)
    hasty = simulate(scene, create_policy("sakura")).report
    assert hasty.injected_blocks > 0
    last_db = 0.0
    for share in (0.0, 0.7, 0.8, 0.9):
        deadline_s = share * scene.device_s
        report = simulate(replace(scene, deadline_s=deadline_s), create_policy("deadline")).report
        assert report.latency_s <= max(deadline_s, hasty.latency_s) + 1e-9
        assert report.predicted_db is not None and report.predicted_db >= last_db
        last_db = report.predicted_db
    idle = replace(scene, deadline_s=1.1 * scene.device_s)
    assert simulate(idle, create_policy("deadline")).report.finished_by == "device"


@pytest.mark.parametrize("name", LINKS)
def test_without_a_deadline_it_does_as_sakura(name: str) -> None:
    ours, same = (
        simulate(make_scene(LINKS[name]), create_policy(p)).events.of("decision")
        for p in ("sakura", "deadline")
    )
    assert ours == same


def test_bytes_are_wasted_that_no_block_was_given() -> None:
    slow, fast = make_scene(Trace.constant(0.1 * MBPS)), make_scene(FAST)
    policy = create_policy("sakura")
    unused = simulate(replace(slow, floor_db=60.0), policy)
    assert unused.report.injected_blocks == 0 < unused.report.num_bytes
    assert wasted_bytes(unused.events, slow.bundle.head) == unused.report.num_bytes
    whole = simulate(replace(fast, floor_db=33.0), create_policy("fixed"))
    assert whole.report.num_bytes > 0
    assert wasted_bytes(whole.events, fast.bundle.head) == 0
