"""Finds the steps at which levels reach their PSNR, and measures each level, on calibration edits.

A calibration edit uses a portrait that ships with SAKURA, never the one that the state was captured
with, and is compared with the same edit on uncompressed state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import EncodedShard
from sakura.fidelity import mse, to_db
from sakura.models.base import Adapter, Request, Template
from sakura.pack.allocate import best_scale, next_scale
from sakura.pack.edits import Injection, edit_injected
from sakura.pack.ladder import Ladder, decoded_levels

Array = NDArray[Any]
Shards = dict[tuple[int, int], EncodedShard]

MAX_TRIALS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Edits with uncompressed state, to compare others with.

    Args:
        adapter: the model.
        template: as captured.
        tokens: (N,) canvas index of each row of a state.
        requests: the edits.
        expected: their pictures with uncompressed state.
    """

    adapter: Adapter
    template: Template
    tokens: Array
    requests: tuple[Request, ...]
    expected: tuple[Array, ...]

    def mse(self, state: Array) -> float:
        """Mean squared error of the edits with another state (B, 2, S, N, H, Dh)."""
        injection = Injection(self.tokens, state)
        errors = [
            mse(self._edit(request, injection), expected, self.template.mask)
            for request, expected in zip(self.requests, self.expected, strict=True)
        ]
        return float(np.mean(errors))

    def _edit(self, request: Request, injection: Injection) -> Array:
        return edit_injected(self.adapter, self.template, request, injection)


def calibrate(
    adapter: Adapter, template: Template, injection: Injection, requests: tuple[Request, ...]
) -> Calibration:
    """Run the edits with uncompressed state."""
    expected = tuple(edit_injected(adapter, template, r, injection) for r in requests)
    return Calibration(adapter, template, injection.tokens, requests, expected)


def tune_scale(
    calibration: Calibration,
    first: int,
    targets: Mapping[int, float],
    encode: Callable[[int], tuple[Ladder, Shards]],
) -> int:
    """Index of the largest scale at which every target is met.

    Args:
        calibration: edits to measure on.
        first: index to begin with.
        targets: PSNR in dB that levels reach.
        encode: the shards at a scale index.
    """
    index: int | None = first
    tried: dict[int, float] = {}
    while index is not None and index not in tried and len(tried) < MAX_TRIALS:
        states = enumerate(decoded_levels(*encode(index)), start=-1)
        tried[index] = min(
            to_db(calibration.mse(state)) - targets[level]
            for level, state in states
            if level in targets
        )
        index = next_scale(tried, 0.0)
    return best_scale(tried, 0.0)
