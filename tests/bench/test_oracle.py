"""The oracle is a lower bound, and its plans are the best there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sakura.bench.oracle import arrivals_of, best_plan, first_levels, ideal_s, play_oracle
from sakura.bench.sim_device import DeviceModel
from sakura.bench.simulate import Scene, SimBundle, simulate
from sakura.play.policy import POLICIES, OraclePolicy, create_policy
from sakura.store.link import LinkModel
from sakura.store.trace import Trace
from tests.bench.scenes import LINKS, MBPS, make_scene
from tests.play.heads import make_head

ROUNDING = 1e-6


@pytest.mark.parametrize("floor_db", [33.0, 36.0])
@pytest.mark.parametrize("name", [name for name in LINKS if name != "one byte a second"])
def test_no_policy_that_keeps_the_floor_is_faster(name: str, floor_db: float) -> None:
    scene = make_scene(LINKS[name], floor_db=floor_db)
    oracle = play_oracle(scene).report
    assert oracle.predicted_db is None or oracle.predicted_db >= floor_db - 1e-6
    for policy in POLICIES:
        report = simulate(scene, create_policy(policy)).report
        if report.predicted_db is None or report.predicted_db >= floor_db:
            assert oracle.latency_s <= report.latency_s + ROUNDING, policy
    assert ideal_s(scene, oracle.latency_s) <= oracle.latency_s + ROUNDING


def small_scene(mbps: float, floor_db: float) -> Scene:
    """Two steps of two blocks, components that belong to both."""
    head = make_head(2, 2, [20_000, 7_000, 3_000], 2)
    turn = np.array([[0.8, 0.6], [0.6, -0.8]], np.float32)
    bundle = SimBundle(head, np.broadcast_to(turn, (2, 2, 2, 2)))
    device = DeviceModel((0.1, 0.12), (0.03, 0.02))
    return Scene(bundle, LinkModel(Trace.constant(mbps * MBPS), 0.01), device, floor_db=floor_db)


def cost_at(scene: Scene, decodes: list[tuple[float, tuple[int, int, int]]], at: float) -> list:
    """Predicted error [step][block] at a time, None without the main component."""
    model, levels = scene.error_model(), first_levels(scene)
    for time_s, (block, component, level) in decodes:
        if time_s < at:
            levels[block, component] = max(level, levels[block, component])
    rows: list[list[float | None]] = []
    for step in range(2):
        rows.append([])
        for block in range(2):
            shares = model.share_SBC[step, block]
            main = int(np.argmax(shares * model.distortion_BCL[block, :, 0]))
            errors = [model.distortion_BCL[block, c, levels[block, c] + 1] for c in range(2)]
            has_main = levels[block, main] >= 0
            rows[step].append(float(shares @ errors) if has_main else None)
    return rows


@pytest.mark.parametrize("mbps", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("floor_db", [33.0, 36.0, 39.0])
def test_its_plan_is_that_of_trying_everything(mbps: float, floor_db: float) -> None:
    scene = small_scene(mbps, floor_db)
    arrivals = arrivals_of(scene, OraclePolicy(()))
    plan = best_plan(scene, arrivals)
    assert plan is not None
    decodes = list(zip(arrivals.times_s.tolist(), arrivals.layers, strict=True))
    grid = [0.002 * index for index in range(60)]  # pauses before the first injected block
    costs = {round(t, 3): cost_at(scene, decodes, t) for t in (0.001 * i for i in range(460))}
    compute, inject, best_s = scene.device.compute_s, scene.device.inject_s, scene.device_s
    for prefixes in product(range(3), repeat=2):
        pauses = [grid if prefix < 2 else [0.0] for prefix in prefixes]
        for chosen in product(*pauses):
            now_s, spent = 0.0, 0.0
            for step, (prefix, pause_s) in enumerate(zip(prefixes, chosen, strict=True)):
                now_s += sum(compute[:prefix]) + pause_s
                for block in range(prefix, 2):
                    cost = costs[round(now_s, 3)][step][block]
                    spent += np.inf if cost is None else cost
                    now_s += inject[block]
            if spent <= scene.error_model().budget:
                best_s = min(best_s, now_s)
    # The grid misses the best moment by less than its step in either step.
    assert best_s - 2 * 0.002 - 1e-6 <= plan.latency_s <= best_s + 1e-6


def test_it_ends_with_the_device_where_nothing_comes() -> None:
    scene = replace(make_scene(LINKS["outage from the start"]), floor_db=50.0)
    assert play_oracle(scene).report.latency_s == pytest.approx(scene.device_s)
