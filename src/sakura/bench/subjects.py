"""What a codec is measured on: one captured state, and the edit that tells how much an error in it
shows, where there is a model to make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.models.base import Adapter, Request, Template
from sakura.pack.edits import Injection, edit_injected, mse_inside, to_db

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class EditCheck:
    """An edit on a captured state, and on others in its place.

    Args:
        adapter: the model.
        template: as captured.
        request: an edit with a picture that the packager has not seen.
        tokens: (N,) canvas index of each row of the state.
        expected: the picture on the captured state.
    """

    adapter: Adapter
    template: Template
    request: Request
    tokens: Array
    expected: Array

    def psnr_db(self, state: Array) -> float:
        """PSNR of the pixels inside the mask, between another state and the captured one."""
        injection = Injection(self.tokens, state)
        picture = edit_injected(self.adapter, self.template, self.request, injection)
        return to_db(mse_inside(picture, self.expected, self.template.mask))


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A state to code.

    Args:
        name: for people.
        task: of the template; empty where it is not known.
        state: (B, 2, S, N, H, Dh) float32, tokens in raster order.
        mass: (B, N) attention that each token gets; None where it is not known.
        check: the edit; None where there is no model.
    """

    name: str
    task: str
    state: Array
    mass: Array | None = None
    check: EditCheck | None = None

    def psnr_db(self, state: Array) -> float | None:
        """See `EditCheck.psnr_db`; None where there is no model."""
        return None if self.check is None else self.check.psnr_db(state)

    def nmse_db(self, state: Array) -> float:
        """Error over variance of K and V in dB, mean over the blocks; all tokens alike."""
        return normalised_error_db(self.state, state)

    def weighted_nmse_db(self, state: Array) -> float | None:
        """The same with each token weighted by the attention it gets; None where that is not
        known."""
        return None if self.mass is None else normalised_error_db(self.state, state, self.mass)


def check_edit(
    adapter: Adapter, template: Template, request: Request, injection: Injection
) -> EditCheck:
    """Make the edit on the captured state."""
    expected = edit_injected(adapter, template, request, injection)
    return EditCheck(adapter, template, request, injection.tokens, expected)


def normalised_error_db(state: Array, decoded: Array, weight: Array | None = None) -> float:
    """Error over variance about the tokens' mean in dB, mean over the blocks' K and V.

    Args:
        state: (B, 2, S, N, H, Dh).
        decoded: the same shape.
        weight: (B, N) of the tokens.
    """
    num_tokens = state.shape[3]
    weight = np.ones((len(state), num_tokens)) if weight is None else weight
    shaped = weight[:, None, None, :, None, None]
    error = (np.square(decoded - state, dtype=np.float64) * shaped).sum((2, 3, 4, 5))
    centred = state - state.mean(3, keepdims=True)
    spread = (np.square(centred, dtype=np.float64) * shaped).sum((2, 3, 4, 5))
    ratio = np.maximum(error, 1e-30) / np.maximum(spread, 1e-30)
    return float(np.mean(10 * np.log10(np.clip(ratio, 1e-12, 1e12))))
