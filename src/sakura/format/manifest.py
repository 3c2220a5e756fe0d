"""The manifest: what a bundle says about itself, as frozen structs. docs/format.md is normative.

Decoding checks types and ranges of single values; validate.py, how values fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from sakura.format.fields import AboveZero, Count, Gain, HexDigest, Name, Positive, Text
from sakura.format.shard import Shard
from sakura.grid import TokenGrid, TokenMask


class Canary(Struct, frozen=True, kw_only=True):
    """A few K/V values of the capture; a model that reproduces them is close enough."""

    values: bytes
    tolerance: AboveZero

    @property
    def array(self) -> NDArray[np.float16]:
        return np.frombuffer(self.values, "<f2")


class Model(Struct, frozen=True, kw_only=True):
    """The model the state was captured from: hard key (names, digests), soft key (canary)."""

    family: Name
    class_name: Name
    config_digest: HexDigest
    weights_digest: HexDigest
    adapters: tuple[Name, ...] = ()
    canary: Canary | None = None


class Schedule(Struct, frozen=True, kw_only=True):
    """The scheduler's name and its S + 1 noise levels, from the first step's to 0."""

    name: Name
    sigmas: tuple[float, ...]

    @property
    def num_steps(self) -> int:
        return len(self.sigmas) - 1


class Noise(Struct, frozen=True, kw_only=True):
    """Where the cached tokens' noise comes from; the user's seed drives only the active ones."""

    generator: Name
    seed: Count


class Geometry(Struct, frozen=True, kw_only=True):
    """Blocks in execution order: num_double double blocks, then num_single single ones."""

    num_double: Count
    num_single: Count
    num_heads: Positive
    head_dim: Positive

    @property
    def num_blocks(self) -> int:
        return self.num_double + self.num_single


class Grid(Struct, frozen=True, kw_only=True):
    """The token grid as written; `Manifest.token_grid` is the value to work with."""

    height: Positive
    width: Positive
    patch_px: Positive


class Rope(Struct, frozen=True, kw_only=True):
    """Whether stored keys are from before or after RoPE; null for a model without it."""

    form: Literal["pre", "post"]
    theta: AboveZero
    axes: tuple[Count, ...]


class Blob(Struct, frozen=True, kw_only=True):
    """Bytes in the data that are no shard's."""

    offset: Count
    length: Count
    digest: bytes
    media_type: Name


class Template(Struct, frozen=True, kw_only=True):
    """The public picture; `digest` is of its RGB pixels, row-major, 8 bits each."""

    digest: HexDigest
    width: Positive
    height: Positive
    blob: Blob | None = None


class Codec(Struct, frozen=True, kw_only=True):
    """Which codec wrote the layers, with which model-wide profile."""

    id: Name
    profile_digest: HexDigest
    parameters: dict[str, Any] = {}


class Tiles(Struct, frozen=True, kw_only=True):
    """Tiles of cached tokens: how many each has, and per block its precision."""

    widths: tuple[Positive, ...]
    gains: tuple[tuple[Gain, ...], ...]


class Predicted(Struct, frozen=True, kw_only=True):
    """What to expect of each level: PSNR in dB of the edit against uncompressed state."""

    levels: tuple[float, ...]


class Provenance(Struct, frozen=True, kw_only=True):
    """How the capture came about, for people; it changes nothing a player does."""

    seed: Count
    reference: Text
    calibration: Text


class Manifest(Struct, frozen=True, kw_only=True):
    """Everything a player knows before it fetches a shard. Offsets count from the data start."""

    format: tuple[Count, Count]
    tool: Name
    model: Model
    schedule: Schedule
    noise: Noise
    reuse: Literal["mask", "reference"]
    geometry: Geometry
    grid: Grid
    mask: bytes
    task: Name
    conditioning: dict[str, Any]
    rope: Rope | None
    dtype: Literal["float32", "float16", "bfloat16"]
    template: Template
    codec: Codec
    token_tiles: bytes
    tiles: Tiles
    predicted: Predicted
    provenance: Provenance
    shards: tuple[Shard, ...] = ()

    @property
    def token_grid(self) -> TokenGrid:
        return TokenGrid(self.grid.height, self.grid.width, self.grid.patch_px)

    @property
    def token_mask(self) -> TokenMask:
        return TokenMask(self.token_grid, self.mask)

    @property
    def importance_order(self) -> NDArray[np.intp]:
        """Indices of the cached tokens as the state holds them: tile by tile, in raster order."""
        tiles = np.frombuffer(self.token_tiles, tile_dtype(len(self.tiles.widths)))
        order: NDArray[np.intp] = self.token_mask.cached[np.argsort(tiles, kind="stable")]
        return order

    @property
    def num_components(self) -> int:
        """Length of the step axis: a component per step, or one that serves all steps."""
        return self.schedule.num_steps if self.reuse == "mask" else 1

    @property
    def num_levels(self) -> int:
        return len(self.predicted.levels)


def tile_dtype(num_tiles: int) -> np.dtype[Any]:
    """How a tile's number is written in `token_tiles`: u8, or u16 where there are more than 256."""
    return np.dtype("<u1" if num_tiles <= 1 << 8 else "<u2")


def pack_tiles(order: NDArray[Any], widths: Sequence[int]) -> bytes:
    """`token_tiles` of cached tokens that are ordered tile by tile.

    Args:
        order: (N,) the tokens, or anything that rises with their place in the grid.
        widths: tokens of each tile.
    """
    tiles = np.repeat(np.arange(len(widths), dtype=tile_dtype(len(widths))), widths)
    return tiles[np.argsort(order)].tobytes()
