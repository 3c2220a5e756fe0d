"""Neutral references: public pictures that stand for the user's while the packager runs the model.

None of them comes from a user, so nothing private can reach a bundle.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.errors import InputError
from sakura.images import load_rgb
from sakura.models.base import Template

Array = NDArray[Any]

KINDS = ("grey", "mean", "own")
"""Mid-grey; the mean of many toon portraits; the template's own content at the placement."""
ASSET = "references.png"
SIDE_PX = 64
_GREY = 128


def neutral_reference(kind: str, template: Template) -> Array:
    """The picture to capture a template with, (h, w, 3) uint8.

    Raises:
        InputError: no such kind.
    """
    if kind == "grey":
        return np.full((SIDE_PX, SIDE_PX, 3), _GREY, np.uint8)
    if kind == "mean":
        return _strip()[0]
    if kind == "own":
        return own_region(template)
    raise InputError(f"unknown neutral reference {kind!r}", hint=f"known: {', '.join(KINDS)}")


def calibration_references(count: int) -> list[Array]:
    """The first portraits of the shipped ones, each (64, 64, 3) uint8; none is a capture's.

    Raises:
        InputError: more than there are.
    """
    portraits = _strip()[1:]
    if not 1 <= count <= len(portraits):
        raise InputError(f"{count} calibration edits, expected 1 to {len(portraits)}")
    return list(portraits[:count])


def own_region(template: Template) -> Array:
    """What the template shows where the reference's content goes; edges repeat off the canvas."""
    height, width = template.mask.grid.size_px
    side = template.mask.grid.patch_px
    top, left, tall, wide = (side * v for v in _placement(template))
    rows = np.clip(np.arange(top, top + tall), 0, height - 1)
    columns = np.clip(np.arange(left, left + wide), 0, width - 1)
    return np.ascontiguousarray(template.image[np.ix_(rows, columns)])


def _placement(template: Template) -> tuple[int, int, int, int]:
    """The recorded placement, else the mask's bounding box: top, left, height, width in tokens."""
    if "placement" in template.conditioning:
        top, left, tall, wide = template.conditioning["placement"]
        return top, left, max(tall, 1), max(wide, 1)
    rows, columns = np.nonzero(template.mask.bits)
    top, left = int(rows.min()), int(columns.min())
    return top, left, int(rows.max()) - top + 1, int(columns.max()) - left + 1


@cache
def _strip() -> Array:
    """(n, 64, 64, 3): the mean portrait, then single ones, side by side in the asset."""
    with as_file(files("sakura").joinpath("assets", ASSET)) as path:
        pixels = load_rgb(path)
    return pixels.reshape(SIDE_PX, -1, SIDE_PX, 3).transpose(1, 0, 2, 3)
