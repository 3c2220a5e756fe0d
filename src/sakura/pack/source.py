"""A template from a picture and a mask in files."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

from sakura.errors import InputError
from sakura.images import load_mask, load_rgb
from sakura.models.base import Adapter, Template
from sakura.pack.families import Placement, family_of


class TemplateOptions(TypedDict, total=False):
    """What may be said about a template besides its files.

    Keys:
        placement: (top, left, height, width) in tokens of the reference's content.
        noise_seed: seed of the cached tokens' noise.
    """

    placement: Placement | None
    noise_seed: int


def load_template(
    path: str | Path,
    mask_path: str | Path,
    task: str,
    *,
    adapter: Adapter,
    **options: Unpack[TemplateOptions],
) -> Template:
    """Read a template.

    Args:
        path: picture of the model's canvas size.
        mask_path: mask of the same size, white where the edit happens.
        task: name of the editing task.
        adapter: the model it is for.
        options: see `TemplateOptions`.

    Raises:
        InputError: a file that is no such picture, or a seed or placement that cannot be.
    """
    image, grid = load_rgb(path), adapter.token_grid
    if image.shape[:2] != grid.size_px:
        height, width = grid.size_px
        raise InputError(
            f"the template is {image.shape[1]} x {image.shape[0]} px, expected {width} x {height}",
            where=str(path),
            hint="crop and scale it to the model's canvas, and the mask with it",
        )
    seed, placement = options.get("noise_seed", 0), options.get("placement")
    if not 0 <= seed < 1 << 53:
        raise InputError(f"noise seed {seed}, expected 0 to 2^53 - 1")
    conditioning = {} if placement is None else {"placement": _checked(placement)}
    template = Template(image, load_mask(mask_path, grid), task, conditioning, seed)
    return family_of(adapter.identity().family).settled(template)


def _checked(placement: Placement) -> list[int]:
    if len(placement) != 4 or min(placement[2:]) < 1:
        raise InputError(
            f"placement {tuple(placement)}, expected top, left, height, width in tokens",
            hint="height and width are at least 1",
        )
    return [int(v) for v in placement]
