"""Exact training pairs: template, mask, reference and ground truth of the three editing tasks.

Everything the truth shows can be inferred from template, mask, placement and reference: the avatar
fills the placement (a square of whole tokens), so no flip, shift or scale is hidden from the model.
Inside the mask the truth is the edited scene, outside it is the template, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from backgrounds import TEST_FAMILIES, TRAIN_FAMILIES, background
from PIL import Image

TASKS = ("face-swap", "try-on", "into-scene")
CANVAS_PX, PATCH_PX, GRID, REFERENCE_PX = 128, 8, 16, 64
SIZES = (8, 9, 10)  # sides of the placement in tokens
_TARGET = {"face-swap": 1, "try-on": 2, "into-scene": 3}  # index in a quadruple


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an edit happens: its task, the avatar's square and the token mask."""

    task: str
    placement: tuple[int, int, int, int]  # top, left, height, width in tokens
    mask: np.ndarray  # (16, 16) bool


@dataclass(frozen=True, slots=True)
class Pairs:
    """A batch that shares one layout. Images are uint8, channels last."""

    layout: Layout
    template: np.ndarray  # (B, 128, 128, 3)
    truth: np.ndarray  # (B, 128, 128, 3)
    reference: np.ndarray  # (B, 64, 64, 3)


def token_mask(task: str, placement: tuple[int, int, int, int]) -> np.ndarray:
    """The tokens a task may change for an avatar in `placement`: (16, 16) bool."""
    top, left, n, _ = placement
    mask = np.zeros((GRID, GRID), bool)
    if task == "face-swap":
        mask[top : top + round(0.78 * n), left + round(0.12 * n) : left + round(0.88 * n)] = True
    elif task == "try-on":
        mask[top + round(0.66 * n) : top + n, left : left + n] = True
    else:
        mask[top : top + n, left : left + n] = True
    return mask


def draw_layout(rng: np.random.Generator, task: str, vary_mask: bool) -> Layout:
    """Draw a placement; with `vary_mask` sometimes a larger or a rounded mask."""
    n = int(rng.choice(SIZES))
    top = GRID - n - (int(rng.integers(0, 3)) if rng.random() < 0.2 else 0)
    placement = (top, int(rng.integers(0, GRID - n + 1)), n, n)
    mask = token_mask(task, placement)
    if vary_mask and rng.random() < 0.3:
        if rng.random() < 0.5:
            grown = np.pad(mask, 1)
            grown = np.any([np.roll(grown, s, a) for s in (-1, 0, 1) for a in (0, 1)], axis=0)
            mask = grown[1:-1, 1:-1]
        else:
            rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            for y in (rows[0], rows[-1]):
                mask[y, [cols[0], cols[-1]]] = False
    return Layout(task, placement, mask)


def shrink(avatar: np.ndarray, side: int) -> np.ndarray:
    """Resize a premultiplied avatar to (side, side, 4) uint16.

    Pillow would take RGBA for straight alpha and multiply again; RGBa is its premultiplied mode.
    """
    height, width, _ = avatar.shape
    image = Image.frombytes("RGBa", (width, height), np.ascontiguousarray(avatar).tobytes())
    small = image.resize((side, side), Image.Resampling.BOX)
    return np.frombuffer(small.tobytes(), np.uint8).reshape(side, side, 4).astype(np.uint16)


def paste(
    avatar: np.ndarray, scene: np.ndarray, placement: tuple[int, int, int, int]
) -> np.ndarray:
    """Composite a premultiplied avatar into its placement; returns a new scene."""
    top, left, n, _ = placement
    small = shrink(avatar, n * PATCH_PX)
    y, x = top * PATCH_PX, left * PATCH_PX
    out = scene.copy()
    window = out[y : y + n * PATCH_PX, x : x + n * PATCH_PX]
    window[:] = np.minimum(small[..., :3] + window * (255 - small[..., 3:]) // 255, 255)
    return out


class PairSource:
    """Composites batches from rendered quadruples; decided by the pool and the generator."""

    def __init__(self, pool: Path, rng: np.random.Generator, test: bool) -> None:
        self.rng, self.test, self._folder = rng, test, pool
        self._files: list[np.ndarray] = []
        families = TEST_FAMILIES if test else TRAIN_FAMILIES
        count = 150 if test else 1500
        size = CANVAS_PX + 32
        self._backgrounds = np.stack([background(rng, size, families) for _ in range(count)])
        self.refresh()

    def refresh(self) -> int:
        """Map files that appeared since the last call; returns the number of quadruples."""
        prefix = "test" if self.test else "quads"
        paths = sorted(p for p in self._folder.glob(f"{prefix}-*.npy") if ".part" not in p.name)
        for path in paths[len(self._files) :]:
            self._files.append(np.load(path, mmap_mode="r"))
        return sum(len(f) for f in self._files)

    def quadruple(self, index: int | None = None) -> np.ndarray:
        """One quadruple, (4, 128, 128, 4) uint8, by index or at random, with colours varied."""
        if index is not None:
            return np.asarray(self._files[0][index])
        file = self._files[int(self.rng.integers(len(self._files)))]
        quad = np.asarray(file[int(self.rng.integers(len(file)))])
        if self.rng.random() < 0.3:  # other colours of the same drawing
            quad = quad[..., [*self.rng.permutation(3), 3]]
        return quad

    def scene(self) -> np.ndarray:
        """A background, (128, 128, 3) uint8."""
        y, x = self.rng.integers(0, 33, 2)
        chosen = self._backgrounds[int(self.rng.integers(len(self._backgrounds)))]
        crop = chosen[y : y + CANVAS_PX, x : x + CANVAS_PX]
        return crop[:, ::-1] if self.rng.random() < 0.5 else crop

    def reference(self, avatar: np.ndarray) -> np.ndarray:
        """The user's picture: the avatar before a plain wall, (64, 64, 3) uint8."""
        small = shrink(avatar, REFERENCE_PX)
        wall = self.rng.uniform(60, 250, 3) + self.rng.uniform(-20, 20, 3) * np.linspace(
            -1, 1, REFERENCE_PX
        ).reshape(-1, 1, 1)
        wall = np.broadcast_to(np.clip(wall, 0, 255), (REFERENCE_PX, REFERENCE_PX, 3))
        over = small[..., :3] + wall * (255 - small[..., 3:]) / 255
        return np.minimum(over, 255).astype(np.uint8)

    def pairs(self, layout: Layout, quads: list[np.ndarray]) -> Pairs:
        """Build the pairs of one layout from quadruples."""
        pixels = np.kron(layout.mask, np.ones((PATCH_PX, PATCH_PX), bool))[..., None]
        templates, truths, references = [], [], []
        for quad in quads:
            scene = self.scene()
            before = (
                scene if layout.task == "into-scene" else paste(quad[0], scene, layout.placement)
            )
            after = paste(quad[_TARGET[layout.task]], scene, layout.placement)
            templates.append(before)
            truths.append(np.where(pixels, after, before))
            references.append(self.reference(quad[3]))
        return Pairs(layout, np.stack(templates), np.stack(truths), np.stack(references))

    def batch(self, task: str, count: int) -> Pairs:
        """Draw a training batch."""
        layout = draw_layout(self.rng, task, vary_mask=True)
        return self.pairs(layout, [self.quadruple() for _ in range(count)])
