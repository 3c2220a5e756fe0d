"""PSNR against values known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sakura.bench.fidelity import MAX_DB, db_of, psnr_db
from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask

GRID = TokenGrid(2, 2, 4)
MASK = TokenMask.from_bits(GRID, np.array([[False, True], [False, False]]))
GREY = np.full((8, 8, 3), 100, np.uint8)


def test_a_difference_of_one_everywhere_is_48_db() -> None:
    assert psnr_db(GREY + 1, GREY) == pytest.approx(20 * math.log10(255))
    assert psnr_db(GREY - 1, GREY) == psnr_db(GREY, GREY - 1)


def test_only_active_tokens_count() -> None:
    picture = GREY.copy()
    picture[:4, 4:] += 10  # the active token
    assert psnr_db(picture, GREY, MASK) == pytest.approx(20 * math.log10(255 / 10))
    outside = GREY.copy()
    outside[4:] = 0
    assert psnr_db(outside, GREY, MASK) == MAX_DB


def test_no_wrap_around_at_the_ends_of_the_range() -> None:
    black, white = np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8)
    assert psnr_db(black, white) == pytest.approx(0.0)


def test_identical_pictures_have_a_finite_value() -> None:
    assert psnr_db(GREY, GREY) == MAX_DB
    assert db_of(1e-30) == MAX_DB


def test_sizes_must_agree() -> None:
    with pytest.raises(InputError):
        psnr_db(GREY, GREY[:4])
    with pytest.raises(InputError):
        psnr_db(GREY[:4], GREY[:4], MASK)
