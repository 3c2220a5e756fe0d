"""Noise generator: the published Philox vectors, and Gaussian moments."""

from __future__ import annotations

import numpy as np
import pytest

from sakura.models.noise import gaussian, gaussian_rows, philox4x32

# Known-answer tests of Random123 1.14 (kat_vectors, philox4x32 10 rounds).
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_philox_known_answers(counter, key, expected):
    out = philox4x32(np.array([counter], np.uint32), key)
    assert tuple(int(v) for v in out[0]) == expected


def test_gaussian_moments():
    x = gaussian((200_000,), seed=3, stream=1).astype(np.float64)
    assert abs(x.mean()) < 4 / np.sqrt(x.size)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / x.size)
    assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / x.size)


def test_streams_and_seeds_are_independent():
    a, b, c = (gaussian((4096,), s, t) for s, t in ((0, 1), (0, 2), (1, 1)))
    for x, y in ((a, b), (a, c), (b, c)):
        assert abs(float(np.corrcoef(x, y)[0, 1])) < 0.08


def test_rows_are_those_of_the_whole():
    rows = np.array([3, 0, 7])
    np.testing.assert_array_equal(gaussian_rows(rows, 12, 5, 2), gaussian((9, 12), 5, 2)[rows])


def test_prefix_is_stable():
    np.testing.assert_array_equal(gaussian((7,), 5, 1), gaussian((16,), 5, 1)[:7])
