"""Pictures from files: every mode as people see it, every bad file a clear error."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sakura.errors import InputError, StoreError
from sakura.grid import TokenGrid
from sakura.images import load_mask, load_rgb, save_png

GRID = TokenGrid(4, 4, 8)
RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (6, 9, 3), np.uint8)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def solid(mode: str, color: Any, size: tuple[int, int] = (4, 3)) -> Image.Image:
    return Image.new(mode, size, color)


def mean_of(path: Path) -> list[int]:
    pixels = load_rgb(path)
    assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3
    return [int(v) for v in pixels.reshape(-1, 3).mean(0).round()]


@pytest.mark.parametrize("extension", ["png", "webp", "bmp", "tiff", "ppm"])
def test_lossless_formats_come_back(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.{extension}"
    options = {"lossless": True} if extension == "webp" else {}
    np.testing.assert_array_equal(
        load_rgb(saved(path, Image.fromarray(PICTURE), **options)), PICTURE
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    """Table of the EXIF standard: which transformations undo each orientation."""
    upright = {
        1: PICTURE,
        2: PICTURE[:, ::-1],
        3: PICTURE[::-1, ::-1],
        4: PICTURE[::-1],
        5: PICTURE.transpose(1, 0, 2),
        6: np.rot90(PICTURE, -1),
        7: PICTURE[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(PICTURE, 1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", Image.fromarray(PICTURE), exif=exif)
    np.testing.assert_array_equal(load_rgb(path), upright)


def test_alpha_lies_on_white(tmp_path: Path) -> None:
    assert mean_of(saved(tmp_path / "a.png", solid("RGBA", (255, 0, 0, 0)))) == [255, 255, 255]
    assert mean_of(saved(tmp_path / "b.png", solid("RGBA", (255, 0, 0, 51)))) == [255, 204, 204]
    assert mean_of(saved(tmp_path / "c.png", solid("LA", (0, 255)))) == [0, 0, 0]


def test_transparent_palette_lies_on_white(tmp_path: Path) -> None:
    image = solid("P", 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    assert mean_of(saved(tmp_path / "a.png", image)) == [10, 20, 30]
    assert mean_of(saved(tmp_path / "b.png", image, transparency=1)) == [255, 255, 255]


def test_grey_bilevel_and_cmyk(tmp_path: Path) -> None:
    assert mean_of(saved(tmp_path / "a.png", solid("L", 77))) == [77, 77, 77]
    assert mean_of(saved(tmp_path / "b.png", solid("1", 1))) == [255, 255, 255]
    cmyk = mean_of(saved(tmp_path / "c.jpg", solid("CMYK", (0, 255, 255, 0), (16, 16)), quality=95))
    assert np.abs(np.subtract(cmyk, [255, 0, 0])).max() <= 4


def test_16_bit_is_scaled_not_cut(tmp_path: Path) -> None:
    wide = np.array([[0, 257, 32896, 65535]], np.uint16)
    path = saved(tmp_path / "a.png", Image.fromarray(wide))
    assert load_rgb(path)[0, :, 1].tolist() == [0, 1, 128, 255]
    path = saved(tmp_path / "a.tiff", Image.fromarray(wide))
    assert load_rgb(path)[0, :, 1].tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("extension", ["gif", "webp", "png"])
def test_animations_give_their_first_frame(tmp_path: Path, extension: str) -> None:
    frames = [solid("RGB", color, (8, 8)) for color in ("red", "blue")]
    path = saved(tmp_path / f"a.{extension}", frames[0], save_all=True, append_images=frames[1:])
    assert np.abs(np.subtract(mean_of(path), [255, 0, 0])).max() <= 4


def test_truncation_anywhere_is_an_input_error(tmp_path: Path) -> None:
    for extension in ("png", "jpg", "webp", "gif"):
        whole = saved(tmp_path / f"a.{extension}", Image.fromarray(np.tile(PICTURE, (9, 9, 1))))
        data = whole.read_bytes()
        for length in np.linspace(0, len(data) - 40, 25).astype(int):
            (tmp_path / "cut").write_bytes(data[:length])
            with pytest.raises(InputError) as caught:
                load_rgb(tmp_path / "cut")
            assert caught.value.hint


def test_other_files_are_input_errors(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "a.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    for name in ("a.txt", "a.eps", "missing.png", "."):
        with pytest.raises(InputError):
            load_rgb(tmp_path / name)


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))


@pytest.mark.parametrize("side", [9_000, 12_000, 30_000, 2**31 - 1])
def test_bombs_are_refused_before_decoding(tmp_path: Path, side: int) -> None:
    """Below, between and above Pillow's own limits (warning, error)."""
    (tmp_path / "bomb.png").write_bytes(png_of_size(side, side))
    with pytest.raises(InputError) as caught:
        load_rgb(tmp_path / "bomb.png")
    assert "smaller" in (caught.value.hint or "")


def test_pixel_cap_is_the_callers(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(PICTURE))
    assert load_rgb(path, max_pixels=54).shape == (6, 9, 3)
    with pytest.raises(InputError, match="9 x 6 px"):
        load_rgb(path, max_pixels=53)


def test_float_pixels_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.tiff", solid("F", 0.5))
    with pytest.raises(InputError, match="floating-point"):
        load_rgb(path)


def pixel_mask(value: int = 255) -> NDArray[np.uint8]:
    pixels = np.zeros((32, 32), np.uint8)
    pixels[8:10, 16:24] = value
    return pixels


def test_mask_marks_tokens(tmp_path: Path) -> None:
    mask = load_mask(saved(tmp_path / "m.png", Image.fromarray(pixel_mask())), GRID)
    assert mask.grid == GRID and mask.active.tolist() == [6]


@pytest.mark.parametrize(("value", "count"), [(128, 1), (127, 0)])
def test_mask_threshold(tmp_path: Path, value: int, count: int) -> None:
    path = saved(tmp_path / "m.png", Image.fromarray(pixel_mask(value)))
    if count:
        assert load_mask(path, GRID).num_active == count
    else:
        with pytest.raises(InputError, match="marks nothing"):
            load_mask(path, GRID)


def test_transparent_parts_of_a_mask_are_kept(tmp_path: Path) -> None:
    """A brush on an empty drawing layer: white where painted, transparent elsewhere."""
    alpha = pixel_mask()
    rgba = np.dstack([np.full((32, 32, 3), 255, np.uint8), alpha])
    assert load_mask(saved(tmp_path / "m.png", Image.fromarray(rgba)), GRID).active.tolist() == [6]


@pytest.mark.parametrize("shape", [(32, 31), (31, 32), (64, 64), (4, 4)])
def test_mask_of_another_size_is_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    path = saved(tmp_path / "m.png", Image.fromarray(np.full(shape, 255, np.uint8)))
    with pytest.raises(InputError, match="32 x 32"):
        load_mask(path, GRID)


@pytest.mark.parametrize(("value", "what"), [(0, "nothing"), (255, "everything")])
def test_mask_that_says_nothing_is_refused(tmp_path: Path, value: int, what: str) -> None:
    path = saved(tmp_path / "m.png", Image.fromarray(np.full((32, 32), value, np.uint8)))
    with pytest.raises(InputError, match=what):
        load_mask(path, GRID)


def test_save_png_round_trip(tmp_path: Path) -> None:
    save_png(tmp_path / "a.png", PICTURE[:, ::-1])
    np.testing.assert_array_equal(load_rgb(tmp_path / "a.png"), PICTURE[:, ::-1])
    assert os.listdir(tmp_path) == ["a.png"]


def test_save_png_keeps_the_old_file_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_png(tmp_path / "a.png", PICTURE)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError):
        save_png(tmp_path / "a.png", PICTURE[::-1])
    np.testing.assert_array_equal(load_rgb(tmp_path / "a.png"), PICTURE)


@pytest.mark.parametrize("shape", [(4, 4, 4), (4,), (0, 4, 3)])
def test_save_png_refuses_other_arrays(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        save_png(tmp_path / "a.png", np.zeros(shape, np.uint8))
