"""The codec profile of a model: bases, means, sigmas and class tables, as one canonical byte string
named by its digest.

It belongs to the model, not to a template. How it is fitted is `fit`'s business.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.tables import TABLE_BYTES, ClassTables, default_tables, tables_from_bytes
from sakura.errors import CodecError

Array = NDArray[Any]

MAGIC = b"SKPROF\x02\n"
_HEADER = struct.Struct("<8s6I")
_DTYPES = {"channel_basis": "<f2"}
_ARRAYS = ("step_basis", "channel_basis", "mean", "sigma", "sensitivity", "step_weight")
_LIMITS = {
    "blocks": 1024,
    "steps": 256,
    "heads": 1024,
    "head dimension": 1024,
    "groups": 1024,
    "coefficients a group": 1 << 21,
}


@dataclass(frozen=True, eq=False)
class CodecProfile:
    """Everything model-wide that encoder and decoder share. Arrays are float32 but for one.

    K and V of H / G heads at a time are transformed together: a group has E = 2 H Dh / G channels,
    its heads' keys before its heads' values, and R <= E coefficients that are ever coded. An axis
    of length 2 is K, V for states and the two planes of coefficients else: a group's first E / 2
    coefficients, which have most of the energy, and the others.

    Args:
        step_basis: (B, 2, S, S); column c holds component c: state[s] = mean[s] + sum_c basis[s, c]
            component[c].
        channel_basis: float16 (B, G, E, R); column e is what coefficient e of a group adds to its
            channels.
        mean: (B, 2, S, H, Dh), subtracted before the transforms.
        sigma: (B, 2, S, H, Dh), standard deviation of each coefficient of a plane in component c
            (third axis).
        sensitivity: (B, 2), how much an error in a block's plane matters, relative.
        step_weight: (S,), how much an error at a step matters, relative.
        tables: class tables.

    Raises:
        CodecError: shapes disagree or are out of bounds, or a value is not finite.
    """

    step_basis: Array
    channel_basis: Array
    mean: Array
    sigma: Array
    sensitivity: Array
    step_weight: Array
    tables: ClassTables

    def __post_init__(self) -> None:
        """Refuse a profile that no stream could be decoded with."""
        if self.sigma.ndim != 5:
            raise CodecError(f"sigma has {self.sigma.ndim} axes, expected 5")
        if self.channel_basis.ndim != 4:
            raise CodecError(f"channel_basis has {self.channel_basis.ndim} axes, expected 4")
        for name, shape in _shapes(*self.dims, self.num_groups, self.rank).items():
            array, dtype = getattr(self, name), np.dtype(_DTYPES.get(name, "<f4"))
            if array.dtype != dtype or array.shape != shape:
                raise CodecError(
                    f"profile {name} is {array.dtype} {array.shape}, expected {dtype} {shape}"
                )
            if not np.isfinite(array).all():
                raise CodecError(f"profile {name} has values that are not finite")
        for name in ("sigma", "step_weight"):
            if (getattr(self, name) < 0).any():
                raise CodecError(f"profile {name} has negative values")
        if (self.sensitivity <= 0).any():
            raise CodecError("profile sensitivity has values that are not positive")

    @property
    def dims(self) -> tuple[int, int, int, int]:
        """Blocks B, steps S, heads H, head dimension Dh."""
        num_blocks, _, num_steps, num_heads, head_dim = self.sigma.shape
        return num_blocks, num_steps, num_heads, head_dim

    @property
    def num_groups(self) -> int:
        """Groups G of heads."""
        return int(self.channel_basis.shape[1])

    @property
    def rank(self) -> int:
        """Coefficients R of a group that are ever coded."""
        return int(self.channel_basis.shape[3])

    @property
    def num_coefs(self) -> int:
        """H * Dh: coefficients of a token in each plane."""
        return self.dims[2] * self.dims[3]

    @cached_property
    def step_analysis(self) -> Array:
        """(B, 2, S, S), inverse of the step basis: component[c] = sum_s analysis[c, s] state[s].

        Raises:
            CodecError: the basis has none.
        """
        basis = self.step_basis.astype(np.float64)
        return _solved("step_basis", basis, np.broadcast_to(np.eye(self.dims[1]), basis.shape))

    @cached_property
    def channel_synthesis(self) -> Array:
        """The channel basis as float32."""
        return self.channel_basis.astype(np.float32)

    @cached_property
    def channel_analysis(self) -> Array:
        """(B, G, R, E): gives the coefficients that come closest to channels; for encoders.

        Raises:
            CodecError: coefficients are not independent.
        """
        basis = self.channel_basis.astype(np.float64)
        back = basis.swapaxes(-1, -2)
        return _solved("channel_basis", back @ basis, back)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Canonical bytes: magic, B, S, H, Dh, G, R as u32, the arrays in declared order, little
        endian, tables."""
        parts = [_HEADER.pack(MAGIC, *self.dims, self.num_groups, self.rank)]
        parts += [getattr(self, n).astype(_DTYPES.get(n, "<f4")).tobytes() for n in _ARRAYS]
        return b"".join(parts) + self.tables.to_bytes()

    def save(self, path: Path) -> None:
        """Write the canonical bytes."""
        path.write_bytes(self.to_bytes())


def load_profile(path: Path) -> CodecProfile:
    """Read a profile file; CodecError when it is not exactly a canonical profile."""
    return profile_from_bytes(path.read_bytes())


def profile_from_bytes(data: bytes) -> CodecProfile:
    """Parse `CodecProfile.to_bytes`; CodecError when a bound, the length or a value is wrong."""
    if len(data) < _HEADER.size:
        raise CodecError(f"a profile has at least {_HEADER.size} bytes, found {len(data)}")
    magic, *dims = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CodecError("not a codec profile: wrong magic or version")
    for (name, limit), value in zip(_LIMITS.items(), dims, strict=True):
        if not 1 <= value <= limit:
            raise CodecError(f"profile has {value} {name}, expected 1..{limit}")
    num_groups, rank = dims[4:]
    if dims[2] % num_groups:
        raise CodecError(f"profile has {dims[2]} heads in {num_groups} groups")
    if rank > 2 * dims[2] * dims[3] // num_groups:
        raise CodecError(f"profile has {rank} coefficients a group, more than channels")
    shapes = _shapes(*dims)
    sizes = {n: math.prod(s) * np.dtype(_DTYPES.get(n, "<f4")).itemsize for n, s in shapes.items()}
    expected = _HEADER.size + sum(sizes.values()) + TABLE_BYTES
    if len(data) != expected:
        raise CodecError(f"a profile of these dimensions has {expected} bytes, found {len(data)}")
    arrays, place = {}, _HEADER.size
    for name, shape in shapes.items():
        dtype = np.dtype(_DTYPES.get(name, "<f4"))
        flat = np.frombuffer(data, dtype, math.prod(shape), place)
        arrays[name] = flat.reshape(shape).astype(dtype.newbyteorder("="))
        place += sizes[name]
    return CodecProfile(**arrays, tables=tables_from_bytes(data[place:]))


def identity_profile(
    num_blocks: int, num_steps: int, num_heads: int, head_dim: int
) -> CodecProfile:
    """No transform: components are steps, coefficients are channels, planes are K and V. For
    `raw-bf16/1`, and as a test fixture."""
    shapes = _shapes(num_blocks, num_steps, num_heads, head_dim, num_heads, 2 * head_dim)
    return CodecProfile(
        step_basis=_identity(shapes["step_basis"]),
        channel_basis=_identity(shapes["channel_basis"]).astype(np.float16),
        mean=np.zeros(shapes["mean"], np.float32),
        sigma=np.ones(shapes["sigma"], np.float32),
        sensitivity=np.ones(shapes["sensitivity"], np.float32),
        step_weight=np.ones(shapes["step_weight"], np.float32),
        tables=default_tables(),
    )


def _identity(shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.eye(shape[-1], dtype=np.float32), shape).copy()


def _shapes(*sizes: int) -> dict[str, tuple[int, ...]]:
    num_blocks, num_steps, num_heads, head_dim, num_groups, rank = sizes
    width = 2 * num_heads * head_dim // num_groups
    return {
        "step_basis": (num_blocks, 2, num_steps, num_steps),
        "channel_basis": (num_blocks, num_groups, width, rank),
        "mean": (num_blocks, 2, num_steps, num_heads, head_dim),
        "sigma": (num_blocks, 2, num_steps, num_heads, head_dim),
        "sensitivity": (num_blocks, 2),
        "step_weight": (num_steps,),
    }


def _solved(name: str, matrix: Array, right: Array) -> Array:
    try:
        return np.ascontiguousarray(np.linalg.solve(matrix, right), np.float32)
    except np.linalg.LinAlgError as error:
        raise CodecError(f"profile {name} has no inverse") from error
