"""Token grids and masks against plain loops over tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask

Bits = NDArray[np.bool_]


@st.composite
def bit_arrays(draw: st.DrawFn) -> Bits:
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    flat = draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    return np.array(flat, bool).reshape(height, width)


def mask_of(bits: Bits, patch_px: int = 2) -> TokenMask:
    return TokenMask.from_bits(TokenGrid(bits.shape[0], bits.shape[1], patch_px), bits)


@given(bit_arrays())
def test_bits_come_back(bits: Bits) -> None:
    mask = mask_of(bits)
    assert np.array_equal(mask.bits, bits)
    assert mask.active.tolist() == [i for i, bit in enumerate(bits.flat) if bit]
    assert mask.cached.tolist() == [i for i, bit in enumerate(bits.flat) if not bit]
    assert (mask.num_active, mask.num_cached) == (len(mask.active), len(mask.cached))
    assert mask.ratio == pytest.approx(bits.mean())
    assert TokenMask(mask.grid, mask.packed) == mask


@given(bits=bit_arrays(), rings=st.integers(0, 3))
def test_dilation_marks_what_is_within_reach(bits: Bits, rings: int) -> None:
    grown = mask_of(bits).dilate(rings)
    for y, x in np.ndindex(*bits.shape):
        window = bits[max(y - rings, 0) : y + rings + 1, max(x - rings, 0) : x + rings + 1]
        assert grown.bits[y, x] == window.any()
    assert grown.contains(mask_of(bits))


@given(bit_arrays(), st.integers(1, 4), st.data())
def test_one_pixel_marks_its_token(bits: Bits, patch_px: int, data: st.DataObject) -> None:
    mask = mask_of(bits, patch_px)
    pixels = np.zeros(mask.grid.size_px, np.uint8)
    for y, x in np.argwhere(bits):
        row = data.draw(st.integers(0, patch_px - 1))
        column = data.draw(st.integers(0, patch_px - 1))
        pixels[y * patch_px + row, x * patch_px + column] = 1
    assert TokenMask.from_image_array(mask.grid, pixels) == mask


def test_contains_is_about_active_tokens() -> None:
    small = mask_of(np.array([[1, 0, 0]], bool))
    large = mask_of(np.array([[1, 1, 0]], bool))
    other = mask_of(np.array([[0, 1, 1]], bool))
    assert large.contains(small)
    assert large.contains(large)
    assert not small.contains(large)
    assert not large.contains(other)


def test_bits_are_packed_from_the_high_end() -> None:
    bits = np.zeros((1, 10), bool)
    bits[0, [0, 9]] = True
    assert mask_of(bits).packed == b"\x80\x40"


def test_unusable_input_is_refused() -> None:
    grid = TokenGrid(2, 5, 4)
    with pytest.raises(InputError, match="height 0"):
        TokenGrid(0, 5, 4)
    with pytest.raises(InputError, match="3 bytes, expected 2"):
        TokenMask(grid, bytes(3))
    with pytest.raises(InputError, match="last 6 bits"):
        TokenMask(grid, b"\x00\x20")
    with pytest.raises(InputError, match="shape"):
        TokenMask.from_bits(grid, np.zeros((5, 2), bool))
    with pytest.raises(InputError, match=r"expected \(8, 20\)"):
        TokenMask.from_image_array(grid, np.zeros((8, 21)))
    with pytest.raises(InputError, match="rings"):
        TokenMask(grid, bytes(2)).dilate(-1)
    with pytest.raises(InputError, match="two grids"):
        TokenMask(grid, bytes(2)).contains(TokenMask(TokenGrid(5, 2, 4), bytes(2)))
