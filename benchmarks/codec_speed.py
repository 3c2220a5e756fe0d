"""Speed of the codec core: entropy decoding by kernel, encoding, reconstruction, memcpy, and
packaged coders on the same symbols. CPU time of one thread, least of several runs.

    python benchmarks/codec_speed.py [--json docs/results/codec_speed.json] [--tokens 1024]

htscodecs is used where libhtscodecs.so.2 is installed, OpenZL where the package `openzl` is.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import dataclasses
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import CodecProfile, SakuraCodec, ShardSpec, TilePlan, identity_profile
from sakura.codec.native import NativeKernel, native_kernels
from sakura.codec.quantize import layer_symbols

Array = NDArray[Any]
NUM_LAYERS = 3
HEADS, HEAD_DIM = 24, 128


def best_s(action: Callable[[], object], runs: int) -> float:
    """Least CPU time of this thread, in seconds."""
    times = []
    for _ in range(runs):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return min(times)


def cpu_name() -> str:
    """Model of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    parts = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {key.strip(): value.strip() for key, value in parts.items()}
    return f"{named.get('model name', platform.machine())}, family {named.get('cpu family')}"


def profile_for(rng: np.random.Generator) -> CodecProfile:
    """A falling spectrum of sigmas in every head, rotated bases."""
    sigma = 2 * (1 + np.arange(HEAD_DIM) / 4) ** -0.75
    plain = identity_profile(1, 1, HEADS, HEAD_DIM)
    width = plain.channel_basis.shape[-1]
    basis = np.linalg.qr(rng.normal(size=(width, width)))[0].astype(np.float16)
    return dataclasses.replace(
        plain,
        sigma=np.broadcast_to(sigma, plain.sigma.shape).astype(np.float32).copy(),
        channel_basis=np.broadcast_to(basis, plain.channel_basis.shape).copy(),
    )


@dataclasses.dataclass
class Bench:
    """One shard and its layers."""

    codec: SakuraCodec
    spec: ShardSpec
    coef: Array
    layers: tuple[bytes, ...]
    runs: int

    def decode_rates(self, kernel: NativeKernel) -> list[float]:
        """M symbols/s of each layer."""
        codec = SakuraCodec(self.codec.profile, kernel)
        plan, tables = codec.plan(self.spec), codec.profile.tables
        below, rates = np.zeros(self.coef.size, np.int16), []
        for layer, data in enumerate(self.layers):
            layer_plan, times = plan.layer(layer), []
            for _ in range(self.runs):
                index = below.copy()
                times.append(self._one(kernel, (tables, layer_plan, data, index)))
            rates.append(layer_plan.num_values / min(times) / 1e6)
            below = index
        return rates

    @staticmethod
    def _one(kernel: NativeKernel, arguments: tuple[Any, ...]) -> float:
        begin = time.thread_time()
        kernel.decode_layer(*arguments)
        return time.thread_time() - begin

    def reconstruct_s(self, kernel: NativeKernel) -> dict[str, float]:
        """Seconds for the whole shard, without entropy decoding."""
        codec = SakuraCodec(self.codec.profile, kernel)
        decoder = codec.decoder(self.spec)
        for layer, data in enumerate(self.layers):
            decoder.feed_layer(layer, data, complete=True)
        shape = (2, self.coef.shape[1], HEADS, HEAD_DIM)
        half, single = np.ones(shape, np.uint16), np.ones(shape, np.float32)
        klt = np.ones((2, HEADS * HEAD_DIM, shape[1]), np.uint16)
        return {
            "bf16": best_s(lambda: decoder.reconstruct(half), self.runs),
            "float32": best_s(lambda: decoder.reconstruct(single), self.runs),
            "klt_domain_bf16": best_s(lambda: decoder.dequantize(klt), self.runs),
        }


def memcpy_s(num_bytes: int, runs: int) -> float:
    """Seconds to copy so many bytes of memory that was written before."""
    source, target = np.ones(num_bytes, np.uint8), np.ones(num_bytes, np.uint8)
    return best_s(lambda: np.copyto(target, source), runs)


def packaged(symbols: Array, runs: int) -> dict[str, dict[str, float]]:
    """Size and M symbols/s of packaged entropy coders on the same symbols."""
    found = {}
    path = ctypes.util.find_library("htscodecs")
    if path:
        found["htscodecs rANS 32x16"] = htscodecs(ctypes.CDLL(path), symbols, runs)
    return found


def htscodecs(library: ctypes.CDLL, symbols: Array, runs: int) -> dict[str, float]:
    """rANS with 32 states (order 0)."""
    encode, decode = library.rans_compress_to_4x16, library.rans_uncompress_to_4x16
    encode.restype = decode.restype = ctypes.c_void_p
    bound = library.rans_compress_bound_4x16(symbols.size, 4)
    packed, out = np.ones(bound, np.uint8), np.ones(symbols.size, np.uint8)
    size, out_size = ctypes.c_uint(bound), ctypes.c_uint(symbols.size)
    pointer = ctypes.c_void_p
    order = 4  # RANS_ORDER_X32
    assert encode(
        pointer(symbols.ctypes.data), symbols.size, pointer(packed.ctypes.data),
        ctypes.byref(size), order,
    )  # fmt: skip

    def run() -> None:
        out_size.value = symbols.size
        decode(pointer(packed.ctypes.data), size, pointer(out.ctypes.data), ctypes.byref(out_size))

    seconds = best_s(run, runs)
    assert (out == symbols).all()
    return {"num_bytes": size.value, "decode_msymbols_per_s": symbols.size / seconds / 1e6}


def make(num_tokens: int, runs: int) -> Bench:
    """Encode the shard by the best kernel."""
    rng = np.random.default_rng(0)
    profile = profile_for(rng)
    codec = SakuraCodec(profile, native_kernels()[-1])
    unit = rng.standard_normal((2, num_tokens, profile.num_coefs), np.float32)
    coef = unit * profile.sigma.reshape(2, 1, -1)
    spec = ShardSpec(0, 0, (1.0, 1.0), TilePlan.uniform(num_tokens))
    layers = codec.encode_shard(spec, coef, NUM_LAYERS).layers
    return Bench(codec, spec, coef, layers, runs)


def symbols_of(bench: Bench, layer: int) -> Array:
    """Symbols of a layer, uint8."""
    codec = bench.codec
    plan, tables = codec.plan(bench.spec), codec.profile.tables
    values = codec.kernel.quantize(tables, plan, bench.coef, NUM_LAYERS)
    symbols, _ = layer_symbols(tables, plan.layer(layer), values.index, values.finest)
    return np.ascontiguousarray(symbols)


def measure(bench: Bench) -> dict[str, Any]:
    """All figures."""
    num_bytes = 2 * bench.coef.size
    copy_s = memcpy_s(num_bytes, bench.runs)
    encode_s = best_s(
        lambda: bench.codec.encode_shard(bench.spec, bench.coef, NUM_LAYERS), bench.runs
    )
    base = symbols_of(bench, 0)
    kernels = {}
    for kernel in native_kernels():
        rates, seconds = bench.decode_rates(kernel), bench.reconstruct_s(kernel)
        plan = bench.codec.plan(bench.spec)
        counts = [plan.layer(layer).num_values for layer in range(NUM_LAYERS)]
        entropy_s = sum(n / rate / 1e6 for n, rate in zip(counts, rates, strict=True))
        kernels[kernel.isa] = {
            "decode_msymbols_per_s": [round(rate) for rate in rates],
            "entropy_decode_ms": 1e3 * entropy_s,
            "reconstruct_ms": {name: 1e3 * s for name, s in seconds.items()},
            "reconstruct_vs_memcpy": copy_s / seconds["bf16"],
            "klt_domain_vs_memcpy": copy_s / seconds["klt_domain_bf16"],
            "full_vs_memcpy": copy_s / (entropy_s + seconds["bf16"]),
            "full_klt_domain_vs_memcpy": copy_s / (entropy_s + seconds["klt_domain_bf16"]),
        }
    return {
        "machine": cpu_name(),
        "method": f"CPU time of one thread, least of {bench.runs} runs",
        "shard": {"tokens": bench.coef.shape[1], "heads": HEADS, "head_dim": HEAD_DIM},
        "num_values": bench.coef.size,
        "bits_per_value": [8 * len(data) / bench.coef.size for data in bench.layers],
        "base_layer": {"num_symbols": base.size, "num_bytes": len(bench.layers[0])},
        "memcpy_ms": 1e3 * copy_s,
        "memcpy_gb_per_s": num_bytes / copy_s / 1e9,
        "encode_ms": 1e3 * encode_s,
        "encode_mvalues_per_s": bench.coef.size / encode_s / 1e6,
        "kernels": kernels,
        "packaged_base_layer": packaged(base, bench.runs),
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    report = json.dumps(measure(make(args.tokens, args.runs)), indent=1)
    print(report)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(report + "\n")


if __name__ == "__main__":
    main()
