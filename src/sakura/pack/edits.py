"""Whole edits as the packager needs them: on full compute, and with a given state injected.

Knows no codec, bundle or network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sakura.fidelity import mse as mse_inside
from sakura.fidelity import to_db, to_mse
from sakura.models.base import Adapter, BlockState, Request, Run, Template, full_compute

Array = NDArray[Any]

__all__ = [
    "Injection",
    "edit_full",
    "edit_injected",
    "mse_inside",
    "run_injected",
    "to_db",
    "to_mse",
]


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
