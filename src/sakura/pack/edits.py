"""Whole edits as the packager needs them: on full compute, and with a given state injected.

Measures how far two edits are apart inside the mask. Knows no codec, bundle or network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.grid import TokenMask
from sakura.models.base import Adapter, BlockState, Request, Run, Template, full_compute

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Injection:
    """State of cached tokens.

    Args:
        tokens: (N,) canvas index of each row.
        state: (B, 2, S, N, H, Dh) float32; axis 1 is K (before RoPE), V.
    """

    tokens: Array
    state: Array


def edit_full(adapter: Adapter, template: Template, request: Request) -> Array:
    """The edit with every token computed, (H, W, 3) uint8."""
    run = adapter.prepare(template, request)
    for _ in full_compute(run, adapter.schedule, adapter.geometry):
        pass
    return run.image()


def edit_injected(
    adapter: Adapter, template: Template, request: Request, injection: Injection
) -> Array:
    """The edit with only active tokens computed, (H, W, 3) uint8."""
    return run_injected(adapter, template, request, injection).image()


def run_injected(
    adapter: Adapter, template: Template, request: Request, injection: Injection
) -> Run:
    """A run that is through, with only active tokens computed."""
    run = adapter.prepare(template, request, injection.tokens)
    for step in range(adapter.schedule.num_steps):
        run.begin_step(step, active_only=True)
        for block in range(adapter.geometry.num_blocks):
            keys, values = injection.state[block, :, step]
            run.run_block(block, BlockState(keys=keys, values=values))
        run.end_step()
    return run


def mse_inside(a: Array, b: Array, mask: TokenMask) -> float:
    """Mean squared difference of two pictures over the mask's pixels; 1 is black against white."""
    side = mask.grid.patch_px
    inside = np.kron(mask.bits, np.ones((side, side), bool))
    error = (a[inside].astype(np.float64) - b[inside]) / 255
    return float(np.square(error).mean())


def to_db(mse: float) -> float:
    """PSNR of a mean squared error; at most 100 dB, so that it stays a number."""
    return min(-10 * math.log10(mse), 100.0) if mse > 0 else 100.0


def to_mse(psnr_db: float) -> float:
    """Inverse of `to_db`."""
    return 10 ** (-psnr_db / 10)
