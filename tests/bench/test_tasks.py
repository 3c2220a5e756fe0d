"""The shipped templates: exact, small, of the promised mask ratios, with their licences."""

from __future__ import annotations

import numpy as np
import pytest

from sakura.bench.tasks import TASKS, load_task
from sakura.errors import InputError
from sakura.fidelity import mask_pixels
from sakura.grid import TokenGrid
from sakura.images import load_mask, load_rgb

GRID = TokenGrid(16, 16, 8)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_exact(name: str) -> None:
    task = load_task(name)
    template, mask = load_rgb(task.template_path), load_mask(task.mask_path, GRID)
    truth, inside = task.truth(), mask_pixels(mask)
    assert template.shape == truth.shape == (128, 128, 3)
    assert load_rgb(task.reference_path).shape == (64, 64, 3)
    assert np.array_equal(template[~inside], truth[~inside])
    assert not np.array_equal(template[inside], truth[inside])
    assert mask.ratio <= 0.25
    top, left, height, width = task.placement
    assert 0 <= top <= top + height <= 16 and 0 <= left <= left + width <= 16
    rows, columns = np.nonzero(mask.bits)
    assert top <= rows.min() and rows.max() < top + height
    assert left <= columns.min() and columns.max() < left + width


def test_templates_are_small_and_their_licences_are_named() -> None:
    folder = load_task("face-swap").folder.parent
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert sum(sizes) < 300_000
    notice = (folder / "NOTICE").read_text("utf-8")
    assert all(name in notice for name in ("Pablo Stanley", "Johan Melin", "Micah Lanier"))
    assert notice.count("CC BY 4.0") >= 2


def test_an_unknown_task_names_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        load_task("hat-swap")
    assert all(name in (caught.value.hint or "") for name in TASKS)
