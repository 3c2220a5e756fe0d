"""How fast coded shards become coefficients, and K and V, beside packaged coders and a plain copy.

CPU time of one thread, best of several runs, in one process. Decoding goes through the public codec
interface, so that whatever that does is what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines import Baseline
from sakura.bench.packaged_coders import PackagedCoder, packaged_coders
from sakura.codec import SakuraCodec, ShardDecoder, ShardSpec, TilePlan, identity_profile
from sakura.codec.pipeline import KltShardDecoder
from sakura.codec.quantize import layer_symbols, quantize_columns

Array = NDArray[Any]

REFERENCE_SHARD = (1024, 24, 128)
"""Tokens, heads, head dimension of the shard that speeds are compared on."""
NUM_LAYERS = 3
"""Base and two refinements."""
_BEYOND_CACHES = 64 << 20
EQUAL_SIZE = 1.05
"""A coder whose output is at most this many times ours counts as one of equal ratio."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedShards:
    """Shards as coefficients and as layers.

    Args:
        codec: encoder and decoder.
        coefs: float32 (2, N, C) by shard.
        layers: the first `NUM_LAYERS` streams by shard.
    """

    codec: SakuraCodec
    coefs: Mapping[ShardSpec, Array]
    layers: Mapping[ShardSpec, tuple[bytes, ...]]

    @property
    def num_values(self) -> int:
        """Values of all shards."""
        return sum(coef.size for coef in self.coefs.values())


def encode_shards(codec: SakuraCodec, coefs: Mapping[ShardSpec, Array]) -> CodedShards:
    """Encode shards."""
    layers = {spec: codec.encode_shard(spec, c, NUM_LAYERS).layers for spec, c in coefs.items()}
    return CodedShards(codec, coefs, layers)


def reference_shards(seed: int = 0) -> CodedShards:
    """One shard of `REFERENCE_SHARD` for K and V, Gaussian with a spectrum that falls like a KLT's:
    0.6 bits a value in the base layer. K and V of a head are transformed together, and as many
    coefficients are coded as the head has dimensions."""
    num_tokens, num_heads, head_dim = REFERENCE_SHARD
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(num_heads, 2 * head_dim, head_dim)))[0]
    spectrum = (2 * (1 + np.arange(head_dim) / 4) ** -0.75).astype(np.float32)
    profile = identity_profile(1, 1, num_heads, head_dim)
    sigma = np.zeros_like(profile.sigma)
    sigma[:, 0] = spectrum
    codec = SakuraCodec(replace(profile, sigma=sigma, channel_basis=basis[None].astype(np.float16)))
    coef = np.zeros((2, num_tokens, num_heads * head_dim), np.float32)
    coef[0] = rng.standard_normal(coef.shape[1:], np.float32) * np.tile(spectrum, num_heads)
    spec = ShardSpec(0, 0, (2.0, 2.0), TilePlan.uniform(num_tokens))
    return encode_shards(codec, {spec: coef})


def measure_speed(coded: CodedShards, repeats: int = 5) -> dict[str, Any]:
    """Speeds on shards; see the keys.

    Returns:
        `vs_best_packaged`: symbols a second of our entropy decoder over the fastest packaged
        coder of equal ratio, None where none is; `full_vs_memcpy`, `klt_domain_vs_memcpy`: time to
        copy the bfloat16 output over time to decode into channels, or into coefficients;
        `encode_mvalues_per_s`, `decode_mvalues_per_s` (into channels); what they are made from;
        `notes` on coders that are missing.
    """
    codec, num_values = coded.codec, coded.num_values
    entropy_s = best_s(lambda: _decode(coded, _feed), repeats)
    room = _Bf16(coded)
    klt_s = best_s(lambda: _decode(coded, room.coefficients), repeats)
    full_s = best_s(lambda: _decode(coded, room.channels), repeats)
    copy_s = memcpy_s(2 * num_values, repeats)
    encode_s = best_s(lambda: encode_shards(codec, coded.coefs), 2)
    blocks = symbol_blocks(coded)
    num_symbols = sum(map(len, blocks))
    ours: dict[str, Any] = {
        "coder": f"sakura ({codec.kernel.name})",
        "num_bytes": sum(len(d) for layers in coded.layers.values() for d in layers),
        "decode_msymbols_per_s": num_symbols / entropy_s / 1e6,
    }
    coders, notes = packaged_coders()
    others = [measure_coder(coder, blocks, repeats) for coder in coders]
    equal = [c for c in others if c["num_bytes"] <= EQUAL_SIZE * ours["num_bytes"]]
    fastest = max((c["decode_msymbols_per_s"] for c in equal), default=None)
    return {
        "vs_best_packaged": fastest and ours["decode_msymbols_per_s"] / fastest,
        "full_vs_memcpy": copy_s / full_s,
        "klt_domain_vs_memcpy": copy_s / klt_s,
        "encode_mvalues_per_s": num_values / encode_s / 1e6,
        "decode_mvalues_per_s": num_values / full_s / 1e6,
        "num_values": num_values,
        "num_symbols": num_symbols,
        "milliseconds": {
            "entropy": entropy_s * 1e3,
            "klt_domain": klt_s * 1e3,
            "full": full_s * 1e3,
            "memcpy": copy_s * 1e3,
        },
        "memcpy_gb_per_s": 2 * num_values / copy_s / 1e9,
        "coders": [ours, *others],
        "notes": notes,
    }


def measure_coder(coder: PackagedCoder, blocks: list[Array], repeats: int) -> dict[str, Any]:
    """Size and speed of a packaged coder, each class of symbols a block of its own."""
    coded = [coder.encode(block) for block in blocks]
    for data, block in zip(coded, blocks, strict=True):
        assert (coder.decode(data, len(block)) == block).all(), coder.name

    def decode() -> None:
        for data, block in zip(coded, blocks, strict=True):
            coder.decode(data, len(block))

    num_symbols = sum(map(len, blocks))
    encode_s = best_s(lambda: [coder.encode(block) for block in blocks], 2)
    return {
        "coder": coder.name,
        "num_bytes": sum(map(len, coded)),
        "decode_msymbols_per_s": num_symbols / best_s(decode, repeats) / 1e6,
        "encode_msymbols_per_s": num_symbols / encode_s / 1e6,
    }


def measure_baselines(
    baselines: Sequence[Baseline], state: Array, repeats: int
) -> list[dict[str, Any]]:
    """Speed of whole codecs at the middle one of their operating points, tables fitted before.

    They are written for their bytes, in numpy: CacheGen's own coder runs on a GPU.
    """
    rows = []
    for baseline in baselines:
        point = baseline.points[len(baseline.points) // 2]
        data = baseline.encode(state, point)
        times = (
            best_s(partial(baseline.encode, state, point), repeats),
            best_s(partial(baseline.decode, data), repeats),
        )
        encode_rate, decode_rate = (state.size / t / 1e6 for t in times)
        rows.append(
            {
                "codec": baseline.name,
                "point": f"{point:g}",
                "encode_mvalues_per_s": encode_rate,
                "decode_mvalues_per_s": decode_rate,
            }
        )
    return rows


def symbol_blocks(coded: CodedShards) -> list[Array]:
    """All symbols of the layers as uint8, those of one table together."""
    tables, finest = coded.codec.profile.tables, 1 - NUM_LAYERS
    found: dict[int, list[Array]] = {}
    for spec, coef in coded.coefs.items():
        plan = coded.codec.plan(spec)
        index = quantize_columns(plan, np.ascontiguousarray(coef.transpose(0, 2, 1)), finest)
        for layer in range(NUM_LAYERS):
            symbols, table = layer_symbols(tables, plan.layer(layer), index, finest)
            for number in np.unique(table).tolist():
                found.setdefault(number, []).append(symbols[table == number])
    return [np.concatenate(found[number]) for number in sorted(found)]


def memcpy_s(num_bytes: int, repeats: int) -> float:
    """Time to copy so many bytes in main memory; buffers take turns, so no cache holds them."""
    num_pairs = max(_BEYOND_CACHES // max(num_bytes, 1), 1) + 1
    sources = [np.ones(num_bytes, np.uint8) for _ in range(num_pairs)]
    targets = [np.zeros(num_bytes, np.uint8) for _ in range(num_pairs)]

    def copy_all() -> None:
        for source, target in zip(sources, targets, strict=True):
            np.copyto(target, source)

    return best_s(copy_all, repeats) / num_pairs


def best_s(action: Callable[[], object], repeats: int) -> float:
    """Least CPU time of this thread over several runs, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return max(min(times), 1e-9)


def _decode(coded: CodedShards, finish: Callable[[ShardDecoder, tuple[int, ...]], object]) -> None:
    _, _, num_heads, head_dim = coded.codec.profile.dims
    for spec, layers in coded.layers.items():
        decoder = coded.codec.decoder(spec)
        for layer, data in enumerate(layers):
            decoder.feed_layer(layer, data, complete=True)
        finish(decoder, (2, spec.tiles.num_tokens, num_heads, head_dim))


def _feed(_decoder: ShardDecoder, _shape: tuple[int, ...]) -> None:
    """Nothing more: the indices are known."""


class _Bf16:
    """Turns decoded shards into bfloat16 in one buffer, so that no page is touched first here."""

    def __init__(self, coded: CodedShards) -> None:
        most = max(coef.size for coef in coded.coefs.values())
        self._room = np.ones(most, np.uint16)

    def coefficients(self, decoder: ShardDecoder, shape: tuple[int, ...]) -> None:
        """Of the KLT domain, (2, H*Dh, N)."""
        assert isinstance(decoder, KltShardDecoder)
        _, num_tokens, num_heads, head_dim = shape
        size = 2 * num_tokens * num_heads * head_dim
        decoder.dequantize(self._room[:size].reshape(2, num_heads * head_dim, num_tokens))

    def channels(self, decoder: ShardDecoder, shape: tuple[int, ...]) -> None:
        """K and V."""
        decoder.reconstruct(self._room[: int(np.prod(shape))].reshape(shape))
