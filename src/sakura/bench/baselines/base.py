"""What every baseline takes and gives: a captured state in, one self-contained byte string out, and
back. Knows no method in particular.

Shapes: B blocks, 2 (K, V), S steps, N tokens, H heads, Dh head dimension, C = H * Dh channels.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sakura.errors import CodecError

Array = NDArray[Any]
Shape = tuple[int, int, int, int, int, int]

_HEADER = struct.Struct("<6If")
HEADER_BYTES = _HEADER.size


class Baseline(Protocol):
    """A codec to compare with. What it shares with its decoder beforehand is free, as the codec
    profile is for SAKURA; everything else is in the bytes."""

    @property
    def name(self) -> str:
        """For tables and plots."""
        ...

    @property
    def shares(self) -> str:
        """What ships with the app and is not counted; "nothing" where that is so."""
        ...

    @property
    def points(self) -> tuple[float, ...]:
        """Operating points, coarsest first; what the number means is the method's business."""
        ...

    def encode(self, state: Array, point: float) -> bytes:
        """A state (B, 2, S, N, H, Dh) float32 as bytes: header, tables and streams.

        Raises:
            CodecError: not such an array, or NaN or infinity in it.
        """
        ...

    def decode(self, data: bytes) -> Array:
        """The state that the bytes stand for, float32 (B, 2, S, N, H, Dh)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """What the calibrated baselines learn from; never the state under test, unless the user says
    so.

    Args:
        states: captured states of other templates; they agree in all but N.
        sensitivity: (B, 2), what an error in a block's K or V costs; ones where nothing is known.
        mean: (B, 2, S, 1, C) of all tokens.
    """

    states: tuple[Array, ...]
    sensitivity: Array
    mean: Array

    @property
    def step_weight(self) -> Array:
        """(B, 2, 1, 1, 1) relative steps at which errors cost the same; geometric mean 1."""
        weight = 1 / np.sqrt(self.sensitivity.astype(np.float64))
        weight /= np.exp(np.log(weight).mean())
        return weight[:, :, None, None, None].astype(np.float32)


def calibrate(
    states: list[Array], sensitivity: Array | None = None, mean: Array | None = None
) -> Calibration:
    """Learn from states of templates.

    Args:
        states: (B, 2, S, N, H, Dh) each.
        sensitivity: (B, 2), see `Calibration`.
        mean: (B, 2, S, H, Dh) where it is known better than from these states.

    Raises:
        CodecError: no states, or states of different models.
    """
    if not states or len({s.shape[:3] + s.shape[4:] for s in states}) != 1:
        raise CodecError(f"{len(states)} calibration states, expected some, all of one model")
    flat = tuple(channels(check_state(state)) for state in states)
    if mean is None:
        total = sum(state.sum(3, keepdims=True, dtype=np.float64) for state in flat)
        mean = total / max(sum(state.shape[3] for state in flat), 1)
    mean = mean.reshape(*flat[0].shape[:3], 1, flat[0].shape[4])
    if sensitivity is None:
        sensitivity = np.ones(flat[0].shape[:2], np.float32)
    return Calibration(flat, sensitivity, np.asarray(mean, np.float32))


def check_state(state: Array) -> Array:
    """The state as float32. Raises CodecError unless it is finite and has six axes, the second of
    length 2."""
    if state.ndim != 6 or state.shape[1] != 2:
        raise CodecError(f"a state is (B, 2, S, N, H, Dh), found {state.shape}")
    if not np.isfinite(state).all():
        raise CodecError("state has NaN or infinity", hint="check how it was captured")
    return state.astype(np.float32, copy=False)


def channels(state: Array) -> Array:
    """(B, 2, S, N, C) of (B, 2, S, N, H, Dh)."""
    return state.reshape(*state.shape[:4], state.shape[4] * state.shape[5])


def write_header(state: Array, point: float) -> bytes:
    """Shape and operating point of a checked state."""
    return _HEADER.pack(*state.shape, point)


def read_header(data: bytes) -> tuple[Shape, float]:
    """Inverse of `write_header`. Raises CodecError for bytes that are too short."""
    if len(data) < HEADER_BYTES:
        raise CodecError(f"a coded state has at least {HEADER_BYTES} bytes, found {len(data)}")
    b, two, s, n, h, d, point = _HEADER.unpack_from(data)
    return (b, two, s, n, h, d), point
