"""Whether the parts of a manifest fit each other and the object they came in.

Every check yields each problem it finds, with its JSON path. It never allocates on a number that
an earlier check has not bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sakura.errors import FormatError, InputError
from sakura.format.limits import Limits
from sakura.format.manifest import Manifest, tile_dtype
from sakura.format.shard import CHUNK_BYTES, DIGEST_BYTES, Layer
from sakura.format.version import CURRENT, Version

MAX_JSON_DEPTH = 4


class Problem(NamedTuple):
    """One rule that is broken, and where."""

    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a manifest: the header's version, the data's length, the reader's limits."""

    version: Version
    num_data_bytes: int
    limits: Limits


Problems = Iterator[Problem]
Check = Callable[[Manifest, Setting], Problems]


def check_manifest(manifest: Manifest, setting: Setting) -> None:
    """Refuse a manifest with any problem.

    Raises:
        FormatError: names the first problem and its JSON path.
    """
    for problem in find_problems(manifest, setting):
        raise FormatError(problem.message, where=problem.where)


def find_problems(manifest: Manifest, setting: Setting) -> Problems:
    """Every problem of the first check that has any: later checks rely on earlier ones."""
    for check in _CHECKS:
        problems = list(check(manifest, setting))
        if problems:
            yield from problems
            return


def _version(manifest: Manifest, setting: Setting) -> Problems:
    if Version(*manifest.format) != setting.version:
        found = Version(*manifest.format)
        yield Problem("$.format", f"found {found}, expected {setting.version} as in the header")


def _sizes(manifest: Manifest, setting: Setting) -> Problems:
    limits, geometry = setting.limits, manifest.geometry
    num_tokens = manifest.grid.height * manifest.grid.width
    num_values = 2 * num_tokens * geometry.num_heads * geometry.head_dim
    bounds = [
        ("$.grid", "tokens", num_tokens, limits.max_tokens),
        ("$.geometry", "blocks", geometry.num_blocks, limits.max_blocks),
        ("$.geometry.num_heads", "heads", geometry.num_heads, limits.max_heads),
        ("$.geometry.head_dim", "dimensions", geometry.head_dim, limits.max_head_dim),
        ("$.schedule.sigmas", "steps", manifest.schedule.num_steps, limits.max_steps),
        ("$.predicted.levels", "levels", manifest.num_levels, limits.max_levels),
        ("$.geometry", "values in a shard", num_values, limits.max_shard_values),
    ]
    for where, what, found, most in bounds:
        if not 1 <= found <= most:
            yield Problem(where, f"found {found} {what}, expected 1 to {most}")


def _sigmas(manifest: Manifest, _: Setting) -> Problems:
    sigmas = manifest.schedule.sigmas
    for index, (before, after) in enumerate(pairwise(sigmas), start=1):
        if not after < before:
            yield Problem(
                f"$.schedule.sigmas[{index}]", f"found {after}, expected less than {before}"
            )
    if sigmas[-1] != 0:
        where = f"$.schedule.sigmas[{len(sigmas) - 1}]"
        yield Problem(where, f"found {sigmas[-1]}, expected 0 at the end")


def _mask(manifest: Manifest, _: Setting) -> Problems:
    try:
        mask = manifest.token_mask
    except InputError as error:
        yield Problem("$.mask", str(error))
        return
    num_tokens, active = mask.grid.num_tokens, mask.num_active
    if manifest.reuse == "mask" and not 0 < active < num_tokens:
        yield Problem("$.mask", f"found {active} active tokens, expected 1 to {num_tokens - 1}")
    if manifest.reuse == "reference" and active:
        yield Problem("$.mask", f"found {active} active tokens, expected 0 in reference mode")


def _order(manifest: Manifest, _: Setting) -> Problems:
    mask = manifest.token_mask
    widths = manifest.tiles.widths
    dtype = tile_dtype(len(widths))
    expected = mask.num_cached * dtype.itemsize
    if len(manifest.token_tiles) != expected:
        found = len(manifest.token_tiles)
        yield Problem("$.token_tiles", f"found {found} bytes, expected {expected}")
        return
    counts = np.bincount(np.frombuffer(manifest.token_tiles, dtype), minlength=len(widths))
    if len(counts) > len(widths) or (counts != widths).any():
        yield Problem("$.token_tiles", f"expected {list(widths)} tokens in the tiles")


def _tiles(manifest: Manifest, _: Setting) -> Problems:
    widths, gains = manifest.tiles.widths, manifest.tiles.gains
    if len(gains) != manifest.geometry.num_blocks:
        expected = manifest.geometry.num_blocks
        yield Problem("$.tiles.gains", f"found {len(gains)} blocks, expected {expected}")
    for block, row in enumerate(gains):
        if len(row) != len(widths):
            message = f"found {len(row)} gains, expected {len(widths)}, one per tile"
            yield Problem(f"$.tiles.gains[{block}]", message)


def _picture(manifest: Manifest, _: Setting) -> Problems:
    expected = manifest.token_grid.size_px
    found = manifest.template.height, manifest.template.width
    if found != expected:
        yield Problem("$.template", f"found {found} pixels (height, width), expected {expected}")


def _digests(manifest: Manifest, _: Setting) -> Problems:
    blob, canary = manifest.template.blob, manifest.model.canary
    if blob is not None and len(blob.digest) != DIGEST_BYTES:
        message = f"found {len(blob.digest)} bytes, expected {DIGEST_BYTES}"
        yield Problem("$.template.blob.digest", message)
    if canary is not None and not (canary.values and len(canary.values) % 2 == 0):
        message = f"found {len(canary.values)} bytes, expected 16-bit floats, at least one"
        yield Problem("$.model.canary.values", message)


def _free_values(manifest: Manifest, _: Setting) -> Problems:
    for where, values in (
        ("$.conditioning", manifest.conditioning),
        ("$.codec.parameters", manifest.codec.parameters),
    ):
        for key, value in values.items():
            if _depth(value) > MAX_JSON_DEPTH:
                message = f"found more than {MAX_JSON_DEPTH} nested arrays or objects"
                yield Problem(f"{where}.{key}", message)


def _depth(value: Any, room: int = MAX_JSON_DEPTH) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 0
    if room == 0:
        return 1
    return 1 + max((_depth(item, room - 1) for item in value), default=0)


def _shards(manifest: Manifest, _: Setting) -> Problems:
    num_blocks, num_components = manifest.geometry.num_blocks, manifest.num_components
    seen: set[tuple[int, int]] = set()
    for index, shard in enumerate(manifest.shards):
        where, key = f"$.shards[{index}]", (shard.block, shard.component)
        if shard.block >= num_blocks:
            yield Problem(f"{where}.block", f"found {shard.block}, expected less than {num_blocks}")
        if shard.component >= num_components:
            message = f"found {shard.component}, expected less than {num_components}"
            yield Problem(f"{where}.component", message)
        if key in seen:
            yield Problem(where, f"block {key[0]}, component {key[1]} is listed twice")
        seen.add(key)
    expected = num_blocks * num_components
    if len(manifest.shards) != expected:
        message = f"found {len(manifest.shards)} shards, expected {expected}"
        yield Problem("$.shards", f"{message}: {num_blocks} blocks x {num_components} components")


def _layers(manifest: Manifest, _: Setting) -> Problems:
    for index, shard in enumerate(manifest.shards):
        where = f"$.shards[{index}].layers"
        if len(shard.layers) != manifest.num_levels:
            found, expected = len(shard.layers), manifest.num_levels
            yield Problem(where, f"found {found} layers, expected {expected}, one per level")
        for level, layer in enumerate(shard.layers):
            yield from _chunks(layer, f"{where}[{level}]")


def _chunks(layer: Layer, where: str) -> Problems:
    if any(length > CHUNK_BYTES for length in layer.chunks):
        message = f"found a chunk of {max(layer.chunks)} bytes, expected at most {CHUNK_BYTES}"
        yield Problem(f"{where}.chunks", message)
    expected = DIGEST_BYTES * len(layer.chunks)
    if len(layer.digests) != expected:
        message = f"found {len(layer.digests)} bytes, expected {expected}, 16 per chunk"
        yield Problem(f"{where}.digests", message)


def _spans(manifest: Manifest) -> Iterator[tuple[int, int, str]]:
    """(start, end, path) of everything in the data that has bytes."""
    blob = manifest.template.blob
    if blob is not None and blob.length:
        yield blob.offset, blob.offset + blob.length, "$.template.blob"
    for index, shard in enumerate(manifest.shards):
        for level, layer in enumerate(shard.layers):
            if layer.chunks:
                end = layer.offset + layer.num_bytes
                yield layer.offset, end, f"$.shards[{index}].layers[{level}]"


def _data(manifest: Manifest, setting: Setting) -> Problems:
    # A later minor version may put things here that this reader does not know.
    may_have_holes = setting.version.minor > CURRENT.minor
    position, last = 0, "the data start"
    for start, end, where in sorted(_spans(manifest)):
        if end > setting.num_data_bytes:
            message = f"ends at {end}, expected at most {setting.num_data_bytes}, the data's length"
            yield Problem(where, message)
        if start < position:
            yield Problem(where, f"starts at {start}, inside {last}, which ends at {position}")
        if start > position and not may_have_holes:
            yield Problem(where, f"starts at {start}, expected {position}, the end of {last}")
        if end > position:
            position, last = end, where
    if position < setting.num_data_bytes and not may_have_holes:
        message = f"the data has {setting.num_data_bytes} bytes, expected {position}"
        yield Problem("$.shards", message)


_CHECKS: tuple[Check, ...] = (
    _version,
    _sizes,
    _sigmas,
    _mask,
    _order,
    _tiles,
    _picture,
    _digests,
    _free_values,
    _shards,
    _layers,
    _data,
)
