"""Order, tiles and gains of cached tokens: properties that hold for any attention mass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sakura.codec.base import MAX_GAIN
from sakura.pack.importance import HIGHEST, LOWEST, even_widths, rank_tokens, token_weights

MASSES = st.builds(
    lambda seed, blocks, tokens, power: (
        np.random.default_rng(seed).random((blocks, tokens)) ** power
    ),
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(1, 200),
    st.floats(0, 30),
)


@given(MASSES, st.integers(1, 64))
def test_every_token_is_in_one_tile(mass: NDArray[np.float64], most: int) -> None:
    found = rank_tokens(mass, most)
    assert sorted(found.order) == list(range(mass.shape[1]))
    assert sum(found.widths) == mass.shape[1]
    assert max(found.widths) <= most
    assert max(found.widths) - min(found.widths) <= 1
    assert len(found.widths) == -(-mass.shape[1] // most)


@given(MASSES)
def test_gains_follow_the_weights_within_bounds(mass: NDArray[np.float64]) -> None:
    """With one block, the order is by weight: gains fall, inside the weights' octaves."""
    found = rank_tokens(mass[:1])
    gains = found.gains[0]
    assert list(gains) == sorted(gains, reverse=True)
    bound = round(4 * np.log2(HIGHEST))
    assert -bound <= min(gains) and max(gains) <= bound <= MAX_GAIN


@given(MASSES, st.floats(1e-6, 1e6))
def test_only_relative_mass_counts(mass: NDArray[np.float64], factor: float) -> None:
    np.testing.assert_allclose(token_weights(mass * factor), token_weights(mass), rtol=1e-9)


def test_weight_is_the_root_of_the_mass_relative_to_the_mean() -> None:
    np.testing.assert_allclose(
        token_weights(np.array([[4.0, 1.0, 1.0]])), [[2**0.5, 0.5**0.5, 0.5**0.5]]
    )
    assert token_weights(np.array([[1000.0, *[0.0] * 999]])).tolist() == [
        [HIGHEST, *[LOWEST] * 999]
    ]
    assert token_weights(np.zeros((2, 3))).tolist() == [[1.0] * 3] * 2


def test_gain_is_the_weight_in_quarter_octaves() -> None:
    """Two tiles of equal tokens: masses 8 and 1/8 of each other's geometric mean."""
    mass = np.repeat([[2.0, 0.5]], 32, axis=1)  # mean 1.25: weights 1.265, 0.632
    assert rank_tokens(mass, 32).gains == ((1, -3),)
    precision = rank_tokens(mass, 32).precision
    np.testing.assert_allclose(precision[0, [0, 63]], [2**0.25, 2**-0.75])


def test_tokens_alike_keep_canvas_order() -> None:
    assert rank_tokens(np.ones((3, 70))).order.tolist() == list(range(70))


@pytest.mark.parametrize(
    ("tokens", "most", "widths"), [(70, 32, (24, 23, 23)), (64, 64, (64,)), (1, 32, (1,))]
)
def test_even_widths(tokens: int, most: int, widths: tuple[int, ...]) -> None:
    assert even_widths(tokens, most) == widths
