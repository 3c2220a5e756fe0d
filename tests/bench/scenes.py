"""Scenes for the simulator: heads without data, synthetic links, and a device."""

from __future__ import annotations

from functools import cache

import numpy as np

from sakura.bench.sim_device import DeviceModel
from sakura.bench.simulate import Scene, SimBundle
from sakura.store.link import LinkModel
from sakura.store.trace import Trace
from tests.play.heads import make_head

NUM_STEPS, NUM_BLOCKS = 4, 6
STEP_S = 0.4
SIZES = [9_000, 30_000, 4_000, 60_000, 15_000, 2_000, 22_000]
MBPS = 1e6
FOREVER_S = 1e4


@cache
def bundle(num_levels: int = 3) -> SimBundle:
    """Twenty-four shards; every component belongs to its own step, and the first costs most."""
    head = make_head(NUM_STEPS, NUM_BLOCKS, SIZES, num_levels)
    eye = np.eye(NUM_STEPS, dtype=np.float32)
    return SimBundle(head, np.broadcast_to(eye, (NUM_BLOCKS, 2, NUM_STEPS, NUM_STEPS)))


def make_scene(
    trace: Trace, *, rtt_s: float = 0.04, loop: bool = True, floor_db: float = 35.0
) -> Scene:
    """An edit that takes 1.6 s on the device and has 480 KB of state."""
    device = DeviceModel.of_step(STEP_S, NUM_BLOCKS, 0.15)
    return Scene(bundle(), LinkModel(trace, rtt_s, loop), device, floor_db=floor_db)


def once(times_s: list[float], mbps: list[float], name: str) -> Trace:
    """Rates that do not come again within a test."""
    return Trace(tuple(times_s), tuple(MBPS * rate for rate in mbps), name, FOREVER_S)


LINKS = {
    trace.name: trace
    for trace in (
        Trace.constant(100 * MBPS, "fast"),
        Trace.constant(3 * MBPS, "slow"),
        once([0.0, 1e-9], [1.0, 0.0], "outage from the start"),
        once([0.0, 0.3], [4.0, 0.0], "outage mid-run"),
        Trace.constant(0.1 * MBPS, "100 kbit/s"),
        once([0.0, 0.2, 20.2], [4.0, 0.04, 4.0], "collapse"),
        Trace.constant(8.0, "one byte a second"),
        Trace((0.0, 0.3), (6 * MBPS, 0.0), "flapping", 0.6),
    )
}
