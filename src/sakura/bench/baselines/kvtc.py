"""Like KVTC: principal axes over the channels of a block, uniform steps, DEFLATE or zstd,
whichever is smaller.

One basis per block and K|V over all heads at once, fitted offline; a coefficient that a coarse step
turns into zeros costs next to nothing, so no bits are allocated explicitly. Steps follow SAKURA's
sensitivities, which the original does not have.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines.base import (
    HEADER_BYTES,
    Calibration,
    channels,
    check_state,
    read_header,
    write_header,
)
from sakura.bench.baselines.predict import Quantiser

Array = NDArray[Any]

_FARTHEST = (1 << 15) - 1
_ZSTD_LEVEL = 12


class KvtcLike:
    """See the module.

    Args:
        calibration: what bases and means are fitted on.
    """

    name, shares = "kvtc-like", "a basis per block and K|V; means; a step per block and K|V"
    points = (128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
    _DEAD_ZONE = 0.15

    def __init__(self, calibration: Calibration) -> None:
        self._mean = calibration.mean
        self._basis, self._unit = _principal_axes(calibration)
        self._weight = calibration.step_weight

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        state = check_state(state)
        coefs = (channels(state) - self._mean) @ self._basis[:, :, None]
        q = Quantiser(self._DEAD_ZONE)(coefs, self._step(point))
        q = np.clip(q, -_FARTHEST, _FARTHEST).astype("<i2")
        # Coefficient by coefficient, so that runs of zeros are long; low bytes, then high bytes.
        planes = np.ascontiguousarray(q.transpose(0, 1, 4, 2, 3)).ravel().view(np.uint8)
        return write_header(state, point) + _packed(planes.reshape(-1, 2).T.tobytes())

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        shape, point = read_header(data)
        b, two, s, n, h, d = shape
        planes = np.frombuffer(_unpacked(data[HEADER_BYTES:]), np.uint8).reshape(2, -1)
        q = np.ascontiguousarray(planes.T).view("<i2").reshape(b, two, h * d, s, n)
        coefs = q.transpose(0, 1, 3, 4, 2) * self._step(point)
        values = coefs @ np.swapaxes(self._basis, -1, -2)[:, :, None] + self._mean
        return np.asarray(values, np.float32).reshape(shape)

    def _step(self, point: float) -> Array:
        return np.asarray(np.float32(point * self._unit) * self._weight, np.float32)


def _packed(planes: bytes) -> bytes:
    """DEFLATE cannot shrink a run of zeros by more than about 1000, zstd can."""
    import zstandard

    deflated, other = zlib.compress(planes, 9), zstandard.compress(planes, _ZSTD_LEVEL)
    return b"d" + deflated if len(deflated) <= len(other) else b"z" + other


def _unpacked(data: bytes) -> bytes:
    import zstandard

    return zlib.decompress(data[1:]) if data[:1] == b"d" else zstandard.decompress(data[1:])


def _principal_axes(calibration: Calibration) -> tuple[Array, float]:
    """Bases (B, 2, C, C) float32, largest variance first, and the spread of all values."""
    num_blocks, _, _, _, width = calibration.states[0].shape
    covariance, count = np.zeros((num_blocks, 2, width, width)), 0
    for state in calibration.states:
        centred = (state - calibration.mean).reshape(num_blocks, 2, -1, width)
        covariance += np.swapaxes(centred, 2, 3) @ centred
        count += centred.shape[2]
    covariance /= max(count, 1)
    _, axes = np.linalg.eigh(covariance)
    variance = float(np.trace(covariance, axis1=2, axis2=3).mean()) / max(width, 1)
    return axes[..., ::-1].astype(np.float32), float(np.sqrt(variance)) or 1.0
