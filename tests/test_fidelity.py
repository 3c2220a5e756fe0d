"""PSNR against values known in closed form."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import sakura
from sakura.errors import InputError
from sakura.fidelity import MAX_DB, mse, psnr_db, to_db, to_mse
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
    assert to_db(1e-30) == MAX_DB


def test_sizes_must_agree() -> None:
    with pytest.raises(InputError):
        psnr_db(GREY, GREY[:4])
    with pytest.raises(InputError):
        psnr_db(GREY[:4], GREY[:4], MASK)


def test_the_error_is_in_units_of_the_full_range() -> None:
    black, white = np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8)
    assert mse(black, white, MASK) == mse(white, black) == 1.0
    mixed = black.copy()
    mixed[:4, 4:] = 255  # the active token
    assert mse(mixed, white, MASK) == 0.0
    assert mse(mixed, white) == pytest.approx(0.75)


def test_decibels_and_errors_are_inverse() -> None:
    assert to_db(0.01) == pytest.approx(20)
    assert to_mse(20.0) == pytest.approx(0.01)
    assert to_db(0.0) == MAX_DB == to_db(to_mse(MAX_DB))


def test_there_is_one_psnr() -> None:
    """No other module makes decibels of an error."""
    root = Path(sakura.__file__).parent
    formula = re.compile(r"-10(\.0)? \* (math|np)\.log10")
    found = [p.name for p in root.rglob("*.py") if formula.search(p.read_text())]
    assert found == ["fidelity.py"]
