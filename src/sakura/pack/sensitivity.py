"""How much an error of the state costs the edit: measured once per model, kept in its profile.

scripts/fit_profile.py runs this over training-split templates, so that packing needs no such runs.
Errors are those of a uniform quantiser near the precision that bundles work at. White noise would
not do: it averages out over the tokens, and was measured to cost V thirty to a hundred times less
than the errors of coefficients that are not coded at all, which are alike in many tokens. How K and
V compare within a block is in the profile's bases, by what attention does with errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import CodecProfile, analyse
from sakura.pack.allocate import (
    base_steps,
    best_scale,
    coefficient_worth,
    component_shares,
    first_scale,
    next_scale,
    scale_at,
)
from sakura.pack.edits import to_db, to_mse
from sakura.pack.ladder import coefficients, state_of

Array = NDArray[Any]

OPERATING_DB = 44.0
"""Between the level that meets the player's default floor and the best one."""
NUM_ROUNDS = 2
MAX_TRIALS = 5
LEAST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """What an edit's mean squared error owes to errors of the state; see `allocate`.

    Args:
        blocks: (B, 2) MSE per unit of weighted error in a plane of a block's coefficients, at every
            step; alike for both planes.
        steps: (S,) share of each step, sum 1.
        components: (S,) share of each component of the step axis, sum 1; to check the model by.
        expected_components: the same by `component_shares`.
    """

    blocks: Array
    steps: Array
    components: Array
    expected_components: Array


class Probe:
    """One edit to disturb.

    Args:
        profile: transforms.
        state: (B, 2, S, N, H, Dh) uncompressed, in importance order.
        precision: (B, N) of each token, in the same order.
        edit: the edited pixels with a state, any shape, range 1 and not rounded.
    """

    def __init__(
        self, profile: CodecProfile, state: Array, precision: Array, edit: Callable[[Array], Array]
    ) -> None:
        self.profile, self.state, self._edit = profile, state, edit
        self._precision = precision[:, None, None, :, None]
        self._coefs = coefficients(profile, state)
        self._expected = edit(state)

    def quantised(self, steps: Array, component: int | None = None) -> Array:
        """The state with coefficients rounded to (B, 2, C) steps; all or one component's."""
        step = steps.transpose(0, 2, 1)[..., None, None] / self._precision
        coefs = (step * np.rint(self._coefs / step)).astype(np.float32)
        if component is not None:
            changed, coefs = coefs[:, component], self._coefs.copy()
            coefs[:, component] = changed
        return state_of(self.profile, coefs)

    def response(self, state: Array) -> float:
        """MSE of the edit with another state."""
        return float(np.square(self._edit(state) - self._expected).mean())

    def errors(self, state: Array) -> Array:
        """(B, 2, S) mean squared error of a state's coefficients by plane and step, each token
        weighted by its squared precision."""
        error = state - self.state
        rows = error.reshape(*error.shape[:4], -1).swapaxes(1, 2)  # (B, S, 2, N, H*Dh)
        coefs = np.stack([analyse(self.profile, block, row) for block, row in enumerate(rows)])
        squares = np.square(coefs, dtype=np.float64).mean(4)
        weighted = squares * np.square(self._precision[:, 0, 0, :, 0])[:, None, None]
        return np.asarray(weighted.mean(3).swapaxes(1, 2))


def measure(probes: Sequence[Probe], profile: CodecProfile) -> Sensitivity:
    """Medians over the probes: an edit that a small error tips over says nothing about others.

    Args:
        probes: edits of several templates.
        profile: bases and sigmas; its sensitivities are not used.
    """
    energy = np.square(profile.sigma, dtype=np.float64).mean((1, 3, 4)).sum(1)
    blocks = np.repeat(1 / np.maximum(energy, LEAST)[:, None], 2, axis=1)
    steps = np.full(profile.dims[1], 1 / profile.dims[1])
    for _ in range(NUM_ROUNDS):
        shares = component_shares(profile.step_basis, steps)
        worth = coefficient_worth(blocks, shares)
        sizes = base_steps(worth, scale_at(_operating_scale(probes, worth)))
        quantised = [probe.quantised(sizes) for probe in probes]
        steps = _step_shares(probes, quantised, blocks)
        blocks = _block_sensitivity(probes, quantised, steps)
    found = _component_responses(probes, sizes)
    expected = _expected_responses(probes, sizes, blocks, steps)
    return Sensitivity(blocks, steps, found / found.sum(), expected / expected.sum())


def _operating_scale(probes: Sequence[Probe], worth: Array) -> int:
    """Index of the scale at which the edits keep `OPERATING_DB`."""
    tried: dict[int, float] = {}
    index: int | None = first_scale(worth, to_mse(OPERATING_DB), 0)
    while index is not None and index not in tried and len(tried) < MAX_TRIALS:
        sizes = base_steps(worth, scale_at(index))
        found_db = [to_db(probe.response(probe.quantised(sizes))) for probe in probes]
        tried[index] = float(np.mean(found_db))
        index = next_scale(tried, OPERATING_DB)
    return best_scale(tried, OPERATING_DB)


def _step_shares(probes: Sequence[Probe], quantised: Sequence[Array], blocks: Array) -> Array:
    """(S,) from edits that are disturbed in all blocks at one step."""
    ratios = np.empty((len(probes), probes[0].state.shape[2]))
    for index, step in np.ndindex(ratios.shape):
        probe, state = probes[index], probes[index].state.copy()
        state[:, :, step] = quantised[index][:, :, step]
        error = float((blocks * probe.errors(state)[:, :, step]).sum())
        ratios[index, step] = probe.response(state) / max(error, LEAST)
    shares = np.median(ratios / np.maximum(ratios.sum(1, keepdims=True), LEAST), axis=0)
    return shares / shares.sum()


def _block_sensitivity(probes: Sequence[Probe], quantised: Sequence[Array], steps: Array) -> Array:
    """(B, 2) from edits that are disturbed in one block."""
    ratios = np.empty((len(probes), len(probes[0].state)))
    for index, block in np.ndindex(ratios.shape):
        probe, state = probes[index], probes[index].state.copy()
        state[block] = quantised[index][block]
        error = float(np.sum(probe.errors(state)[block] @ steps))
        ratios[index, block] = max(probe.response(state), LEAST) / max(error, LEAST)
    blocks: Array = np.repeat(np.median(ratios, axis=0)[:, None], 2, axis=1)
    return blocks


def _component_responses(probes: Sequence[Probe], sizes: Array) -> Array:
    """(C,) MSE of edits that are disturbed in one component of all blocks."""
    return np.array(
        [
            np.mean([probe.response(probe.quantised(sizes, c)) for probe in probes])
            for c in range(sizes.shape[2])
        ]
    )


def _expected_responses(
    probes: Sequence[Probe], sizes: Array, blocks: Array, steps: Array
) -> Array:
    """(C,) the same by the error model."""
    return np.array(
        [
            np.mean([np.sum(blocks * (p.errors(p.quantised(sizes, c)) @ steps)) for p in probes])
            for c in range(sizes.shape[2])
        ]
    )
