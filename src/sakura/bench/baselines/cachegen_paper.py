"""CacheGen as published (Liu et al., SIGCOMM 2024, section 5), on a diffusion transformer.

Groups of ten tokens: the first is an 8-bit anchor, the others are deltas to it, with bins that grow
over the thirds of the blocks (0.5, 1, 1.5); one table per block, K|V and channel, for anchors and
deltas apart, profiled offline and used for every step. The published bins are multiples of a unit
that is not told: here the spread of the block's deltas, times the operating point.
"""

from __future__ import annotations

from functools import lru_cache
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
from sakura.bench.baselines.predict import GROUP_TOKENS, Quantiser, is_anchor, spread
from sakura.bench.baselines.shared_tables import SharedTables, fit_tables
from sakura.codec.bf16 import from_bf16, to_bf16

Array = NDArray[Any]

_ANCHOR_LARGEST = 127
_THIRDS = (0.5, 1.0, 1.5)


class CacheGenPaper:
    """See the module.

    Args:
        calibration: what the tables are profiled on.
    """

    name, shares = "cachegen-paper", "tables per block, K|V and channel; spread of the deltas"
    points = (32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25)

    def __init__(self, calibration: Calibration) -> None:
        self._states = calibration.states
        self._spread = _delta_spread(calibration.states)
        self._tables = lru_cache(maxsize=len(self.points))(self._fitted)

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        state = check_state(state)
        scale, anchors, deltas = self._symbols(channels(state), point)
        coded = [
            table.encode(_rows(symbols))
            for table, symbols in zip(self._tables(point), (anchors, deltas), strict=True)
        ]
        return write_header(state, point) + scale.tobytes() + b"".join(coded)

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        shape, point = read_header(data)
        b, two, s, n, h, d = shape
        first = is_anchor(n)
        num_scales = b * two * s * int(first.sum())
        scale = np.frombuffer(data, "<u2", num_scales, HEADER_BYTES).reshape(b, two, s, -1, 1)
        rest, values = data[HEADER_BYTES + 2 * num_scales :], np.zeros((b, two, s, n, h * d))
        for table, places in zip(self._tables(point), (first, ~first), strict=True):
            symbols, used = table.decode(rest, s * int(places.sum()))
            rest = rest[used:]
            shaped = symbols.reshape(b, two, h * d, s, -1).transpose(0, 1, 3, 4, 2)
            values[..., places, :] = shaped
        known = spread(values[..., first, :] * _anchor_step(scale), n)
        step = self._step(point)
        return np.where(first[:, None], known, known + values * step).reshape(shape).astype("f4")

    def _step(self, point: float) -> Array:
        thirds = np.array(_THIRDS)[np.arange(len(self._spread)) * 3 // len(self._spread)]
        return (point * thirds[:, None] * self._spread).astype(np.float32)[:, :, None, None, None]

    def _symbols(self, values: Array, point: float) -> tuple[Array, Array, Array]:
        """Anchor scales, anchors and deltas."""
        first = is_anchor(values.shape[3])
        anchors = values[..., ::GROUP_TOKENS, :]
        scale = to_bf16(np.abs(anchors).max(-1, keepdims=True, initial=0))
        step = _anchor_step(scale)
        ratio = np.divide(anchors, step, out=np.zeros_like(anchors), where=step > 0)
        q = np.clip(np.rint(ratio), -_ANCHOR_LARGEST, _ANCHOR_LARGEST)
        known = spread(q * step, values.shape[3])
        deltas = Quantiser()((values - known)[..., ~first, :], self._step(point))
        return scale, q.astype(np.int32), deltas

    def _fitted(self, point: float) -> tuple[SharedTables, SharedTables]:
        coded = [self._symbols(state, point)[1:] for state in self._states]
        anchors, deltas = zip(*coded, strict=True)
        return fit_tables(map(_rows, anchors)), fit_tables(map(_rows, deltas))


def _anchor_step(scale: Array) -> Array:
    return from_bf16(scale) / np.float32(_ANCHOR_LARGEST)


def _rows(symbols: Array) -> Array:
    """One row a block, K|V and channel, of (B, 2, S, n, C)."""
    moved = np.ascontiguousarray(symbols.transpose(0, 1, 4, 2, 3))
    return moved.reshape(np.prod(moved.shape[:3]), -1)


def _delta_spread(states: tuple[Array, ...]) -> Array:
    """(B, 2) root mean square of deltas to the anchor."""
    squares, count = np.zeros(states[0].shape[:2]), 0
    for state in states:
        deltas = state - spread(state[..., ::GROUP_TOKENS, :], state.shape[3])
        deltas = deltas[..., ~is_anchor(state.shape[3]), :]
        squares += np.square(deltas, dtype=np.float64).sum((2, 3, 4))
        count += int(np.prod(deltas.shape[2:]))
    spreads: Array = np.sqrt(squares / max(count, 1))
    return np.where(spreads > 0, spreads, 1.0)
