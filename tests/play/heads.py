"""Heads of bundles that have no data: for what plans and never decodes."""

from __future__ import annotations

import msgspec
import numpy as np

from sakura.format import Head, Layer, Manifest, Shard
from sakura.format.manifest import Geometry, Predicted, Schedule
from sakura.format.shard import CHUNK_BYTES, DIGEST_BYTES
from sakura.format.version import CURRENT
from sakura.play.plan import ErrorModel, error_model
from tests.format.tiny import tiny_manifest

DATA_START = 4096


def make_head(num_steps: int, num_blocks: int, sizes: list[int], num_levels: int) -> Head:
    """A head with one component per step; layer i, in order of the data, has sizes[i % len] bytes.

    Each level of a shard has a quarter of the error of the one before.
    """
    layers: dict[tuple[int, int], list[Layer]] = {}
    offset, number = 0, 0
    for level in range(num_levels):
        for component in range(num_steps):
            for block in range(num_blocks):
                size = sizes[number % len(sizes)]
                energy = 1e-3 / (1 + component) / num_blocks
                layers.setdefault((block, component), []).append(
                    _layer(offset, size, energy / 4 ** (level + 1))
                )
                offset, number = offset + size, number + 1
    shards = tuple(
        Shard(
            block=block,
            component=component,
            delta=(1.0, 1.0),
            energy=1e-3 / (1 + component) / num_blocks,
            layers=tuple(rows),
        )
        for (block, component), rows in layers.items()
    )
    return Head(CURRENT, _manifest(num_steps, num_blocks, num_levels, shards), DATA_START, offset)


def model_of(head: Head, floor_db: float) -> ErrorModel:
    """Every component belongs to its own step alone."""
    steps, blocks = head.manifest.schedule.num_steps, head.manifest.geometry.num_blocks
    basis = np.broadcast_to(np.eye(steps, dtype=np.float32), (blocks, 2, steps, steps))
    return error_model(head.manifest, basis, floor_db)


def _layer(offset: int, size: int, distortion: float) -> Layer:
    chunks = [CHUNK_BYTES] * (size // CHUNK_BYTES)
    chunks += [size % CHUNK_BYTES] if size % CHUNK_BYTES else []
    digests = bytes(DIGEST_BYTES * len(chunks))
    return Layer(offset=offset, chunks=tuple(chunks), digests=digests, distortion=distortion)


def _manifest(
    num_steps: int, num_blocks: int, num_levels: int, shards: tuple[Shard, ...]
) -> Manifest:
    sigmas = tuple(np.linspace(1, 0, num_steps + 1).tolist())
    return msgspec.structs.replace(
        tiny_manifest(),
        schedule=Schedule(name="flow", sigmas=sigmas),
        geometry=Geometry(num_double=0, num_single=num_blocks, num_heads=1, head_dim=4),
        predicted=Predicted(levels=tuple(30.0 + level for level in range(num_levels))),
        shards=shards,
    )
