"""`sakura-klt-rans/1`: plans, quantises and entropy-codes a shard, and decodes any prefix of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.base import MAX_LAYERS, EncodedShard, LayerStats, ShardSpec, TilePlan
from sakura.codec.kernel import Kernel, Standing, Target
from sakura.codec.native import default_kernel
from sakura.codec.plan import LayerPlan, ShardPlan, gain_factor, plan_shard
from sakura.codec.profile import CodecProfile
from sakura.codec.quantize import UNSTARTED
from sakura.codec.rans import check_clean
from sakura.errors import CodecError

Array = NDArray[Any]


class SakuraCodec:
    """Encoder and decoder factory for one profile."""

    id = "sakura-klt-rans/1"

    def __init__(self, profile: CodecProfile, kernel: Kernel | None = None) -> None:
        """Use `kernel`, by default the fastest there is."""
        self.profile = profile
        self.kernel = kernel or default_kernel()

    def plan(self, spec: ShardSpec) -> ShardPlan:
        """Columns of a shard; CodecError when the profile does not cover it."""
        num_blocks, num_steps, _, _ = self.profile.dims
        if not (0 <= spec.block < num_blocks and 0 <= spec.component < num_steps):
            raise CodecError(
                f"shard (block {spec.block}, component {spec.component}) is outside the profile's "
                f"{num_blocks} blocks x {num_steps} components"
            )
        sigma = self.profile.sigma[spec.block, :, spec.component].reshape(2, -1)
        return plan_shard(sigma, self.profile.tables.limits, spec.delta, spec.tiles)

    def encode_shard(
        self, spec: ShardSpec, coef: Array, num_layers: int = MAX_LAYERS
    ) -> EncodedShard:
        """See `Codec.encode_shard`; `coef` is float32 (2, N, H*Dh) in importance order."""
        if not 1 <= num_layers <= MAX_LAYERS:
            raise CodecError(f"{num_layers} layers, expected 1..{MAX_LAYERS}")
        coef = coef.astype(np.float32, copy=False)
        check_shape(coef, spec.tiles.num_tokens, self.profile.num_coefs)
        plan, tables = self.plan(spec), self.profile.tables
        values = self.kernel.quantize(tables, plan, coef, num_layers)
        # Squares of float32 cannot overflow a double: a sum is finite if every coefficient is.
        check_finite(values.energy)
        mean = _TileMean(spec.tiles, self.profile.num_coefs)
        layers, stats = [], []
        for layer in range(num_layers):
            data = self.kernel.encode_layer(tables, plan.layer(layer), values.index, values.finest)
            layers.append(data)
            clipped = float(values.clipped[layer] / max(coef.size, 1))
            stats.append(LayerStats(len(data), *mean.both(values.error[layer]), clipped))
        return EncodedShard(tuple(layers), tuple(stats), *mean.both(values.energy))

    def decoder(self, spec: ShardSpec) -> KltShardDecoder:
        """See `Codec.decoder`."""
        return KltShardDecoder(self.profile, spec.block, self.plan(spec), self.kernel)


@dataclass(frozen=True, slots=True)
class _TileMean:
    """Sums over tiles to means over all coefficients."""

    tiles: TilePlan
    num_coefs: int

    def both(self, sums: Array) -> tuple[tuple[float, float], tuple[float, float]]:
        """Means of K and of V of sums (T, 2), plain and weighted by the square of each gain."""
        count = max(self.tiles.num_tokens * self.num_coefs, 1)
        weight = np.array([gain_factor(g) ** 2 for g in self.tiles.gains], np.float64)
        plain, weighted = sums.sum(0) / count, weight @ sums / count
        return (float(plain[0]), float(plain[1])), (float(weighted[0]), float(weighted[1]))


def _moved(below: Standing, plan: LayerPlan, num_units: int, index: Array) -> Standing:
    """After the first `num_units` units of a layer turned the indices into `index`."""
    exponent, left = below.exponent.copy(), num_units
    # Exponents only fall within a layer, so the last unit of a column has the smallest.
    for first, count, _, _, reached in plan.runs.tolist():
        exponent[first : first + min(count, left)] = reached
        left -= min(count, left)
    return Standing(index, exponent)


class KltShardDecoder:
    """Indices of one shard and how fine each column stands; see `ShardDecoder`."""

    num_layers = MAX_LAYERS

    def __init__(self, profile: CodecProfile, block: int, plan: ShardPlan, kernel: Kernel) -> None:
        """A decoder that has seen nothing: every coefficient is zero."""
        self._tables, self._plan, self._kernel = profile.tables, plan, kernel
        self._basis = profile.channel_synthesis[block]
        # Below: the last complete layer. Now: what the layer in progress adds to it. Two arrays
        # take turns: fresh pages would cost more than decoding into them.
        index = np.zeros(2 * plan.num_coefs * plan.num_tokens, np.int16)
        self._spare: Array | None = np.zeros(len(index), np.int16)
        self._below = Standing(index, np.full(len(plan.order), UNSTARTED, np.int8))
        self._now = self._below
        self._level = 0
        self._given: Array | None = None

    @property
    def level(self) -> int:
        """Number of layers decoded completely."""
        return self._level

    def feed_layer(self, layer: int, data: bytes | memoryview, complete: bool) -> int:
        """See `ShardDecoder.feed_layer`. A complete stream that raises leaves the decoder as it
        was."""
        if layer != self._level:
            raise CodecError(f"layer {layer} out of turn, expected layer {self._level}")
        plan = self._plan.layer(layer)
        # A prefix that was fed before stays if this stream is refused, so it keeps its array.
        index, self._spare = self._spare, None
        if index is None:
            index = np.zeros(len(self._below.index), np.int16)
        if layer:
            np.copyto(index, self._below.index)
        num_units, is_clean = self._kernel.decode_layer(self._tables, plan, data, index)
        if complete:
            check_clean(is_clean, num_units, plan)
        self._now = _moved(self._below, plan, num_units, index)
        if complete:
            self._settle()
        return num_units

    def coefficients(self) -> Array:
        """Float32 (2, N, H*Dh), a view with the token axis contiguous."""
        out = np.empty(self._plan.shape, np.float32)
        self.dequantize(out)
        return out.transpose(0, 2, 1)

    def dequantize(self, out: Array) -> None:
        """Write the coefficients (2, H*Dh, N): float32, or uint16 for the bits of bfloat16."""
        self._kernel.dequantize(self._tables, self._plan, self._now, out)

    def reconstruct(self, out: Array, is_update: bool = False) -> None:
        """See `ShardDecoder.reconstruct`."""
        is_wanted = self._changed() if is_update else None
        target = Target(self._basis, out, is_wanted)
        self._kernel.reconstruct(self._tables, self._plan, self._now, target)
        self._given = self._now.exponent

    def _changed(self) -> Array | None:
        """Bool (T, G): tiles of groups with a column that moved since the last `reconstruct`."""
        if self._given is None:
            return None
        is_moved = self._plan.in_map(self._now.exponent != self._given)
        shape = (*is_moved.shape[:2], len(self._basis), -1)
        return np.ascontiguousarray(is_moved.reshape(shape).any((1, 3)))

    def _settle(self) -> None:
        self._spare, self._below = self._below.index, self._now
        self._level += 1


def check_coefficients(coef: Array, num_tokens: int, num_coefs: int) -> None:
    """Raise CodecError unless `coef` is a finite float array (2, num_tokens, num_coefs)."""
    check_shape(coef, num_tokens, num_coefs)
    check_finite(coef)


def check_shape(coef: Array, num_tokens: int, num_coefs: int) -> None:
    """Raise CodecError unless `coef` is (2, num_tokens, num_coefs)."""
    if coef.shape != (2, num_tokens, num_coefs):
        raise CodecError(f"coefficients are {coef.shape}, expected {(2, num_tokens, num_coefs)}")


def check_finite(values: Array) -> None:
    """Raise CodecError unless all values, or sums of their squares, are finite."""
    if not np.isfinite(values).all():
        raise CodecError("coefficients contain NaN or infinity", hint="check the captured state")


def mean_squares(values: Array, tiles: TilePlan) -> tuple[tuple[float, float], tuple[float, float]]:
    """Mean square of each plane (2, N, C), plain and with each tile scaled by the square of its
    gain."""
    gains = np.array([gain_factor(g) ** 2 for g in tiles.gains], np.float64)
    weight = np.repeat(gains, tiles.widths)
    square = np.square(values, dtype=np.float64).mean(2) if values.size else np.zeros((2, 1))
    plain = square.mean(1)
    weighted = (square * weight).mean(1) if values.size else plain
    return (float(plain[0]), float(plain[1])), (float(weighted[0]), float(weighted[1]))
