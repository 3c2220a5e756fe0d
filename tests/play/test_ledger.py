"""The ledger against the error model it keeps up with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.play.ledger import Ledger
from sakura.play.plan import ErrorModel, error_model
from tests.play.heads import make_head, model_of

STEPS, BLOCKS, LEVELS = 3, 2, 3


def mixed_model() -> ErrorModel:
    """Every component is in every step."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(BLOCKS, 2, STEPS, STEPS)))[0]
    head = make_head(STEPS, BLOCKS, [10], LEVELS)
    return error_model(head.manifest, basis.astype(np.float32), 40.0)


moves = st.lists(
    st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, STEPS - 1), st.integers(0, LEVELS - 1)),
    max_size=12,
)


@given(moves)
def test_costs_follow_the_model(moves: list[tuple[int, int, int]]) -> None:
    model = mixed_model()
    ledger = Ledger(model, np.full((BLOCKS, STEPS), -1))
    levels = np.full((BLOCKS, STEPS), -1)
    for block, component, level in moves:
        rise = ledger.raise_level(block, component, level)
        assert rise == max(0, level - levels[block, component])
        levels[block, component] = max(level, levels[block, component])
    np.testing.assert_array_equal(ledger.levels, levels)
    for step in range(STEPS):
        costs = model.block_costs(step, levels)
        for block in range(BLOCKS):
            assert ledger.cost(step, block) == pytest.approx(costs[block])
            assert ledger.rest_cost(step, block) == pytest.approx(costs[block:].sum())
            assert ledger.is_complete(step, block) == (levels[block] > -1).all()
            missing = np.flatnonzero(levels[block] == -1).tolist()
            assert ledger.missing(step, block) == missing


def test_a_step_has_state_once_every_blocks_main_component_is_there() -> None:
    ledger = Ledger(model_of(make_head(3, 2, [10], 1), 40.0), np.full((2, 3), -1))
    ledger.raise_level(1, 2, 0)
    assert (ledger.has_state(2, 1), ledger.has_state(2, 0)) == (True, False)
    assert ledger.missing_main(2, 0) == [(0, 2)]
    ledger.raise_level(0, 1, 0)
    assert not ledger.has_state(2, 0)
    ledger.raise_level(0, 2, 0)
    assert ledger.has_state(2, 0)
    assert ledger.missing_main(2, 0) == []
    assert not ledger.has_state(0, 0)


def test_minor_components_are_no_state() -> None:
    """Components without energy may count as decoded from the start: that is not enough."""
    model = mixed_model()
    main = int((model.share_SBC[0, 0] * model.distortion_BCL[0, :, 0]).argmax())
    levels = np.zeros((BLOCKS, STEPS), int)
    levels[0, main] = -1
    assert not Ledger(model, levels).has_state(0, 0)
