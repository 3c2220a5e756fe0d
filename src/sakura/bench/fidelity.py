"""How close two pictures are where the edit is: PSNR over the pixels of the active tokens. Pure."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sakura.errors import InputError
from sakura.grid import TokenMask

MAX_DB = 99.0
"""Stands for identical pictures, so that means and JSON stay finite."""
_PEAK = 255.0


def mask_pixels(mask: TokenMask) -> NDArray[np.bool_]:
    """(H, W) booleans: which pixels the active tokens cover."""
    patch = np.ones((mask.grid.patch_px, mask.grid.patch_px), bool)
    return np.kron(mask.bits, patch).astype(bool)


def psnr_db(
    picture: NDArray[np.uint8], expected: NDArray[np.uint8], mask: TokenMask | None = None
) -> float:
    """Peak signal-to-noise ratio, 10 log10(255^2 / mean squared error), at most `MAX_DB`.

    Args:
        picture: (H, W, 3) uint8.
        expected: the same shape.
        mask: count only the pixels of its active tokens; None counts all.

    Raises:
        InputError: pictures of two sizes, or a mask of another.
    """
    if picture.shape != expected.shape:
        raise InputError(f"pictures of two shapes: {picture.shape} and {expected.shape}")
    difference = picture.astype(np.float64) - expected.astype(np.float64)
    if mask is not None:
        pixels = mask_pixels(mask)
        if pixels.shape != picture.shape[:2]:
            raise InputError(f"the mask covers {pixels.shape} px, the picture {picture.shape[:2]}")
        difference = difference[pixels]
    return db_of(float(np.mean(difference**2)) / _PEAK**2)


def db_of(mse: float) -> float:
    """PSNR in dB of a mean squared error in units of the full range, at most `MAX_DB`."""
    if mse <= 0:
        return MAX_DB
    return min(MAX_DB, -10 * math.log10(mse))
