"""How pictures, prompts and placements become inputs of the mini model. No network here."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from sakura.errors import InputError
from sakura.models.base import Template
from sakura.models.mini_net import GRID, PATCH_PX, PROMPTS, REFERENCE_GRID, patchify

Placement = tuple[int, int, int, int]
"""(top, left, height, width) in tokens; may reach beyond the canvas."""


def image_tokens(image: np.ndarray) -> torch.Tensor:
    """(H, W, 3) uint8 to (1, N, 192) in [-1, 1]."""
    x = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    return patchify(x / 127.5 - 1)


def fit_reference(image: np.ndarray) -> np.ndarray:
    """Centre-crop to a square and resize to the model's reference size, (64, 64, 3) uint8."""
    side = min(image.shape[:2])
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    square = Image.fromarray(image[top : top + side, left : left + side])
    size = REFERENCE_GRID * PATCH_PX
    if side != size:
        square = square.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(square)


def default_placement(template: Template) -> Placement:
    """Where the reference's content belongs: a square of tokens around the mask.

    The mini model's tasks relate mask and person as its training pairs do: a face mask is the upper
    three quarters of the person's square, a garment mask the lower third, a scene mask all of it.
    """
    ys, xs = np.divmod(template.mask.active, GRID)
    top, left = int(ys.min()), int(xs.min())
    height, width = int(ys.max()) - top + 1, int(xs.max()) - left + 1
    if template.task == "face-swap":
        side = max(round(height / 0.78), round(width / 0.76))
        return top, left + (width - side) // 2, side, side
    if template.task == "try-on":
        return top + height - width, left, width, width
    side = max(height, width)
    return top + height - side, left + (width - side) // 2, side, side


def placement_of(template: Template) -> Placement:
    """The placement from the template's conditioning, or the task's default.

    Raises:
        InputError: the conditioning holds something else than four small integers.
    """
    given = template.conditioning.get("placement")
    if given is None:
        return default_placement(template)
    is_list = isinstance(given, list | tuple) and len(given) == 4
    if not is_list or not all(isinstance(v, int) and abs(v) <= 4 * GRID for v in given):
        raise InputError(f"placement must be four small integers, found {given!r}")
    top, left, height, width = given
    return top, left, height, width


def prompt_index(template: Template, prompt: str | None) -> int:
    """Map a prompt, or the template's task, to the model's prompt table.

    Raises:
        InputError: the model does not know the prompt.
    """
    name = template.task if prompt is None else prompt
    if name not in PROMPTS:
        raise InputError(
            f"unknown prompt {name!r} for the mini model",
            hint=f"it knows: {', '.join(PROMPTS)}",
        )
    return PROMPTS.index(name)


def check_seed(seed: int) -> None:
    """Raise InputError unless the seed is one the noise generator takes."""
    if not 0 <= seed < 1 << 64:
        raise InputError(f"seed {seed} is out of range", hint="give 0 to 2^64 - 1")


def check_template(template: Template) -> None:
    """Raise InputError unless the template fits the mini model's canvas and tasks."""
    side = GRID * PATCH_PX
    image = template.image
    if image.shape != (side, side, 3) or image.dtype != np.uint8:
        raise InputError(
            f"template is {image.shape} {image.dtype}, expected ({side}, {side}, 3) uint8",
            hint=f"resize the picture to {side} x {side} pixels",
        )
    if template.task not in PROMPTS:
        raise InputError(f"unknown task {template.task!r}", hint=f"tasks: {', '.join(PROMPTS)}")
    if template.mask.bits.shape != (GRID, GRID):
        raise InputError(f"mask has {template.mask.bits.shape} tokens, expected (16, 16)")
