"""How close two pictures are where the edit is: PSNR over the pixels of the active tokens. Pure."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sakura.errors import InputError
from sakura.grid import TokenMask

MAX_DB = 100.0
"""Stands for identical pictures, so that means and JSON stay finite: an MSE of 1e-10."""
_PEAK = 255.0

Pixels = NDArray[np.uint8]


def mask_pixels(mask: TokenMask) -> NDArray[np.bool_]:
    """(H, W) booleans: which pixels the active tokens cover."""
    patch = np.ones((mask.grid.patch_px, mask.grid.patch_px), bool)
    return np.kron(mask.bits, patch).astype(bool)


def mse(picture: Pixels, expected: Pixels, mask: TokenMask | None = None) -> float:
    """Mean squared difference of two pictures; 1 is black against white.

    Args:
        picture: (H, W, 3) uint8.
        expected: the same shape.
        mask: count only the pixels of its active tokens; None counts all.

    Raises:
        InputError: pictures of two sizes, or a mask of another.
    """
    if picture.shape != expected.shape:
        raise InputError(f"pictures of two shapes: {picture.shape} and {expected.shape}")
    difference = picture.astype(np.float64) - expected
    if mask is not None:
        pixels = mask_pixels(mask)
        if pixels.shape != picture.shape[:2]:
            raise InputError(f"the mask covers {pixels.shape} px, the picture {picture.shape[:2]}")
        difference = difference[pixels]
    return float(np.square(difference / _PEAK).mean())


def psnr_db(picture: Pixels, expected: Pixels, mask: TokenMask | None = None) -> float:
    """Peak signal-to-noise ratio, 10 log10(1 / MSE), at most `MAX_DB`; arguments as for `mse`."""
    return to_db(mse(picture, expected, mask))


def to_db(mse: float) -> float:
    """PSNR in dB of a mean squared error in units of the full range, at most `MAX_DB`."""
    return min(-10 * math.log10(mse), MAX_DB) if mse > 0 else MAX_DB


def to_mse(psnr_db: float) -> float:
    """Inverse of `to_db`."""
    return float(10 ** (-psnr_db / 10))
