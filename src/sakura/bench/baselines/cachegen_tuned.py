"""CacheGen as strong as its ideas allow: the best quantiser, prediction and dead zone found by
search, the best step per block, and tables per block, K|V, step and channel that ship with the app.

More generous than the original in that means are subtracted and steps follow the sensitivities that
SAKURA measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines.base import (
    HEADER_BYTES,
    Calibration,
    channels,
    check_state,
    read_header,
    write_header,
)
from sakura.bench.baselines.predict import PREDICTIONS, Predictor, Quantiser
from sakura.bench.baselines.shared_tables import SharedTables, fit_tables
from sakura.codec.bf16 import from_bf16, to_bf16

Array = NDArray[Any]

STEPS = ("equal", "sensitivity", "absmax")
"""One step for all blocks; one per block and K|V by sensitivity; one per token by its largest
value."""


_POINTS = (32.0, 22.0, 16.0, 11.0, 8.0, 5.6, 4.0, 2.8, 2.0, 1.0, 0.5, 0.25)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the search chooses.

    Args:
        steps: one of `STEPS`.
        prediction: one of `PREDICTIONS`.
        dead_zone: see `Quantiser`.
    """

    steps: str = "sensitivity"
    prediction: str = "steps"
    dead_zone: float = 0.15

    @property
    def predictor(self) -> Predictor:
        """The prediction with its quantiser."""
        return Predictor(self.prediction, Quantiser(self.dead_zone))


ALL_TUNINGS = tuple(
    Tuning(steps, prediction, dead_zone)
    for steps, prediction, dead_zone in product(STEPS, PREDICTIONS, (0.0, 0.15))
)


class CacheGenTuned:
    """See the module.

    Args:
        calibration: what means and tables are learned from.
        tuning: what the search chose.
        points: multiples of the spread of all values.
    """

    name = "cachegen-tuned"
    shares = "means and tables per block, K|V, step and channel; a step per block and K|V"

    def __init__(
        self,
        calibration: Calibration,
        tuning: Tuning | None = None,
        points: tuple[float, ...] = _POINTS,
    ) -> None:
        self.tuning, self.points = tuning or Tuning(), points
        self._calibration = calibration
        self._unit = _spread(calibration)
        self._tables = lru_cache(maxsize=len(points))(self._fitted)

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        state = check_state(state)
        scale, q = self._symbols(channels(state), point)
        return write_header(state, point) + scale.tobytes() + self._tables(point).encode(_rows(q))

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        shape, point = read_header(data)
        b, two, s, n, h, d = shape
        num_scales = b * two * s * n if self.tuning.steps == "absmax" else 0
        scale = np.frombuffer(data, "<u2", num_scales, HEADER_BYTES)
        symbols, _ = self._tables(point).decode(data[HEADER_BYTES + 2 * num_scales :], n)
        q = np.swapaxes(symbols.reshape(b, two, s, h * d, n), 3, 4)
        values = self.tuning.predictor.inverse(q, self._step(scale, q.shape, point))
        return np.asarray(values + self._calibration.mean, np.float32).reshape(shape)

    def _symbols(self, values: Array, point: float) -> tuple[Array, Array]:
        centred = values - self._calibration.mean
        scale = np.zeros(0, "<u2")
        if self.tuning.steps == "absmax":
            scale = to_bf16(np.abs(centred).max(-1, initial=0))
        step = self._step(scale, values.shape, point)
        return scale, self.tuning.predictor.forward(centred, step)

    def _step(self, scale: Array, shape: tuple[int, ...], point: float) -> Array:
        if self.tuning.steps == "absmax":
            # A quarter of the largest value of a token is about as far as its spread.
            step = from_bf16(scale).reshape(*shape[:4], 1) * np.float32(point / 4)
            return np.where(step > 0, step, np.float32(1))
        weight = self._calibration.step_weight if self.tuning.steps == "sensitivity" else 1.0
        step = np.float32(point * self._unit) * np.asarray(weight, np.float32)
        return np.broadcast_to(step, (*shape[:4], 1))

    def _fitted(self, point: float) -> SharedTables:
        return fit_tables(
            _rows(self._symbols(state, point)[1]) for state in self._calibration.states
        )


def _rows(q: Array) -> Array:
    """One row a block, K|V, step and channel, of (B, 2, S, N, C)."""
    moved = np.ascontiguousarray(np.swapaxes(q, 3, 4))
    return moved.reshape(np.prod(moved.shape[:4]), -1)


def _spread(calibration: Calibration) -> float:
    """Root mean square of all values about their means: the unit of the operating points."""
    squares = [np.square(s - calibration.mean).mean() for s in calibration.states if s.size]
    unit = float(np.sqrt(np.mean(squares))) if squares else 0.0
    return unit or 1.0
