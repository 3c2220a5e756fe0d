"""The default policy is never much slower than the device alone, whatever the network does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sakura.bench.devices import StepCost, phone_step, scale_link
from sakura.bench.sim_device import DeviceModel
from sakura.bench.simulate import Scene, simulate
from sakura.play.deadlines import BlockTimes
from sakura.play.policy import create_policy
from sakura.store.link import LinkModel
from sakura.store.trace import Trace, load_trace, trace_names
from tests.bench.scenes import FOREVER_S, LINKS, MBPS, NUM_BLOCKS, STEP_S, bundle, make_scene

MOST = 1.03
"""Of the device's own latency."""
RATES = [0.3, 1.0, 3.0, 10.0, 30.0]


def over_device(scene: Scene, policy: str = "sakura") -> float:
    return simulate(scene, create_policy(policy)).report.latency_s / scene.device_s


@pytest.mark.parametrize("policy", ["sakura", "deadline"])
@pytest.mark.parametrize("name", LINKS)
def test_on_synthetic_links(name: str, policy: str) -> None:
    assert over_device(make_scene(LINKS[name]), policy) <= MOST


@pytest.mark.parametrize("mbps", RATES)
@pytest.mark.parametrize("rtt_s", [0.001, 0.3, 2.0])
def test_with_a_long_way_to_the_origin(mbps: float, rtt_s: float) -> None:
    assert over_device(make_scene(Trace.constant(mbps * MBPS), rtt_s=rtt_s)) <= MOST


@pytest.mark.parametrize("mbps", RATES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1])
def test_when_the_rate_collapses_at_any_time(mbps: float, share: float) -> None:
    for tenth in range(1, 16):
        start_s = tenth / 10
        rates = (mbps * MBPS, share * mbps * MBPS, mbps * MBPS)
        trace = Trace((0.0, start_s, start_s + 20), rates, "collapse", FOREVER_S)
        assert over_device(make_scene(trace)) <= MOST, start_s


@pytest.mark.parametrize("name", trace_names())
def test_on_shipped_traces(name: str) -> None:
    raw_bytes = bundle().head.num_bytes / bundle().num_steps
    scale = scale_link(StepCost(STEP_S, raw_bytes), phone_step("klein-4b@adreno-830"))
    trace = scale.trace(load_trace(name))
    for part in (0.0, 0.3, 0.6):
        for rtt_s in (0.04, 0.5):
            scene = make_scene(trace, rtt_s=scale.rtt_s(rtt_s))
            assert over_device(replace(scene, start_s=part * trace.duration_s)) <= MOST


rates = st.lists(st.floats(-2, 1.5), min_size=2, max_size=30).filter(lambda row: max(row) > -2)


@settings(max_examples=60, deadline=None)
@given(
    powers=rates,
    piece_s=st.sampled_from([0.02, 0.1, 0.3]),
    rtt_s=st.sampled_from([0.0, 0.04, 0.5]),
    mask_ratio=st.sampled_from([0.05, 0.15, 0.5]),
    floor_db=st.sampled_from([32.0, 35.0, 38.0]),
)
def test_on_links_that_do_as_they_please(
    powers: list[float], piece_s: float, rtt_s: float, mask_ratio: float, floor_db: float
) -> None:
    times_s = tuple(piece_s * index for index in range(len(powers)))
    bps = tuple(0.0 if power <= -2 else MBPS * 10**power for power in powers)
    device = DeviceModel.of_step(STEP_S, NUM_BLOCKS, mask_ratio)
    link = LinkModel(Trace(times_s, bps), rtt_s)
    assert over_device(Scene(bundle(), link, device, floor_db=floor_db)) <= MOST


def known_times(device: DeviceModel) -> BlockTimes:
    """What an earlier edit has measured."""
    times = BlockTimes(NUM_BLOCKS)
    for block in range(NUM_BLOCKS):
        times.observe(block, "compute", device.compute_s[block])
        times.observe(block, "inject", device.inject_s[block])
    return times


def test_when_the_link_dies_as_soon_as_a_wait_begins() -> None:
    """The device is one on which waits pay most: active tokens alone cost next to nothing."""
    block_s = STEP_S / NUM_BLOCKS
    device = DeviceModel((block_s,) * NUM_BLOCKS, (0.1 * block_s,) * NUM_BLOCKS)
    policy, ratios = create_policy("sakura"), []
    for power in range(60):
        rate_bps = MBPS * 1.1**power
        for floor_db in (33.0, 35.0, 37.0):
            link = LinkModel(Trace.constant(rate_bps), 0.001)
            scene = Scene(bundle(), link, device, floor_db=floor_db)
            stalls = simulate(scene, policy, known_times(device)).events.of("stall")
            for stall in stalls[:1]:
                cut_s = stall.data["start_s"] + 1e-6
                dying = Trace((0.0, cut_s), (rate_bps, 0.0), "dying", FOREVER_S)
                dead = replace(scene, link=replace(link, trace=dying))
                report = simulate(dead, policy, known_times(device)).report
                ratios.append(report.latency_s / scene.device_s)
                assert report.stall_s > 0
    assert len(ratios) >= 10  # there were waits
    assert max(ratios) <= MOST
