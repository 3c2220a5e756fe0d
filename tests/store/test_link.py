"""The bottleneck against the trace's integral: time is a number here, so every check is exact."""

from __future__ import annotations

import math
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.store.link import Bottleneck, Departure, LinkModel
from sakura.store.trace import Trace, load_trace

CAR = load_trace("ghent-car")


def drain(link: Bottleneck) -> list[Departure]:
    gone = []
    while link.current is not None:
        gone.append(link.depart())
    return gone


@given(st.floats(0, 400), st.integers(1, 500_000), st.sampled_from([1.0, 0.1, 0.006]))
def test_departures_are_the_integral(start_s: float, num_bytes: int, compression: float) -> None:
    """From any moment on, the n-th byte leaves when the trace has carried n bytes since then."""
    trace = CAR.scaled(time=compression)
    link = Bottleneck(LinkModel(trace, 0.05), start_s=100.0)
    start_s *= compression
    link.offer("a", num_bytes, 100.0 + start_s)
    before = trace.bytes_by(start_s)
    total = 0
    for gone in drain(link):
        total += gone.num_bytes
        passed = trace.bytes_by(gone.time_s - 100.0) - before
        assert passed == pytest.approx(total, rel=1e-6, abs=0.1)
    assert total == num_bytes


@given(st.integers(1000, 400_000), st.sampled_from([1.0, 0.01]))
def test_chunks_are_short(num_bytes: int, compression: float) -> None:
    """At a steady rate a chunk lasts a quantum: 2 ms, or a fiftieth of a compressed second."""
    trace = Trace((0.0, 1.0), (20e6, 10e6)).scaled(time=compression)
    model = LinkModel(trace, 0.05)
    assert model.quantum_s == pytest.approx(2e-3 if compression == 1 else 2e-4)
    link = Bottleneck(model, 0.0)
    link.offer("a", num_bytes, 0.0)
    for gone in drain(link):
        # At 10 Mbit/s the least chunk, 256 bytes, lasts 0.2 ms.
        assert gone.time_s - gone.start_s <= 2 * model.quantum_s + 1e-9


def test_flows_share_round_robin() -> None:
    link = Bottleneck(LinkModel(Trace.constant(20e6), 0.05), 0.0)
    for flow in "abc":
        link.offer(flow, 50_000, 0.0)
    sent = dict.fromkeys("abc", 0)
    largest = 20e6 * 2e-3 / 8
    for gone in drain(link):
        sent[str(gone.flow)] += gone.num_bytes
        assert max(sent.values()) - min(sent.values()) <= largest
    assert set(sent.values()) == {50_000}


def test_late_flow_gets_its_turn_at_once() -> None:
    link = Bottleneck(LinkModel(Trace.constant(20e6), 0.05), 0.0)
    link.offer("a", 1_000_000, 0.0)
    link.offer("b", 100, 0.0)
    assert [gone.flow for gone in drain(link)][:3] == ["a", "b", "a"]


def test_idle_time_is_lost() -> None:
    """An idle link saves nothing up, but a late call under backlog is not charged twice."""
    link = Bottleneck(LinkModel(Trace.constant(8e6), 0.05), 0.0)
    link.offer("a", 1000, 0.0)
    assert drain(link)[-1].time_s == pytest.approx(0.001)
    link.offer("a", 1000, 5.0)
    assert drain(link)[-1].time_s == pytest.approx(5.001)
    link.offer("a", 1000, 5.0005)
    assert drain(link)[-1].time_s == pytest.approx(5.002)


def test_outage_holds_bytes_and_loses_none() -> None:
    trace = Trace.outage(8e6, 1.0, 20.0, 60.0)
    link = Bottleneck(LinkModel(trace, 0.05), 0.0)
    link.offer("a", 100_000, 0.95)
    gone = drain(link)
    assert sum(one.num_bytes for one in gone) == 100_000
    assert not [one for one in gone if 1.0 + 1e-9 < one.time_s < 21.0]
    assert gone[-1].time_s == pytest.approx(21.05)


def test_dead_link_never_delivers() -> None:
    link = Bottleneck(LinkModel(Trace((0.0, 1.0), (8e6, 0.0)), 0.05, loop=False), 0.0)
    link.offer("a", 10, 2.0)
    assert link.current is not None
    assert link.current.time_s == math.inf


def test_window_is_the_pipe_and_the_queue() -> None:
    trace = Trace((0.0, 1.0), (40e6, 20e6))
    assert LinkModel(trace, 0.05).window_bytes == pytest.approx(
        (40e6 * 0.054 + 30e6 * 0.05) / 8, abs=1
    )
    assert LinkModel(trace, 0.05, queue_s=0.0).window_bytes == pytest.approx(
        40e6 * 0.054 / 8, abs=1
    )
    assert LinkModel(Trace.constant(1e6), 0.0).window_bytes == 4096


@pytest.mark.parametrize("rtt_s", [0.0, 1e-4, 1e-3, 0.05])
@pytest.mark.parametrize("rate_bps", [1e6, 30e6, 500e6])
def test_one_flow_fills_the_link(rtt_s: float, rate_bps: float) -> None:
    """A window's worth in flight, sent again as it is acknowledged, never lets the link run dry."""
    model = LinkModel(Trace.constant(rate_bps), rtt_s)
    link = Bottleneck(model, 0.0)
    link.offer("a", model.window_bytes, 0.0)
    in_flight: deque[Departure] = deque()
    num_sent = 0
    for _ in range(500):
        assert link.current is not None, "ran dry"
        while in_flight and in_flight[0].time_s + rtt_s <= link.current.time_s:
            gone = in_flight.popleft()
            link.offer("a", gone.num_bytes, gone.time_s + rtt_s)
        in_flight.append(link.depart())
        num_sent += in_flight[-1].num_bytes
        assert in_flight[-1].time_s == pytest.approx(num_sent * 8 / rate_bps, rel=1e-6)
