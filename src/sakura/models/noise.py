"""Counter-based Gaussian noise that every device reproduces: Philox4x32-10 and Box-Muller.

The noise of cached tokens belongs to the template, so cloud and device must draw the same numbers
without sharing a library. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011.
"""

from __future__ import annotations

import numpy as np

GENERATOR = "philox4x32-10"
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox4x32(counter: np.ndarray, key: tuple[int, int], num_rounds: int = 10) -> np.ndarray:
    """Encrypt counters.

    Args:
        counter: (n, 4) uint32.
        key: two 32-bit words.
        num_rounds: 10 in the standard form.

    Returns:
        (n, 4) uint32 of independent random bits.
    """
    c = [counter[:, i].astype(np.uint64) for i in range(4)]
    k0, k1 = key
    for _ in range(num_rounds):
        p0, p1 = _MULTIPLIERS[0] * c[0], _MULTIPLIERS[1] * c[2]
        c = [
            (p1 >> _SHIFT) ^ c[1] ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _SHIFT) ^ c[3] ^ np.uint64(k1),
            p0 & _LOW,
        ]
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack(c, -1).astype(np.uint32)


def gaussian(shape: tuple[int, ...], seed: int, stream: int) -> np.ndarray:
    """Standard normal noise, float32.

    Args:
        shape: of the result.
        seed: 0 <= seed < 2**64; the key.
        stream: domain of use (template, request), so equal seeds do not collide.
    """
    size = int(np.prod(shape))
    return _normal(np.arange(-(-size // 4)), seed, stream)[:size].reshape(shape)


def gaussian_rows(rows: np.ndarray, width: int, seed: int, stream: int) -> np.ndarray:
    """Some rows of `gaussian((n, width), seed, stream)`, without computing the others.

    Args:
        rows: indices (r,).
        width: a multiple of 4.
        seed: see `gaussian`.
        stream: see `gaussian`.
    """
    assert width % 4 == 0
    per_row = width // 4
    blocks = rows[:, None] * per_row + np.arange(per_row)
    return _normal(blocks.reshape(-1), seed, stream).reshape(len(rows), width)


def _normal(blocks: np.ndarray, seed: int, stream: int) -> np.ndarray:
    """The four values of each counter in `blocks`, flat."""
    counter = np.zeros((len(blocks), 4), np.uint32)
    counter[:, 0] = blocks
    counter[:, 3] = stream
    bits = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
    u = (bits.astype(np.float64) + 0.5) / 2.0**32
    radius = np.sqrt(-2.0 * np.log(u[:, 0::2]))
    angle = 2.0 * np.pi * u[:, 1::2]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return normal.reshape(-1).astype(np.float32)
