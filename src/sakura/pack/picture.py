"""The template picture as the smallest lossless file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sakura.format import Picture
from sakura.images import encode


def pack_picture(image: NDArray[Any]) -> Picture:
    """WebP or PNG, whichever is smaller, of an (H, W, 3) uint8 picture."""
    webp = encode(image, "WEBP", lossless=True, quality=100, method=6, exact=True)
    png = encode(image, "PNG", optimize=True)
    if len(webp) < len(png):
        return Picture(webp, "image/webp")
    return Picture(png, "image/png")
