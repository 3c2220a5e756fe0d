"""Failures in a row are counted, and progress renews the budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sakura.play.retry import Budget


def test_failures_in_a_row_spend_it() -> None:
    budget = Budget(2)
    for expected in (False, False, True):
        budget = budget.failed()
        assert budget.is_spent == expected


@given(st.integers(0, 5), st.lists(st.integers(1024, 1 << 20), min_size=1))
def test_progress_between_failures_renews_it(most: int, sizes: list[int]) -> None:
    budget = Budget(most)
    for size in sizes:
        for _ in range(most):
            budget = budget.failed()
        assert not budget.is_spent
        budget = budget.arrived(size)
        assert budget.num_failures == 0


@given(st.lists(st.integers(1, 400), min_size=3, max_size=30))
def test_a_drip_between_failures_does_not(sizes: list[int]) -> None:
    budget = Budget(2)
    for size in sizes:
        budget = budget.failed().arrived(size)
    assert budget.is_spent


def test_small_pieces_add_up() -> None:
    budget = Budget(1).failed()
    for _ in range(3):
        budget = budget.arrived(400)
    assert budget.num_failures == 0
