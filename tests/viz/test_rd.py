"""The plot is a picture with a line a codec, and refuses to be empty."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sakura.errors import InputError
from sakura.viz.rd import Labels, curves_png, write_curves

LABELS = Labels("title", "dB")
CURVES = {"sakura": [(0.1, 40.0), (0.4, 45.0)], "other": [(1.0, 40.0), (2.0, 44.0)]}


def colours(data: bytes) -> set[tuple[int, ...]]:
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    return set(map(tuple, np.unique(pixels.reshape(-1, 3), axis=0).tolist()))


def test_every_codec_is_drawn(tmp_path: Path) -> None:
    write_curves(tmp_path / "rd.png", CURVES, "sakura", LABELS)
    both = colours((tmp_path / "rd.png").read_bytes())
    ours, theirs = (0xD9, 0x4A, 0x8C), (0x3B, 0x82, 0xF6)
    assert {ours, theirs} <= both
    assert theirs not in colours(curves_png({**CURVES, "other": []}, "sakura", LABELS))


def test_nothing_to_draw() -> None:
    with pytest.raises(InputError, match="no curve"):
        curves_png({"sakura": []}, "sakura", LABELS)
