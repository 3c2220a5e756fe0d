"""Opens a bundle: its head in one or two reads, and the template picture.

Shards are not touched; that is the session's business.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sakura.errors import DigestError, FormatError, InputError, StoreError
from sakura.format import Head, HeadNeeds, Manifest, parse_head
from sakura.format.shard import digest
from sakura.models.base import Template
from sakura.store.base import ObjectInfo, RangeReader
from sakura.store.open import open_reader
from sakura.units import KIB

Array = NDArray[Any]

FIRST_BYTES = 32 * KIB
"""Asked for before anything is known; holds head and picture of a small bundle."""
PICTURE_FORMATS = ("PNG", "WEBP")


def open(source: str | Path) -> Bundle:
    """Open a bundle at a path or URL. Named for `sakura.open`.

    Raises:
        StoreError: the origin does not answer, or there is no such object.
        FormatError: it is no bundle, or a damaged one.
    """
    return from_reader(open_reader(source))


def from_reader(reader: RangeReader) -> Bundle:
    """Open the bundle that a reader reads. Call it where no event loop runs."""
    start_s = time.monotonic()
    try:
        info, head, prefix = asyncio.run(_read(reader))
    except StoreError as error:
        if error.hint is None:
            error.hint = "check the address, and that what is behind it works"
        raise
    return Bundle(reader, info, head, prefix, time.monotonic() - start_s)


class Bundle:
    """An opened bundle.

    Args:
        reader: where the bytes come from.
        info: the object when it was opened; a player refuses any other.
        head: the parsed head.
        prefix: what was read of the object to get there.
        open_s: how long that took.

    Attributes:
        head_bytes: read so far of head and template picture, and what came along with them.
    """

    def __init__(
        self, reader: RangeReader, info: ObjectInfo, head: Head, prefix: bytes, open_s: float
    ) -> None:
        self.reader, self.info, self.head, self.open_s = reader, info, head, open_s
        self.prefix, self.head_bytes = prefix, len(prefix)
        self._picture = _picture_in(head, prefix)
        self._template: Template | None = None

    @property
    def manifest(self) -> Manifest:
        return self.head.manifest

    def template(self) -> Template:
        """The public part of an edit; the picture is fetched and checked the first time.

        Raises:
            StoreError: the origin does not answer.
            DigestError: picture or pixels are not those of the manifest.
            FormatError: the picture cannot be decoded.
            InputError: the bundle carries no picture.
        """
        if self._template is None:
            manifest = self.manifest
            self._template = Template(
                image=self._pixels(),
                mask=manifest.token_mask,
                task=manifest.task,
                conditioning=dict(manifest.conditioning),
                noise_seed=manifest.noise.seed,
            )
        return self._template

    def _pixels(self) -> Array:
        blob, expected = self.manifest.template.blob, self.manifest.template
        where = self.reader.url
        if blob is None:
            raise InputError(
                "the bundle carries no template picture",
                where=where,
                hint="pack it again with its picture",
            )
        data = self._picture
        if data is None:
            start = self.head.data_start + blob.offset
            data = self.reader.read(start, start + blob.length, self.info.etag)
            self.head_bytes += len(data)
        if digest(data) != blob.digest:
            raise DigestError("the template picture is damaged", where=where)
        pixels = _decode(data, expected.width, expected.height)
        if not hashlib.sha256(pixels.tobytes()).hexdigest().startswith(expected.digest):
            raise DigestError("the template picture has other pixels than expected", where=where)
        self._picture = data
        return pixels


async def _read(reader: RangeReader) -> tuple[ObjectInfo, Head, bytes]:
    """Info, head and the bytes read, on one connection."""
    try:
        info, prefix = await reader.read_prefix(FIRST_BYTES)
        while isinstance(head := parse_head(prefix, info.num_bytes), HeadNeeds):
            prefix += await _range(reader, len(prefix), head.num_bytes, info)
        return info, head, prefix
    finally:
        await reader.close()


async def _range(reader: RangeReader, start: int, stop: int, info: ObjectInfo) -> bytes:
    return b"".join([piece async for piece in reader.stream(start, stop, info.etag)])


def _picture_in(head: Head, prefix: bytes) -> bytes | None:
    """The template picture, if the first bytes happen to hold all of it."""
    blob = head.manifest.template.blob
    if blob is None:
        return None
    start = head.data_start + blob.offset
    stop = start + blob.length
    return prefix[start:stop] if stop <= len(prefix) else None


def _decode(data: bytes, width: int, height: int) -> Array:
    """(height, width, 3) uint8; the size is checked before any pixel is decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of decompression bombs
            with Image.open(io.BytesIO(data), formats=PICTURE_FORMATS) as image:
                if image.size != (width, height):
                    raise FormatError(
                        f"the template picture is {image.size}, expected {(width, height)}"
                    )
                return np.array(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError) as error:
        raise FormatError(f"the template picture cannot be decoded: {error}") from error
