"""Sheets: enlarged without smoothing, in rows of three, with the difference amplified."""

from __future__ import annotations

import numpy as np
import pytest

from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask
from sakura.viz.compare import PANEL_PX, difference, make_sheet, show_mask


def test_difference_is_amplified_and_clipped() -> None:
    a = np.full((2, 2, 3), 100, np.uint8)
    b = a.copy()
    b[0, 0], b[0, 1] = 103, 40
    assert difference(a, b)[0, 0, 0] == 24
    assert difference(b, a)[0, 1, 0] == 255
    assert difference(a, b)[1, 1, 0] == 0
    with pytest.raises(InputError):
        difference(a, b[:1])


def test_the_mask_panel_darkens_all_but_the_active_tokens() -> None:
    grid = TokenGrid(2, 2, 4)
    mask = TokenMask.from_bits(grid, np.array([[True, False], [False, False]]))
    shown = show_mask(np.full((8, 8, 3), 80, np.uint8), mask)
    assert (shown[:4, :4] == 80).all()
    assert (shown[4:] == 20).all()
    with pytest.raises(InputError):
        show_mask(np.zeros((8, 9, 3), np.uint8), mask)


def test_a_sheet_enlarges_each_pixel_to_a_block() -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (128, 128, 3), np.uint8)
    sheet = make_sheet([("one", "first", picture)], "title")
    top, left = 52, 16
    panel = sheet[top : top + PANEL_PX, left : left + PANEL_PX]
    assert np.array_equal(panel, np.kron(picture, np.ones((3, 3, 1), np.uint8)))


def test_a_sheet_has_rows_of_three_and_captions() -> None:
    black = np.zeros((128, 128, 3), np.uint8)
    three = make_sheet([("a", "b", black)] * 3, "title")
    four = make_sheet([("a", "b", black)] * 4, "title")
    assert three.shape[1] == four.shape[1]
    assert four.shape[0] - three.shape[0] > PANEL_PX
    below = three[52 + PANEL_PX : 52 + PANEL_PX + 60, 16 : 16 + PANEL_PX]
    assert (below < 128).any()


def test_pictures_of_any_shape_fit() -> None:
    for shape in ((64, 64, 3), (1000, 300, 3), (1, 700, 3)):
        assert make_sheet([("a", "b", np.zeros(shape, np.uint8))], "title").shape[2] == 3
