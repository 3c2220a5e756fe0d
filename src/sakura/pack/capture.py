"""Runs the model over a template with a neutral reference and keeps what the bundle is made from:
K/V of the cached tokens at every step and block, and how much attention they get.

Knows neither codec nor bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.errors import InputError
from sakura.models.base import Adapter, Request, Template, full_compute

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """State and attention mass of a template's cached tokens, in canvas order.

    Args:
        tokens: (N,) canvas index of each.
        state: (B, 2, S, N, H, Dh) float32; axis 1 is K (before RoPE), V.
        mass: (B, N) mean squared attention weight that active queries give each token.
    """

    tokens: Array
    state: Array
    mass: Array


def capture(
    adapter: Adapter, template: Template, references: Sequence[Array], seed: int = 0
) -> Capture:
    """Capture a template.

    Args:
        adapter: the model.
        template: what to capture; its mask decides which tokens are cached.
        references: neutral pictures; with several, state and mass are their mean.
        seed: of the active tokens' noise.

    Raises:
        InputError: the model cannot use the template, or no token is cached.
    """
    tokens = template.mask.cached
    if not 0 < len(tokens) < template.mask.grid.num_tokens:
        raise InputError(
            f"{len(tokens)} of {template.mask.grid.num_tokens} tokens are outside the mask",
            hint="a template needs a region to edit and something around it",
        )
    state, mass = _record(adapter, template, Request(references[0], seed=seed))
    for reference in references[1:]:
        other_state, other_mass = _record(adapter, template, Request(reference, seed=seed))
        state, mass = state + other_state, mass + other_mass
    count = len(references)
    return Capture(tokens, state / np.float32(count), mass / count)


def dilated(template: Template, ring: int) -> Template:
    """The template with its mask grown: a ring of tokens whose state would be stale is computed.

    Raises:
        InputError: a negative ring.
    """
    return template if ring == 0 else replace(template, mask=template.mask.dilate(ring))


def _record(adapter: Adapter, template: Template, request: Request) -> tuple[Array, Array]:
    run = adapter.prepare(template, request)
    with adapter.capture(run) as recorder:
        for _ in full_compute(run, adapter.schedule, adapter.geometry):
            pass
        tokens = template.mask.cached
        return recorder.states()[:, :, :, tokens], recorder.attention_mass()[:, tokens]
