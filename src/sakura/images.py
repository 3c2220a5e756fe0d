"""Pictures and masks from files, whatever a phone or a browser wrote, and pictures to files.

Knows no model: sizes of masks come with a token grid, pictures keep their own size.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask
from sakura.store.writer import put_atomic

Pixels = NDArray[np.uint8]

MAX_PIXELS = 1 << 26
"""64 Mpx, above what phones take; 192 MB as RGB."""
MASK_THRESHOLD = 127
# Formats with a safe decoder of one picture; EPS, PDF and the like would start other programs.
_FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM")
_READ_AS = "PNG, JPEG, WebP, AVIF, GIF, BMP, TIFF or PPM"
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)
_WHITE, _BLACK = 255, 0


def load_rgb(path: str | Path, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Read a picture as people see it: upright, on white, its first frame.

    Args:
        path: any format and mode of picture.
        max_pixels: the largest picture to decode.

    Returns:
        (H, W, 3) uint8.

    Raises:
        InputError: unreadable, not a picture, cut short, damaged or too large.
    """
    return _decode(Path(path), max_pixels, lambda image: _flat(image, _WHITE).convert("RGB"))


def load_mask(path: str | Path, grid: TokenGrid) -> TokenMask:
    """Read a mask: what is brighter than mid-grey may be edited, what is transparent may not.

    Args:
        path: a picture of exactly the grid's size in pixels.
        grid: token grid of the template.

    Raises:
        InputError: not a picture, of another size, or nothing or everything would be edited.
    """
    height, width = grid.size_px
    limit = max(MAX_PIXELS, height * width)
    luma = _decode(Path(path), limit, lambda image: _flat(image, _BLACK).convert("L"))
    if luma.shape != grid.size_px:
        raise InputError(
            f"the mask is {luma.shape[1]} x {luma.shape[0]} px, expected {width} x {height}",
            where=str(path),
            hint="draw it over the template picture, at the same size",
        )
    mask = TokenMask.from_image_array(grid, luma > MASK_THRESHOLD)
    if not 0 < mask.num_active < grid.num_tokens:
        what = "everything" if mask.num_active else "nothing"
        raise InputError(
            f"the mask marks {what}",
            where=str(path),
            hint="paint the region to edit white, the rest black",
        )
    return mask


def save_png(path: str | Path, array: Pixels) -> None:
    """Write (H, W, 3) or (H, W) uint8 as a PNG file, whole or not at all.

    Raises:
        InputError: another shape or type of array.
        StoreError: the file cannot be written.
    """
    put_atomic(path, [encode(array, "PNG")])


def encode(array: Pixels, name: str, **options: Any) -> bytes:
    """A picture file of an (H, W, 3) or (H, W) uint8 array, in Pillow's format `name`."""
    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    if array.dtype != np.uint8 or not is_picture or not array.size:
        raise InputError(f"a picture is {array.shape} {array.dtype}, expected (H, W, 3) uint8")
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(buffer, name, **options)
    return buffer.getvalue()


def _decode(path: Path, max_pixels: int, convert: Callable[[Image.Image], Image.Image]) -> Pixels:
    """Open, check the size before decoding, turn upright, convert."""
    try:
        with warnings.catch_warnings():
            # Pillow's own size warning repeats the check below; its others are about metadata.
            warnings.simplefilter("ignore")
            with Image.open(path, formats=_known_formats()) as image:
                if image.width * image.height > max_pixels:
                    raise _too_large(path, image, max_pixels)
                image.load()
                return np.array(convert(ImageOps.exif_transpose(image)), np.uint8)
    except UnidentifiedImageError as error:
        hint = f"give a {_READ_AS} file"
        raise InputError("not a picture", where=str(path), hint=hint) from error
    except Image.DecompressionBombError as error:
        raise InputError("the picture is too large", where=str(path), hint=_SMALLER) from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise InputError(f"cannot read a picture: {error.strerror}", where=str(path)) from error
    except _DAMAGE as error:
        hint = "it may be cut short; export or download it again"
        raise InputError(f"damaged picture: {error}", where=str(path), hint=hint) from error


def _known_formats() -> list[str]:
    Image.init()  # Pillow may be built without some decoders
    return [name for name in _FORMATS if name in Image.OPEN]


_SMALLER = "make it smaller first; the model works at a far lower resolution anyway"


def _too_large(path: Path, image: Image.Image, max_pixels: int) -> InputError:
    found = f"{image.width} x {image.height} px"
    return InputError(
        f"the picture has {found}, expected at most {max_pixels / 1e6:.1f} Mpx",
        where=str(path),
        hint=_SMALLER,
    )


def _flat(image: Image.Image, ground: int) -> Image.Image:
    """Without alpha, 8 bits a channel: composited on a grey ground where it has transparency."""
    if image.mode == "F":
        raise ValueError("floating-point pixels, whose range is unknown")
    if image.mode.startswith("I"):  # 16 bits of grey; Pillow reads 16-bit colour as 8 bits itself
        wide = np.clip(np.asarray(image).astype(np.int64), 0, 65535)
        return Image.fromarray(((wide + 128) // 257).astype(np.uint8))
    if image.has_transparency_data:
        picture = image.convert("RGBA")
        base = Image.new("RGBA", picture.size, (ground, ground, ground, 255))
        return Image.alpha_composite(base, picture)
    return image.convert("RGB")  # from palettes and CMYK too
