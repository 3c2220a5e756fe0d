"""Which tokens a picture has, and which of them an edit may change. Pure geometry.

Tokens are numbered row by row from the top left. Active tokens are computed on the device; cached
tokens are the template's others, whose K/V are injected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.errors import InputError


@dataclass(frozen=True, slots=True)
class TokenGrid:
    """The (height, width) coordinates of tokens; each covers patch_px x patch_px pixels."""

    height: int
    width: int
    patch_px: int

    def __post_init__(self) -> None:
        for name in ("height", "width", "patch_px"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"a token grid has {name} {value}, expected at least 1")

    @property
    def num_tokens(self) -> int:
        return self.height * self.width

    @property
    def size_px(self) -> tuple[int, int]:
        """Height and width of the picture in pixels."""
        return self.height * self.patch_px, self.width * self.patch_px


@dataclass(frozen=True, slots=True)
class TokenMask:
    """One bit per token of a grid, set where the token is active.

    Args:
        grid: the grid the bits belong to.
        packed: the bits in row-major order, first token in the highest bit of the first byte;
            unused low bits of the last byte are zero.
    """

    grid: TokenGrid
    packed: bytes

    def __post_init__(self) -> None:
        expected = -(-self.grid.num_tokens // 8)
        if len(self.packed) != expected:
            raise InputError(f"a token mask has {len(self.packed)} bytes, expected {expected}")
        unused = 8 * expected - self.grid.num_tokens
        if self.packed[-1] & ((1 << unused) - 1):
            raise InputError(f"a token mask sets some of its last {unused} bits, expected zeros")

    @classmethod
    def from_bits(cls, grid: TokenGrid, bits: NDArray[np.bool_]) -> TokenMask:
        """A mask from a (height, width) array of booleans."""
        if bits.shape != (grid.height, grid.width):
            raise InputError(
                f"mask bits have shape {bits.shape}, expected {(grid.height, grid.width)}"
            )
        return cls(grid, np.packbits(bits.astype(bool).reshape(-1)).tobytes())

    @classmethod
    def from_image_array(cls, grid: TokenGrid, pixels: NDArray[Any]) -> TokenMask:
        """A mask from a pixel mask: a token is active if any pixel of its patch is not zero.

        Args:
            grid: the token grid of the picture.
            pixels: (height_px, width_px) of any numeric or boolean type.
        """
        if pixels.shape != grid.size_px:
            raise InputError(
                f"a pixel mask has shape {pixels.shape}, expected {grid.size_px}",
                hint="give a single-channel mask of the template picture's size",
            )
        patches = pixels.reshape(grid.height, grid.patch_px, grid.width, grid.patch_px)
        return cls.from_bits(grid, (patches != 0).any(axis=(1, 3)))

    @property
    def bits(self) -> NDArray[np.bool_]:
        """(height, width) booleans."""
        flat = np.unpackbits(np.frombuffer(self.packed, np.uint8), count=self.grid.num_tokens)
        return flat.astype(bool).reshape(self.grid.height, self.grid.width)

    @property
    def active(self) -> NDArray[np.intp]:
        """Indices of the active tokens, ascending."""
        return np.flatnonzero(self.bits)

    @property
    def cached(self) -> NDArray[np.intp]:
        """Indices of the cached tokens, ascending."""
        return np.flatnonzero(~self.bits)

    @property
    def num_active(self) -> int:
        return int.from_bytes(self.packed, "big").bit_count()

    @property
    def num_cached(self) -> int:
        return self.grid.num_tokens - self.num_active

    @property
    def ratio(self) -> float:
        """Share of the tokens that are active, 0 to 1."""
        return self.num_active / self.grid.num_tokens

    def dilate(self, rings: int) -> TokenMask:
        """The mask grown by `rings` tokens in all eight directions."""
        if rings < 0:
            raise InputError(f"dilate by {rings} rings, expected 0 or more")
        bits = self.bits
        for _ in range(min(rings, max(bits.shape))):
            padded = np.pad(bits, 1)
            rows = padded[:-2] | padded[1:-1] | padded[2:]
            bits = rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
        return replace(self, packed=np.packbits(bits.reshape(-1)).tobytes())

    def contains(self, other: TokenMask) -> bool:
        """Whether every active token of `other` is active here too."""
        if other.grid != self.grid:
            raise InputError(f"masks of two grids: {self.grid} and {other.grid}")
        mine = int.from_bytes(self.packed, "big")
        return mine | int.from_bytes(other.packed, "big") == mine
