"""`raw-bf16/1`: K and V as bfloat16, no transform, one layer. The baseline of uncompressed
streaming."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.base import MAX_LAYERS, EncodedShard, LayerStats, ShardSpec
from sakura.codec.bf16 import from_bf16, to_bf16
from sakura.codec.pipeline import check_coefficients, mean_squares
from sakura.codec.profile import CodecProfile
from sakura.codec.transform import rotate_back
from sakura.errors import CodecError

Array = NDArray[Any]


class RawCodec:
    """Rows of bfloat16, first K of every token, then V. A row is what a column is to the other
    codec."""

    id = "raw-bf16/1"

    def __init__(self, profile: CodecProfile) -> None:
        """Use an identity profile (`profile.identity_profile`) to stream states themselves."""
        self.profile = profile

    def encode_shard(
        self, spec: ShardSpec, coef: Array, num_layers: int = MAX_LAYERS
    ) -> EncodedShard:
        """See `Codec.encode_shard`; always one layer. CodecError when a value overflows
        bfloat16."""
        check_coefficients(coef, spec.tiles.num_tokens, self.profile.num_coefs)
        bits = to_bf16(coef)
        plain, weighted = mean_squares(coef - from_bf16(bits), spec.tiles)
        data = bits.astype("<u2").tobytes()
        stats = LayerStats(num_bytes=len(data), distortion=plain, weighted=weighted, clipped=0.0)
        return EncodedShard((data,), (stats,), *mean_squares(coef, spec.tiles))

    def decoder(self, spec: ShardSpec) -> RawShardDecoder:
        """See `Codec.decoder`."""
        return RawShardDecoder(self.profile, spec)


class RawShardDecoder:
    """Rows decoded so far; see `ShardDecoder`."""

    num_layers = 1

    def __init__(self, profile: CodecProfile, spec: ShardSpec) -> None:
        """Every coefficient starts at zero."""
        self._values = np.zeros((2 * spec.tiles.num_tokens, profile.num_coefs), np.float32)
        basis = profile.channel_synthesis[spec.block]
        is_plain = basis.shape[1] == basis.shape[2] and (basis == np.eye(basis.shape[1])).all()
        self._basis = None if is_plain else basis
        self._level = 0

    @property
    def level(self) -> int:
        """1 once the layer is complete."""
        return self._level

    def feed_layer(self, layer: int, data: bytes | memoryview, complete: bool) -> int:
        """See `ShardDecoder.feed_layer`; returns whole rows."""
        if layer != self._level or layer != 0:
            raise CodecError(f"layer {layer} out of turn, a raw shard has one layer")
        num_rows, num_coefs = self._values.shape
        expected = 2 * num_rows * num_coefs
        if complete and len(data) != expected:
            raise CodecError(f"a raw shard has {expected} bytes, found {len(data)}")
        num_whole = min(len(data) // (2 * num_coefs), num_rows)
        values = from_bf16(np.frombuffer(data[: 2 * num_whole * num_coefs], "<u2"))
        if complete and not np.isfinite(values).all():
            raise CodecError("a raw shard contains NaN or infinity")
        finite = np.nan_to_num(values, posinf=0, neginf=0)
        self._values[:num_whole] = finite.reshape(num_whole, num_coefs)
        self._values[num_whole:] = 0
        self._level = int(complete)
        return num_whole

    def coefficients(self) -> Array:
        """Float32 (2, N, H*Dh)."""
        return self._values.reshape(2, -1, self._values.shape[1]).copy()

    def reconstruct(self, out: Array, is_update: bool = False) -> None:
        """See `ShardDecoder.reconstruct`; writes all of it."""
        coef = self._values.reshape(2, -1, self._values.shape[1])
        values = coef if self._basis is None else rotate_back(self._basis, coef)
        out.reshape(values.shape)[:] = values if out.dtype == np.float32 else to_bf16(values)
