"""Closed-loop prediction of a state: deltas to the group's first token, or to the step before.

Works on values (B, 2, S, N, C) and gives integers; what they are coded with is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

GROUP_TOKENS = 10
"""Tokens that share an anchor, in raster order (CacheGen, section 5)."""
PREDICTIONS = ("none", "tokens", "steps")


@dataclass(frozen=True, slots=True)
class Quantiser:
    """Uniform, mid-tread.

    Args:
        dead_zone: part of a step by which the zero bin is wider on either side.
    """

    dead_zone: float = 0.0

    def __call__(self, values: Array, step: Array) -> Array:
        """Integers, int32."""
        ratio = values / step
        size = np.floor(np.abs(ratio) + np.float32(0.5 - self.dead_zone))
        return np.asarray(np.copysign(size, ratio), np.int32)


@dataclass(frozen=True, slots=True)
class Predictor:
    """How values are predicted from what the decoder has.

    Args:
        kind: one of `PREDICTIONS`.
        quantiser: of the residuals.
    """

    kind: str
    quantiser: Quantiser

    def forward(self, values: Array, step: Array) -> Array:
        """Integers of values (B, 2, S, N, C), for steps that broadcast over them."""
        step = np.broadcast_to(step, (*values.shape[:4], 1))
        if self.kind == "steps":
            return self._along_steps(values, step)
        q = np.empty(values.shape, np.int32)
        if self.kind == "none":
            return self.quantiser(values, step)
        anchors = slice(None, None, GROUP_TOKENS)
        q[..., anchors, :] = self.quantiser(values[..., anchors, :], step[..., anchors, :])
        known = spread(q[..., anchors, :] * step[..., anchors, :], values.shape[3])
        deltas = self.quantiser(values - known, step)
        return np.where(is_anchor(values.shape[3])[:, None], q, deltas)

    def inverse(self, q: Array, step: Array) -> Array:
        """Values of the integers of `forward`."""
        if self.kind == "steps":
            return np.cumsum(q * step, 2, dtype=np.float32)
        if self.kind == "none":
            return np.asarray(q * step, np.float32)
        scaled = np.asarray(q * step, np.float32)
        known = spread(scaled[..., ::GROUP_TOKENS, :], q.shape[3])
        return np.where(is_anchor(q.shape[3])[:, None], scaled, known + scaled)

    def _along_steps(self, values: Array, step: Array) -> Array:
        q = np.empty(values.shape, np.int32)
        known = np.zeros_like(values[:, :, 0])
        for s in range(values.shape[2]):
            q[:, :, s] = self.quantiser(values[:, :, s] - known, step[:, :, s])
            known = known + q[:, :, s] * step[:, :, s]
        return q


def is_anchor(num_tokens: int) -> Array:
    """(N,) whether a token is the first of its group."""
    return np.arange(num_tokens) % GROUP_TOKENS == 0


def spread(anchors: Array, num_tokens: int) -> Array:
    """Each token's anchor: (..., groups, C) to (..., N, C)."""
    return np.repeat(anchors, GROUP_TOKENS, axis=-2)[..., :num_tokens, :]
