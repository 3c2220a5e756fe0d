"""A bundle small enough to flip every bit of, and ways to take one apart and seal it again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import numpy as np

from sakura.format import LayerData, Manifest, Picture, ShardData, write_bundle
from sakura.format.container import HEADER_BYTES, data_start
from sakura.format.manifest import (
    Canary,
    Codec,
    Geometry,
    Grid,
    Model,
    Noise,
    Predicted,
    Provenance,
    Rope,
    Schedule,
    Template,
    Tiles,
    pack_tiles,
)
from sakura.format.shard import digest
from sakura.grid import TokenGrid, TokenMask

GRID = TokenGrid(height=3, width=3, patch_px=2)
MASK = TokenMask.from_bits(GRID, np.array([[0, 0, 0], [0, 1, 1], [0, 0, 0]], bool))
PICTURE = Picture(data=b"not really a PNG", media_type="image/png")


def tiny_manifest() -> Manifest:
    """Two blocks, two steps, nine tokens of which two are active, two levels."""
    return Manifest(
        format=(1, 0),
        tool="sakura-kv 0.1.0",
        model=Model(
            family="mini",
            class_name="TinyTransformer",
            config_digest="0123456789abcdef" * 2,
            weights_digest="fedcba9876543210" * 2,
            adapters=("lora:sketch",),
            canary=Canary(values=np.array([0.5, -1.25], "<f2").tobytes(), tolerance=0.01),
        ),
        schedule=Schedule(name="flow-euler", sigmas=(1.0, 0.625, 0.0)),
        noise=Noise(generator="philox4x32-10", seed=7),
        reuse="mask",
        geometry=Geometry(num_double=1, num_single=1, num_heads=1, head_dim=4),
        grid=Grid(height=GRID.height, width=GRID.width, patch_px=GRID.patch_px),
        mask=MASK.packed,
        task="face-swap",
        conditioning={"guidance": 3.5, "size": [6, 6], "prompt": "a café"},
        rope=Rope(form="pre", theta=2000.0, axes=(2, 2)),
        dtype="float32",
        template=Template(digest="00112233445566778899aabbccddeeff", width=6, height=6),
        codec=Codec(
            id="r16c/1", profile_digest="ffeeddccbbaa99887766554433221100", parameters={"lanes": 64}
        ),
        token_tiles=pack_tiles(np.array([3, 2, 6, 0, 5, 1, 4]), (4, 3)),
        tiles=Tiles(widths=(4, 3), gains=((0, -2), (1, 0))),
        predicted=Predicted(levels=(31.5, 40.25)),
        provenance=Provenance(seed=7, reference="none", calibration="tiny"),
    )


def tiny_shards() -> list[ShardData]:
    """Four shards; the layers differ in length, and one is empty."""
    shards = []
    for block in range(2):
        for component in range(2):
            number = 2 * block + component
            layers = tuple(
                LayerData(payload=bytes([16 * number + level]) * (3 * number + level), distortion=d)
                for level, d in enumerate((0.25, 0.0625))
            )
            shards.append(ShardData(block, component, (0.5, 0.25), 1.0 + number, layers))
    return shards


@cache
def tiny_bundle() -> bytes:
    """The object of these parts, its manifest as plain JSON."""
    return seal(*split(packed_bundle()))


@cache
def packed_bundle() -> bytes:
    """The object of these parts as it is written."""
    return b"".join(write_bundle(tiny_manifest(), tiny_shards(), PICTURE))


def seal(raw: bytes, data: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    """An object whose head digest is right, whatever `raw` says."""
    fixed = struct.pack("<4sHHQ", b"SAKV", *version, len(raw))
    head = (fixed + digest(fixed + raw) + raw).ljust(data_start(len(raw)), b"\0")
    return head + data


def split(bundle: bytes) -> tuple[bytes, bytes]:
    """(manifest as plain JSON, data) of a bundle."""
    (length,) = struct.unpack_from("<Q", bundle, 8)
    raw = bundle[HEADER_BYTES : HEADER_BYTES + length]
    return raw if raw[:1] == b"{" else zlib.decompress(raw), bundle[data_start(length) :]


def altered(bundle: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The bundle with its manifest changed as plain JSON, sorted and sealed again."""
    raw, data = split(bundle)
    document = msgspec.json.decode(raw)
    change(document)
    return seal(msgspec.json.encode(document, order="sorted"), data)


def reader(bundle: bytes) -> Callable[[int, int], bytes]:
    """`read(offset, length)` of an object in memory."""
    return lambda offset, length: bundle[offset : offset + length]
