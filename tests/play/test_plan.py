"""Costs of injecting, the budget rule, and when waiting pays."""

from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.format.manifest import Codec
from sakura.play.plan import Wait, budget_of, error_model, fits
from tests.play.heads import make_head, model_of

costs = st.floats(0, 1, allow_subnormal=False)


def test_cost_of_all_steps_is_the_manifests_distortion() -> None:
    head = make_head(3, 2, [10], 2)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2, 3, 3)))[0]
    model = error_model(head.manifest, rotation.astype(np.float32), 40.0)
    for level in (-1, 0, 1):
        levels = np.full((2, 3), level)
        total = sum(model.block_costs(step, levels).sum() for step in range(3))
        expected = sum(
            shard.energy if level < 0 else shard.layers[level].distortion
            for shard in head.manifest.shards
        )
        assert total == pytest.approx(expected)


def test_step_share_of_the_manifest_moves_cost_between_steps() -> None:
    head = make_head(2, 1, [10], 1)
    note = Codec(id="x", profile_digest="0" * 32, parameters={"step_share": [0.1, 0.9]})
    manifest = msgspec.structs.replace(head.manifest, codec=note)
    half = np.full((1, 2, 2, 2), np.sqrt(0.5), np.float32) * np.array([[1, 1], [1, -1]])
    model = error_model(manifest, half.astype(np.float32), 40.0)
    levels = np.zeros((1, 2), int)
    early, late = (float(model.block_costs(step, levels).sum()) for step in range(2))
    assert late == pytest.approx(9 * early)


def test_component_of_one_step_costs_only_there() -> None:
    model = model_of(make_head(3, 2, [10], 1), 40.0)
    levels = np.zeros((2, 3), int)
    levels[:, 1] = -1
    base = np.zeros((2, 3), int)
    changed = [
        not np.allclose(model.block_costs(s, levels), model.block_costs(s, base)) for s in range(3)
    ]
    assert changed == [False, True, False]


def test_gains_are_the_differences_of_costs() -> None:
    model = model_of(make_head(2, 2, [10], 3), 40.0)
    before, after = np.zeros((2, 2), int), np.zeros((2, 2), int)
    after[1, 0] = 1
    gains = model.gains([(1, 0, 1)])[:, 0]
    for step in range(2):
        fall = model.block_costs(step, before).sum() - model.block_costs(step, after).sum()
        assert gains[step] == pytest.approx(fall)


def test_budget_is_the_error_at_the_floor() -> None:
    assert budget_of(40.0) == pytest.approx(1e-4)
    assert budget_of(30.0) == pytest.approx(1e-3)


@given(own=costs, gain=st.floats(0.1, 1), later=st.lists(costs, max_size=8), budget=costs)
def test_fitting_gets_easier_with_less_cost_and_more_budget(
    own: float, gain: float, later: list[float], budget: float
) -> None:
    if fits(own, gain, later, budget):
        assert own <= budget
        assert fits(own / 2, gain, later, budget)
        assert fits(own, gain, later, 2 * budget)
        assert fits(own, 1.0, later, budget)


@given(st.lists(costs, min_size=1, max_size=6, unique=True), st.floats(0, 3))
def test_rule_injects_as_many_steps_as_any_choice_could(own: list[float], budget: float) -> None:
    """Steps whose costs are known: deciding one after the other is as good as choosing freely."""
    left, num_injected = budget, 0
    for step, cost in enumerate(own):
        if fits(cost, 1.0, own[step + 1 :], left):
            left -= cost
            num_injected += 1
    best = max(
        size
        for size in range(len(own) + 1)
        for chosen in combinations(own, size)
        if sum(chosen) <= budget + 1e-12 or not chosen
    )
    assert num_injected >= best - (sum(sorted(own)[:best]) > budget - 1e-9)
    assert left >= -1e-12


@given(
    arrival_s=st.floats(0, 1),
    full_s=st.floats(1e-4, 0.1),
    ratio=st.floats(0, 1),
    num_blocks=st.integers(1, 50),
)
def test_a_wait_that_pays_ends_before_computing_would(
    arrival_s: float, full_s: float, ratio: float, num_blocks: int
) -> None:
    wait = Wait(arrival_s, full_s, full_s * ratio, num_blocks)
    waited_s = arrival_s + num_blocks * wait.active_s
    # Computing: full blocks until the arrival, the active tokens alone afterwards.
    num_full = min(num_blocks, int(np.ceil(arrival_s / full_s)))
    computed_s = num_full * full_s + (num_blocks - num_full) * wait.active_s
    if wait.pays:
        assert waited_s < computed_s
        assert wait.saving_s <= num_blocks * full_s


def test_a_wait_without_end_never_pays() -> None:
    assert not Wait(float("inf"), 0.01, 0.001, 6).pays
    assert not Wait(0.0, 0.0, 0.0, 6).pays
    assert Wait(0.001, 0.01, 0.003, 6).pays
