"""What every codec takes and gives: token tiles in, layers of bytes out. Knows no codec in
particular."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from numpy.typing import NDArray

from sakura.errors import CodecError

Array = NDArray[Any]

TILE_TOKENS = 64
MAX_TOKENS = 1 << 16
MAX_GAIN = 32
"""Gains are integers in quarter octaves, -32 .. 32: at most 8 octaves finer or coarser."""
MAX_LAYERS = 4


@dataclass(frozen=True, slots=True)
class TilePlan:
    """How the tokens of a shard, in importance order, are cut into tiles.

    Args:
        widths: tokens of each tile, 1..64.
        gains: precision of each tile in quarter octaves: its step is the shard's step over
            2^(gain/4).

    Raises:
        CodecError: lengths differ or a number is out of range.
    """

    widths: tuple[int, ...]
    gains: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse what no stream may describe."""
        if len(self.widths) != len(self.gains):
            raise CodecError(f"{len(self.widths)} tile widths but {len(self.gains)} gains")
        for width in self.widths:
            if not 1 <= width <= TILE_TOKENS:
                raise CodecError(f"a tile has {width} tokens, expected 1..{TILE_TOKENS}")
        for gain in self.gains:
            if not -MAX_GAIN <= gain <= MAX_GAIN:
                raise CodecError(f"tile gain {gain} is outside -{MAX_GAIN}..{MAX_GAIN}")
        if self.num_tokens > MAX_TOKENS:
            raise CodecError(f"{self.num_tokens} tokens, at most {MAX_TOKENS} allowed")

    @property
    def num_tokens(self) -> int:
        """Tokens of all tiles."""
        return sum(self.widths)

    @property
    def starts(self) -> tuple[int, ...]:
        """Index of the first token of each tile."""
        return tuple(accumulate(self.widths, initial=0))[:-1]

    @classmethod
    def uniform(cls, num_tokens: int, gain: int = 0) -> TilePlan:
        """Tiles of 64 tokens (the last may be shorter), all with the same gain."""
        full, rest = divmod(num_tokens, TILE_TOKENS)
        widths = (TILE_TOKENS,) * full + ((rest,) if rest else ())
        return cls(widths=widths, gains=(gain,) * len(widths))


@dataclass(frozen=True, slots=True)
class LayerStats:
    """Distortion after a layer, as mean squares over the coefficients of each plane.

    Args:
        num_bytes: size of the layer's stream.
        distortion: mean squared error by plane.
        weighted: the same with each tile's error scaled by 2^(gain/2), the square of its gain (by
            plane).
        clipped: share of all values that lie beyond what the layer can express.
    """

    num_bytes: int
    distortion: tuple[float, float]
    weighted: tuple[float, float]
    clipped: float


@dataclass(frozen=True, slots=True)
class EncodedShard:
    """One shard as bytes: the base layer, then the refinements, with what each is worth.

    Args:
        layers: the streams.
        stats: one entry a layer.
        energy: mean square by plane, that is the distortion when nothing arrived.
        weighted_energy: the same weighted like `LayerStats.weighted`.
    """

    layers: tuple[bytes, ...]
    stats: tuple[LayerStats, ...]
    energy: tuple[float, float]
    weighted_energy: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """Which shard, cut how: everything besides the profile that fixes the meaning of its streams.

    Args:
        block: transformer block.
        component: coefficient of the step axis.
        delta: base step of each plane in coefficient units, positive.
        tiles: the token tiles.
    """

    block: int
    component: int
    delta: tuple[float, float]
    tiles: TilePlan


class ShardDecoder(Protocol):
    """Decodes one shard, layer after layer."""

    @property
    def level(self) -> int:
        """Number of layers decoded completely."""
        ...

    @property
    def num_layers(self) -> int:
        """Number of layers this codec can decode for a shard."""
        ...

    def feed_layer(self, layer: int, data: bytes | memoryview, complete: bool) -> int:
        """Decode layer `layer`, which must equal `level`; see `docs/codec.md`.

        Args:
            layer: index of the layer.
            data: the stream, or a prefix of it. A later call may bring a longer prefix of the same
                layer.
            complete: the stream is whole: any misfit raises, and `level` goes up.

        Returns:
            Number of columns decoded in this layer.

        Raises:
            CodecError: the layer is out of turn, or a complete stream does not end cleanly.
        """
        ...

    def coefficients(self) -> Array:
        """Float32 (2, N, H*Dh): coefficients as far as they are known, tokens in importance
        order."""
        ...

    def reconstruct(self, out: Array, is_update: bool = False) -> None:
        """Write K and V of the component in channel space.

        Args:
            out: (2, N, H, Dh), contiguous; float32, or uint16 for the bits of bfloat16.
            is_update: `out` holds what the last call wrote: only what changed since is written.
        """
        ...


class Codec(Protocol):
    """Turns the coefficients of a shard into layers and back."""

    id: str
    """Name in the manifest, with the version of the stream."""

    def encode_shard(
        self, spec: ShardSpec, coef: Array, num_layers: int = MAX_LAYERS
    ) -> EncodedShard:
        """Encode float32 (2, N, H*Dh) coefficients.

        Raises:
            CodecError: shape mismatch, NaN or infinity, or a spec the profile does not cover.
        """
        ...

    def decoder(self, spec: ShardSpec) -> ShardDecoder:
        """A decoder at level 0.

        Raises:
            CodecError: a spec the profile does not cover.
        """
        ...
