"""Opens a bundle: its head in one or two reads, and the template picture; from the flash cache,
if the origin has the same version still or does not answer.

Shards are not touched; that is the session's business.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sakura.errors import DigestError, FormatError, InputError, NotFoundError, StoreError
from sakura.format import Head, HeadNeeds, Manifest, parse_head
from sakura.format.shard import digest
from sakura.models.base import Template
from sakura.play.flash import FlashCache, as_cache
from sakura.play.flash_entry import Kept
from sakura.store.base import ObjectInfo, RangeReader
from sakura.store.open import open_reader, scheme_of
from sakura.units import KIB

Array = NDArray[Any]

FIRST_BYTES = 32 * KIB
"""Asked for before anything is known; holds head and picture of a small bundle."""
PICTURE_FORMATS = ("PNG", "WEBP")


REVALIDATE_S = 2.0
"""How long an origin may take to say which version it has, where there is one in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """How a bundle was opened.

    Args:
        info: the object when it was opened; a player refuses any other.
        head: the parsed head.
        prefix: first bytes of the object, at least the head.
        picture: the template picture as a file, if it is here already.
        num_read: bytes that the origin sent.
        offline: why the origin could not be asked, if so; then all is from the flash cache.
    """

    info: ObjectInfo
    head: Head
    prefix: bytes
    picture: bytes | None
    num_read: int
    offline: str | None = None


def open(source: str | Path, cache: FlashCache | str | Path | None = None) -> Bundle:
    """Open a bundle at a path or URL. Named for `sakura.open`.

    Args:
        source: path or URL.
        cache: flash cache, or its folder: the bundle is opened from it if the origin has the same
            version still, or does not answer, and players add to it. Local files need none.

    Raises:
        StoreError: the origin does not answer, or there is no such object.
        FormatError: it is no bundle, or a damaged one.
    """
    is_local = scheme_of(source) in ("", "file")
    found = None if cache is None or is_local else as_cache(cache)
    return from_reader(open_reader(source), found, str(source))


def from_reader(
    reader: RangeReader, cache: FlashCache | None = None, source: str | None = None
) -> Bundle:
    """Open the bundle that a reader reads. Call it where no event loop runs.

    Args:
        reader: the reader.
        cache: see `open`.
        source: what the cache knows the bundle by; the reader's URL by default.
    """
    start_s = time.monotonic()
    source = source or reader.url
    kept = None if cache is None else _opening_of(cache.find(source))
    try:
        opening = asyncio.run(_read(reader) if kept is None else _reopen(reader, kept))
    except StoreError as error:
        if error.hint is None:
            error.hint = "check the address, and that what is behind it works"
        raise
    bundle = Bundle(reader, opening, time.monotonic() - start_s)
    bundle.source, bundle.cache = source, cache
    return bundle


class Bundle:
    """An opened bundle.

    Args:
        reader: where the bytes come from.
        opening: how it was opened.
        open_s: how long that took.

    Attributes:
        info, head, prefix, offline: see `Opening`.
        head_bytes: read so far of head and template picture, and what came along with them.
        source: what the flash cache knows it by.
        cache: where players keep chunks, if they are not told otherwise.
    """

    def __init__(self, reader: RangeReader, opening: Opening, open_s: float) -> None:
        self.reader, self.open_s = reader, open_s
        self.info, self.head, self.prefix = opening.info, opening.head, opening.prefix
        self.head_bytes, self.offline = opening.num_read, opening.offline
        self.source = reader.url
        self.cache: FlashCache | None = None
        self._picture = opening.picture
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

    def kept(self) -> Kept:
        """What a flash cache keeps of it besides chunks; its template was asked for before."""
        info, head = self.info, self.prefix[: self.head.data_start]
        return Kept(self.reader.url, info.etag, info.num_bytes, head, self._picture)

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


async def _read(reader: RangeReader) -> Opening:
    """Head, and what comes along, on one connection."""
    try:
        info, prefix = await reader.read_prefix(FIRST_BYTES)
        while isinstance(head := parse_head(prefix, info.num_bytes), HeadNeeds):
            prefix += await _range(reader, len(prefix), head.num_bytes, info)
        return Opening(info, head, prefix, _picture_in(head, prefix), len(prefix))
    finally:
        await reader.close()


async def _reopen(reader: RangeReader, kept: Opening) -> Opening:
    """What the cache holds, if that is the origin's version still or the origin does not answer."""
    try:
        async with asyncio.timeout(REVALIDATE_S):
            info = await reader.head()
        return kept if _is_same(info, kept.info) else await _read(reader)
    except NotFoundError:
        raise
    except (StoreError, TimeoutError) as error:
        return replace(kept, offline=str(error) or "the origin does not answer")
    finally:
        await reader.close()


def _is_same(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Whether a strong tag says so; names may be spelled in two ways."""
    is_strong = one.etag is not None and not one.etag.startswith("W/")
    return is_strong and (one.etag, one.num_bytes) == (other.etag, other.num_bytes)


def _opening_of(kept: Kept | None) -> Opening | None:
    """The bundle in the cache; None where there is none, or a damaged one."""
    if kept is None:
        return None
    try:
        head = parse_head(kept.head, kept.num_bytes)
    except FormatError:
        return None
    if isinstance(head, HeadNeeds):
        return None
    blob, picture = head.manifest.template.blob, kept.picture
    is_intact = blob is not None and picture is not None and digest(picture) == blob.digest
    name = kept.url.rsplit("/", 1)[-1]
    info = ObjectInfo(name, kept.num_bytes, kept.etag)
    return Opening(info, head, kept.head, picture if is_intact else None, 0)


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
