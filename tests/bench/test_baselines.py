"""Every baseline passes the contract, with the error that its quantiser allows."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.bench.baselines import (
    Baseline,
    CacheGenPaper,
    CacheGenShipped,
    CacheGenTuned,
    Calibration,
    Integers,
    KvtcLike,
    RawBf16,
    Tuning,
    ZstdBf16,
    all_baselines,
    calibrate,
)
from sakura.bench.baselines.base import HEADER_BYTES
from sakura.bench.baselines.cachegen_shipped import LEVELS
from sakura.bench.baselines.predict import GROUP_TOKENS
from sakura.errors import CodecError
from tests.bench.baseline_contract import BaselineContract, correlated_state, per_token

pytest.importorskip("constriction")
Array = NDArray[Any]

BF16 = 2.0**-8
"""Relative error of a bfloat16."""


class TestRaw(BaselineContract):
    def make(self, calibration: Calibration) -> Baseline:
        return RawBf16()

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        return BF16 * np.abs(state)

    def test_takes_two_bytes_a_value(self, baseline: Baseline) -> None:
        state = correlated_state(0)
        assert len(baseline.encode(state, 16.0)) == HEADER_BYTES + 2 * state.size


class TestZstd(TestRaw):
    def make(self, calibration: Calibration) -> Baseline:
        return ZstdBf16()

    def test_takes_two_bytes_a_value(self, baseline: Baseline) -> None:
        state = correlated_state(0, 200)
        assert len(baseline.encode(state, 16.0)) < HEADER_BYTES + 2 * state.size


@pytest.mark.parametrize("bits", [8, 4])
def test_integers_take_their_bits_and_a_scale(bits: int) -> None:
    state = correlated_state(0)
    expected = HEADER_BYTES + state.size * bits / 8 + 2 * state.size / state.shape[-1]
    assert len(Integers(bits).encode(state, float(bits))) == expected


class TestInt8(BaselineContract):
    def make(self, calibration: Calibration) -> Baseline:
        return Integers(8)

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        largest = np.abs(state).max(-1, keepdims=True, initial=0)
        return largest * (0.5 / (2 ** (int(point) - 1) - 1) + BF16)


class TestInt4(TestInt8):
    def make(self, calibration: Calibration) -> Baseline:
        return Integers(4)


class TestCacheGenShipped(BaselineContract):
    def make(self, calibration: Calibration) -> Baseline:
        return CacheGenShipped()

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        half = LEVELS[point].per_block(len(state)) // 2 - 1
        return per_token(state) * (0.5 / half[:, :, None, None, None, None] + BF16)

    def test_more_tokens_than_a_sub_block(self, baseline: Baseline) -> None:
        self.check(baseline, correlated_state(2, 300, (1, 2, 1, 1, 2)), (2.0,))

    def test_counts_its_tables(self, baseline: Baseline) -> None:
        """Notes on the source, 1.4: tables of T tokens cost 16 * 33 / T bits an element."""
        state = correlated_state(2, 50)
        tables = 16 * 33 / 50 * state.size / 8
        assert len(baseline.encode(state, 3.0)) > tables


class TestCacheGenPaper(BaselineContract):
    def make(self, calibration: Calibration) -> Baseline:
        return CacheGenPaper(calibration)

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        assert isinstance(baseline, CacheGenPaper)
        step = baseline._step(point)[..., None] / 2
        step = np.broadcast_to(step, (*state.shape[:4], 1, 1)).copy()
        step[:, :, :, ::GROUP_TOKENS] = (per_token(state) * (0.5 / 127 + BF16))[
            :, :, :, ::GROUP_TOKENS
        ]
        return step

    def test_bins_grow_over_the_thirds(self, baseline: Baseline) -> None:
        assert isinstance(baseline, CacheGenPaper)
        steps = baseline._step(1.0)[:, 0, 0, 0, 0] / baseline._spread[:, 0]
        assert steps == pytest.approx([0.5, 1.0, 1.5])


class TunedContract(BaselineContract):
    """Not collected itself."""

    tuning = Tuning()

    def make(self, calibration: Calibration) -> Baseline:
        return CacheGenTuned(calibration, self.tuning)

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        assert isinstance(baseline, CacheGenTuned)
        scale = np.zeros(0, "<u2")
        step = baseline._step(scale, (*state.shape[:4], -1), point)[..., None]
        return (0.5 + self.tuning.dead_zone) * step


class TestTunedSteps(TunedContract):
    tuning = Tuning("sensitivity", "steps", 0.15)


class TestTunedTokens(TunedContract):
    tuning = Tuning("equal", "tokens", 0.0)


class TestTunedPlain(TunedContract):
    tuning = Tuning("equal", "none", 0.15)


class TestTunedAbsmax(TunedContract):
    tuning = Tuning("absmax", "steps", 0.0)

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        assert isinstance(baseline, CacheGenTuned)
        mean = baseline._calibration.mean.reshape(*state.shape[:3], 1, *state.shape[4:])
        # With deltas over steps, an error is half of the step of its own denoising step.
        return per_token(state - mean) * point / 4 * (0.5 + BF16)


class TestKvtc(BaselineContract):
    def make(self, calibration: Calibration) -> Baseline:
        return KvtcLike(calibration)

    def bound(self, baseline: Baseline, state: Array, point: float) -> Array:
        """Orthonormal axes: no value is further off than the whole vector of coefficients."""
        assert isinstance(baseline, KvtcLike)
        width = state.shape[4] * state.shape[5]
        return baseline._step(point)[..., None] * 0.65 * np.sqrt(width)


def test_sensitive_blocks_get_finer_steps_of_the_same_mean() -> None:
    sensitivity = np.array([[1.0, 4.0], [16.0, 1.0]])
    states = [correlated_state(0, dims=(2, 2, 1, 1, 2))]
    weight = calibrate(states, sensitivity).step_weight.reshape(2, 2)
    assert weight[0, 0] / weight[0, 1] == pytest.approx(2)
    assert weight[0, 0] / weight[1, 0] == pytest.approx(4)
    assert np.log(weight).mean() == pytest.approx(0, abs=1e-6)


def test_names_are_unique() -> None:
    names = [b.name for b in all_baselines(calibrate([correlated_state(0)]))]
    assert len(names) == len(set(names))


def test_calibration_needs_states_of_one_model() -> None:
    with pytest.raises(CodecError, match="calibration states"):
        calibrate([])
    with pytest.raises(CodecError, match="one model"):
        calibrate([correlated_state(0), correlated_state(0, dims=(1, 2, 1, 1, 2))])


def test_header_is_too_short() -> None:
    with pytest.raises(CodecError, match="at least"):
        RawBf16().decode(struct.pack("<6I", *range(6)))
