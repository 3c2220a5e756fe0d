"""Side-by-side sheets: template, mask, private reference, results and their difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sakura.errors import InputError
from sakura.grid import TokenMask

Pixels = NDArray[np.uint8]
Panel = tuple[str, str, Pixels]
"""Caption, second line, (H, W, 3) picture."""

PANEL_PX = 384
_GAP, _TITLE, _CAPTION, _COLUMNS = 16, 52, 68, 3
_PAPER, _INK, _FAINT = (255, 255, 255), (31, 41, 55), (107, 114, 128)
DIFFERENCE_GAIN = 8


def difference(picture: Pixels, expected: Pixels, gain: int = DIFFERENCE_GAIN) -> Pixels:
    """Absolute difference of two pictures, amplified and clipped."""
    if picture.shape != expected.shape:
        raise InputError(f"pictures of two shapes: {picture.shape} and {expected.shape}")
    wide = np.abs(picture.astype(np.int32) - expected.astype(np.int32)) * gain
    return np.minimum(wide, 255).astype(np.uint8)


def show_mask(template: Pixels, mask: TokenMask) -> Pixels:
    """The template with everything but the active tokens darkened."""
    patch = np.ones((mask.grid.patch_px, mask.grid.patch_px), bool)
    pixels = np.kron(mask.bits, patch)[..., None]
    if pixels.shape[:2] != template.shape[:2]:
        raise InputError(f"the mask covers {pixels.shape[:2]} px, template {template.shape[:2]}")
    return np.where(pixels, template, template // 4).astype(np.uint8)


def make_sheet(panels: Sequence[Panel], title: str) -> Pixels:
    """Panels in rows of three, enlarged without smoothing, captions below each.

    Args:
        panels: what to show; pictures that are not square are fitted into one.
        title: above all of them.

    Returns:
        (H, W, 3) uint8.
    """
    num_rows = -(-len(panels) // _COLUMNS)
    height = _TITLE + num_rows * (PANEL_PX + _CAPTION) + _GAP
    sheet = Image.new("RGB", (_GAP + _COLUMNS * (PANEL_PX + _GAP), height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_GAP, 10), title, font=_font(26), fill=_INK)
    for index, (caption, detail, pixels) in enumerate(panels):
        row, column = divmod(index, _COLUMNS)
        left, top = _GAP + column * (PANEL_PX + _GAP), _TITLE + row * (PANEL_PX + _CAPTION)
        sheet.paste(_enlarged(pixels), (left, top))
        draw.text((left, top + PANEL_PX + 6), caption, font=_font(22), fill=_INK)
        draw.text((left, top + PANEL_PX + 34), detail, font=_font(18), fill=_FAINT)
    return np.asarray(sheet)


def _enlarged(pixels: Pixels) -> Image.Image:
    """The largest whole multiple that fits a panel, centred; a smaller copy of a large picture."""
    image = Image.fromarray(pixels)
    longest = max(image.size)
    if longest > PANEL_PX:
        image.thumbnail((PANEL_PX, PANEL_PX))
    else:
        factor = PANEL_PX // longest
        size = image.width * factor, image.height * factor
        image = image.resize(size, Image.Resampling.NEAREST)
    panel = Image.new("RGB", (PANEL_PX, PANEL_PX), (243, 244, 246))
    panel.paste(image, ((PANEL_PX - image.width) // 2, (PANEL_PX - image.height) // 2))
    return panel


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
