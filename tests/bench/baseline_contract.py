"""What every baseline must do. Subclass `BaselineContract`; the class is done when it passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.bench.baselines import Baseline, Calibration, calibrate
from sakura.errors import CodecError

Array = NDArray[Any]

DIMS = (3, 2, 3, 2, 4)  # blocks, K|V, steps, heads, head dimension


def correlated_state(seed: int, num_tokens: int = 23, dims: tuple[int, ...] = DIMS) -> Array:
    """Channels of different size and mean, steps that resemble each other."""
    blocks, two, steps, heads, head_dim = dims
    rng = np.random.default_rng(seed)
    shape = (blocks, two, 1, num_tokens, heads, head_dim)
    scale = 2.0 ** np.random.default_rng(5).integers(-3, 3, (blocks, two, 1, 1, heads, head_dim))
    base, change = rng.normal(size=shape), rng.normal(size=(blocks, two, steps, *shape[3:]))
    return np.asarray(scale * (base + 0.2 * change + 0.5), np.float32)


def per_token(state: Array) -> Array:
    """Largest value of each token, (B, 2, S, N, 1, 1)."""
    return np.abs(state).max((4, 5), keepdims=True, initial=0)


class BaselineContract:
    """Give `make` and `bound`."""

    def make(self, calibration: Calibration) -> Baseline:
        raise NotImplementedError

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        """Largest error allowed, broadcasting over the state."""
        raise NotImplementedError

    @pytest.fixture
    def baseline(self) -> Baseline:
        return self.make(calibrate([correlated_state(seed) for seed in range(3)]))

    def check(self, baseline: Baseline, state: Array, points: tuple[float, ...]) -> None:
        for point in points:
            decoded = baseline.decode(baseline.encode(state, point))
            assert decoded.shape == state.shape
            assert decoded.dtype == np.float32
            slack = 1e-5 * (1 + np.abs(state))
            assert (np.abs(decoded - state) <= self.bound(baseline, state, point) + slack).all()

    def test_error_is_bounded_at_every_point(self, baseline: Baseline) -> None:
        self.check(baseline, correlated_state(9), baseline.points)

    @pytest.mark.parametrize("num_tokens", [0, 1, 10, 11])
    def test_few_tokens(self, baseline: Baseline, num_tokens: int) -> None:
        self.check(baseline, correlated_state(3, num_tokens), baseline.points[-1:])

    @pytest.mark.parametrize("dims", [(1, 2, 1, 1, 1), (1, 2, 2, 1, 3), (2, 2, 1, 3, 1)])
    def test_odd_shapes(self, dims: tuple[int, ...]) -> None:
        states = [correlated_state(seed, 9, dims) for seed in range(2)]
        baseline = self.make(calibrate(states))
        self.check(baseline, correlated_state(7, 5, dims), baseline.points[-1:])

    def test_zeros_and_outliers(self, baseline: Baseline) -> None:
        self.check(baseline, np.zeros_like(correlated_state(0)), baseline.points[-1:])
        state = correlated_state(4)
        state[1, 0, 1, 5, 1, 2] = 3000.0
        self.check(baseline, state, baseline.points[-2:])

    def test_bytes_decide_everything(self, baseline: Baseline) -> None:
        state, point = correlated_state(8), baseline.points[-1]
        first, second = baseline.encode(state, point), baseline.encode(state.copy(), point)
        assert first == second
        other = self.make(calibrate([correlated_state(seed) for seed in range(3)]))
        assert (other.decode(first) == baseline.decode(first)).all()

    def test_finer_points_cost_more_and_keep_more(self, baseline: Baseline) -> None:
        state, sizes, errors = correlated_state(6, 60), [], []
        for point in baseline.points[:: max(len(baseline.points) // 3, 1)]:
            data = baseline.encode(state, point)
            sizes.append(len(data))
            errors.append(float(np.square(baseline.decode(data) - state).mean()))
        assert sizes == sorted(sizes)
        assert errors == sorted(errors, reverse=True)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_refuses_what_is_not_finite(self, baseline: Baseline, value: float) -> None:
        state = correlated_state(1)
        state[0, 1, 2, 3, 0, 1] = value
        with pytest.raises(CodecError, match="NaN or infinity"):
            baseline.encode(state, baseline.points[0])

    def test_refuses_other_axes(self, baseline: Baseline) -> None:
        with pytest.raises(CodecError, match="a state is"):
            baseline.encode(np.zeros((2, 3, 4), np.float32), baseline.points[0])

    def test_says_what_it_shares(self, baseline: Baseline) -> None:
        assert baseline.name
        assert baseline.shares
        assert list(baseline.points) in (
            sorted(baseline.points),
            sorted(baseline.points, reverse=True),
        )
