"""Capture, neutral references, and the exactness of injecting a request's own state."""

from __future__ import annotations

import numpy as np
import pytest

from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask
from sakura.models.base import Request, Template
from sakura.models.mini_inputs import placement_of
from sakura.pack.capture import capture, dilated
from sakura.pack.edits import Injection, edit_full, edit_injected, mse_inside, to_db, to_mse
from sakura.pack.families import family_of
from sakura.pack.neutral import KINDS, calibration_references, neutral_reference, own_region
from tests.pack.toy import GRID, ToyAdapter, toy_template

PICTURE = np.random.default_rng(3).integers(0, 256, (64, 64, 3), np.uint8)


def test_injecting_a_requests_own_state_is_exact() -> None:
    """Captured with the user's own reference, seed and noise, nothing is approximated."""
    adapter, template = ToyAdapter(), toy_template()
    request = Request(PICTURE, seed=4)
    captured = capture(adapter, template, [request.reference], seed=4)
    assert captured.state.shape == (2, 2, 3, 12, 2, 6)
    edit = edit_injected(adapter, template, request, Injection(captured.tokens, captured.state))
    assert mse_inside(edit, edit_full(adapter, template, request), template.mask) < to_mse(60)


def test_rows_may_come_in_any_order() -> None:
    adapter, template, request = ToyAdapter(), toy_template(), Request(PICTURE)
    captured = capture(adapter, template, [PICTURE])
    order = np.random.default_rng(0).permutation(len(captured.tokens))
    plain = edit_injected(adapter, template, request, Injection(captured.tokens, captured.state))
    shuffled = Injection(captured.tokens[order], captured.state[:, :, :, order])
    assert mse_inside(edit_injected(adapter, template, request, shuffled), plain, template.mask) < (
        to_mse(60)
    )


def test_several_references_are_averaged() -> None:
    adapter, template = ToyAdapter(), toy_template()
    pictures = [PICTURE, PICTURE // 2]
    both = capture(adapter, template, pictures)
    single = [capture(adapter, template, [picture]) for picture in pictures]
    np.testing.assert_allclose(both.state, (single[0].state + single[1].state) / 2, rtol=1e-6)
    np.testing.assert_allclose(both.mass, (single[0].mass + single[1].mass) / 2)


def test_a_capture_has_nothing_of_active_tokens() -> None:
    template = toy_template()
    captured = capture(ToyAdapter(), template, [PICTURE])
    assert captured.tokens.tolist() == template.mask.cached.tolist()
    assert captured.state.shape[3] == captured.mass.shape[1] == template.mask.num_cached


def test_a_ring_makes_neighbours_active() -> None:
    template = toy_template()
    assert dilated(template, 0) is template
    with pytest.raises(InputError):
        dilated(template, -1)
    grown = dilated(template, 1)
    assert grown.mask.num_active == 16
    with pytest.raises(InputError, match="outside the mask"):
        capture(ToyAdapter(), grown, [PICTURE])


def test_the_placement_does_not_move_with_the_ring() -> None:
    bits = np.zeros((16, 16), bool)
    bits[6:9, 5:8] = True
    mask = TokenMask.from_bits(TokenGrid(16, 16, 8), bits)
    bare = Template(np.zeros((128, 128, 3), np.uint8), mask, "into-scene")
    family = family_of("mini-a")
    settled = family.settled(bare)
    placement = settled.conditioning["placement"]
    assert tuple(placement) == placement_of(bare)
    assert placement_of(dilated(settled, 1)) == tuple(placement)
    assert family.settled(settled) is settled


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(InputError, match="mini-z"):
        family_of("mini-z")


def test_neutral_references_are_public_and_different() -> None:
    template = toy_template()
    pictures = [neutral_reference(kind, template) for kind in KINDS]
    for picture in pictures:
        assert picture.dtype == np.uint8 and picture.ndim == 3
    assert (pictures[0] == 128).all()
    np.testing.assert_array_equal(pictures[2], template.image[2:6, 2:6])
    portraits = calibration_references(6)
    everything = [pictures[1], *portraits]
    assert len({picture.tobytes() for picture in everything}) == 7
    with pytest.raises(InputError):
        neutral_reference("face", template)


@pytest.mark.parametrize("count", [0, 7, -1])
def test_calibration_references_are_limited(count: int) -> None:
    with pytest.raises(InputError):
        calibration_references(count)


def test_the_own_region_repeats_edges_beyond_the_canvas() -> None:
    template = toy_template()
    moved = Template(template.image, template.mask, "toy", {"placement": [-1, 2, 3, 4]})
    region = own_region(moved)
    assert region.shape == (6, 8, 3)
    np.testing.assert_array_equal(region[0], region[2])
    np.testing.assert_array_equal(region[2:, :4], template.image[:4, 4:])
    np.testing.assert_array_equal(region[:, 7], region[:, 4])


def test_mse_counts_the_masks_pixels_only() -> None:
    mask = toy_template().mask
    black, white = np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8)
    mixed = black.copy()
    mixed[2:6, 2:6] = 255
    assert mse_inside(black, white, mask) == 1.0
    assert mse_inside(mixed, white, mask) == 0.0
    assert to_db(0.01) == pytest.approx(20) and to_mse(20.0) == pytest.approx(0.01)
    assert to_db(0.0) == 100.0
    assert mask.grid == GRID
