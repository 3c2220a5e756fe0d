"""Rate and speed of the codec on synthetic coefficients of known distribution.

Prints, after each layer, the bits per value of the stream, the ideal entropy of a one-shot
quantiser with the same final step (sum over the coded columns, known sigma), and the SNR; then
decoding speed on this machine, one thread.

    python benchmarks/codec_rate.py [--tokens 200] [--heads 4] [--head-dim 48]
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import platform
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import SakuraCodec, ShardSpec, TilePlan, identity_profile, inverse_channels
from sakura.codec.plan import scale_at
from sakura.codec.tablegen import GRID_STEP, NUM_GRID, tables_for_shape

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def laplacian_tail(z: float) -> float:
    """P(|X| > z) for unit variance."""
    return math.exp(-math.sqrt(2) * z)


def gaussian_tail(z: float) -> float:
    """P(|X| > z) for unit variance."""
    return math.erfc(z / math.sqrt(2))


SOURCES: dict[str, tuple[Draw, Callable[[float], float]]] = {
    "gaussian": (lambda rng, shape: rng.normal(size=shape), gaussian_tail),
    "laplacian": (lambda rng, shape: rng.laplace(size=shape) / math.sqrt(2), laplacian_tail),
}


def ideal_entropy(ratio: float, tail: Callable[[float], float]) -> float:
    """Bits of a mid-tread quantiser whose step is sigma / ratio."""
    edges = [tail((k + 0.5) / ratio) for k in range(int(40 * ratio) + 2)]
    masses = [1 - edges[0]] + [(a - b) / 2 for a, b in pairwise(edges)]
    signs = [1] + [2] * (len(masses) - 1)
    return -sum(s * p * math.log2(p) for s, p in zip(signs, masses, strict=True) if p > 0)


def shape_of(tail: Callable[[float], float]) -> Array:
    """Probability of each cell of |x| / sigma, as a fit to infinitely many values would find it."""
    mass = -np.diff([tail(k * GRID_STEP) for k in range(NUM_GRID + 1)])
    return np.asarray(mass / mass.sum())


def measure(name: str, args: argparse.Namespace) -> None:
    """Print the table of one source and start step."""
    draw, tail = SOURCES[name]
    rng = np.random.default_rng(1)
    num_coefs = args.heads * args.head_dim
    sigma = np.sort(2 * (1 + np.arange(num_coefs) % args.head_dim / 4) ** -0.75).astype(np.float32)
    profile = identity_profile(1, 1, args.heads, args.head_dim)
    profile = dataclasses.replace(
        profile, sigma=np.tile(sigma, 2).reshape(1, 2, 1, args.heads, args.head_dim)
    )
    if args.fitted:
        profile = dataclasses.replace(profile, tables=tables_for_shape(shape_of(tail)))
    codec = SakuraCodec(profile)
    coef = (draw(rng, (2, args.tokens, num_coefs)) * sigma).astype(np.float32)
    spec = ShardSpec(0, 0, (args.delta, args.delta), TilePlan.uniform(args.tokens))
    shard = codec.encode_shard(spec, coef)
    plan, num_bytes = codec.plan(spec), 0
    print(f"\n{name}: {coef.size} values, base step {args.delta}")
    print("layer  bytes  bit/value  ideal   over  SNR dB  clipped  lanes")
    for layer, stats in enumerate(shard.stats):
        num_bytes += stats.num_bytes
        started = plan.first_exponent >= -layer
        step = plan.step * scale_at(np.array(-layer))
        ideal = 0.0
        column_sigma = np.tile(sigma, 2)[plan.offset // args.tokens]
        for s, d, w in zip(column_sigma[started], step[started], plan.width[started], strict=True):
            ideal += ideal_entropy(float(s / d), tail) * int(w)
        bits = 8 * num_bytes / coef.size
        snr = 10 * math.log10(sum(shard.energy) / sum(stats.distortion))
        over = 8 * num_bytes / ideal - 1
        lanes = plan.layer(layer).num_lanes
        print(
            f"{layer:5d} {stats.num_bytes:6d} {bits:10.3f} {ideal / coef.size:6.3f} {over:+6.2%}"
            f" {snr:7.2f} {stats.clipped:8.1e} {lanes:6d}"
        )


def measure_speed(args: argparse.Namespace) -> None:
    """Print symbols per second of the kernel, and milliseconds from bytes to coefficients."""
    rng = np.random.default_rng(2)
    num_coefs = args.heads * args.head_dim
    codec = SakuraCodec(identity_profile(1, 1, args.heads, args.head_dim))
    spec = ShardSpec(0, 0, (1.0, 1.0), TilePlan.uniform(args.tokens))
    shard = codec.encode_shard(
        spec, rng.normal(size=(2, args.tokens, num_coefs)).astype(np.float32)
    )
    plan = codec.plan(spec)
    print(f"\nkernel {codec.kernel.name}, {platform.machine()}, CPU time of one thread, best of 30")
    index = np.zeros(2 * args.tokens * num_coefs, np.int16)
    for layer, data in enumerate(shard.layers):
        layer_plan = plan.layer(layer)
        seconds = best_s(
            lambda p=layer_plan, d=data: codec.kernel.decode_layer(
                codec.profile.tables, p, d, index
            )
        )
        rate = int(layer_plan.width.sum(dtype=int)) / seconds
        print(f"layer {layer}: {rate / 1e6:7.0f} M symbols/s")
    seconds = best_s(lambda: decode(codec, spec, shard.layers))
    print(f"shard, 4 layers to coefficients: {seconds * 1e3:.2f} ms")


def measure_bundle(args: argparse.Namespace) -> None:
    """Print the CPU time to decode all shards of a mini bundle and bring them to channel space."""
    rng = np.random.default_rng(3)
    num_blocks, num_steps = 6, 8
    profile = identity_profile(num_blocks, num_steps, args.heads, args.head_dim)
    channel = 2 * (1 + np.arange(args.head_dim) / 4) ** -0.75
    component = 0.3 ** np.arange(num_steps)
    sigma = np.broadcast_to(component[:, None, None] * channel, profile.sigma.shape)
    profile = dataclasses.replace(profile, sigma=sigma.astype(np.float32))
    codec, shards = SakuraCodec(profile), {}
    for block in range(num_blocks):
        for c in range(num_steps):
            spec = ShardSpec(block, c, (args.delta, args.delta), TilePlan.uniform(args.tokens))
            unit = rng.laplace(size=(2, args.tokens, profile.num_coefs)) / math.sqrt(2)
            coef = (unit * sigma[block, 0, c].ravel()).astype(np.float32)
            shards[spec] = codec.encode_shard(spec, coef).layers

    def play(num_layers: int) -> None:
        for spec, layers in shards.items():
            inverse_channels(profile, spec.block, decode(codec, spec, layers[:num_layers]))

    num_values = len(shards) * 2 * args.tokens * profile.num_coefs
    for num_layers in (1, 2, 3, 4):
        num_bytes = sum(len(d) for layers in shards.values() for d in layers[:num_layers])
        seconds = best_s(lambda n=num_layers: play(n))
        print(
            f"mini bundle, {num_layers} layers, {8 * num_bytes / num_values:.2f} bit/value:"
            f" {seconds * 1e3:.1f} ms"
        )


def decode(codec: SakuraCodec, spec: ShardSpec, layers: tuple[bytes, ...]) -> Array:
    """All layers of a shard."""
    decoder = codec.decoder(spec)
    for layer, data in enumerate(layers):
        decoder.feed_layer(layer, data, complete=True)
    return decoder.coefficients()


def best_s(action: Callable[[], object]) -> float:
    """Least CPU time of 30 runs in this thread, in seconds."""
    times = []
    for _ in range(30):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return min(times)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=48)
    parser.add_argument("--fitted", action="store_true", help="tables fitted to each source")
    parser.add_argument("--delta", type=float, default=1.0)
    args = parser.parse_args()
    for name in SOURCES:
        measure(name, args)
    measure_speed(args)
    measure_bundle(args)


if __name__ == "__main__":
    main()
