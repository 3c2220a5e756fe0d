"""Opening bundles, and the template in them."""

from __future__ import annotations

import hashlib
import io
import socket
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

import sakura
from sakura.errors import DigestError, FormatError, InputError, NotFoundError, StoreError
from sakura.format import Head, Picture, parse_head, write_bundle
from sakura.format.manifest import Template
from sakura.play import bundle as opening
from sakura.play.bundle import Bundle, from_reader
from tests.format.tiny import tiny_manifest, tiny_shards
from tests.play import bundles
from tests.play.readers import FaultyReader


def png(pixels: bundles.Array, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return file.getvalue()


def tiny(picture: bytes | None, digest: str) -> Bundle:
    """A bundle of a 6 x 6 template."""
    template = Template(digest=digest, width=6, height=6)
    draft = msgspec.structs.replace(tiny_manifest(), template=template)
    carried = None if picture is None else Picture(picture, "image/png")
    return from_reader(FaultyReader(b"".join(write_bundle(draft, tiny_shards(), carried))))


PIXELS = np.arange(108, dtype=np.uint8).reshape(6, 6, 3)
DIGEST = hashlib.sha256(PIXELS.tobytes()).hexdigest()


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_template_is_what_was_packed(kind: str) -> None:
    found = tiny(png(PIXELS, kind), DIGEST)
    template = found.template()
    np.testing.assert_array_equal(template.image, PIXELS)
    assert template.mask == found.manifest.token_mask
    assert (template.task, template.noise_seed) == ("face-swap", 7)
    assert template.conditioning == found.manifest.conditioning
    assert found.template() is template


def test_digests_of_pixels_may_be_cut_short() -> None:
    assert tiny(png(PIXELS), DIGEST[:32]).template().image.shape == (6, 6, 3)


def test_other_pixels_are_refused() -> None:
    with pytest.raises(DigestError, match="other pixels"):
        tiny(png(PIXELS), "0" * 64).template()


def test_a_picture_of_another_size_is_refused_undecoded() -> None:
    large = png(np.zeros((4000, 4000, 3), np.uint8))
    with pytest.raises(FormatError, match="4000"):
        tiny(large, DIGEST).template()


@pytest.mark.parametrize("data", [b"not a picture", png(PIXELS)[:-30], b"GIF89a" + bytes(50)])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="decoded"):
        tiny(data, DIGEST).template()


def test_other_kinds_of_file_are_never_decoded() -> None:
    with pytest.raises(FormatError, match="decoded"):
        tiny(png(PIXELS, "TIFF"), DIGEST).template()


def test_a_bundle_without_a_picture_says_so() -> None:
    with pytest.raises(InputError, match="no template picture"):
        tiny(None, DIGEST).template()


def test_a_damaged_picture_is_refused() -> None:
    data = bytearray(bundles.compressed().data)
    head = parse_head(bytes(data), len(data))
    assert isinstance(head, Head)
    data[head.data_start + 5000] ^= 1
    with pytest.raises(DigestError, match="damaged"):
        from_reader(FaultyReader(bytes(data))).template()


def test_a_picture_beyond_the_first_bytes_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FIRST_BYTES", 64)
    found = from_reader(FaultyReader(bundles.compressed().data))
    assert found.head_bytes == found.head.data_start
    np.testing.assert_array_equal(found.template().image, bundles.template().image)
    blob = found.manifest.template.blob
    assert blob is not None
    assert found.head_bytes == found.head.data_start + blob.length
    found.template()
    assert found.head_bytes == found.head.data_start + blob.length


def test_files_open(tmp_path: Path) -> None:
    path = tmp_path / "a.skv"
    path.write_bytes(bundles.compressed().data)
    found = sakura.open(path)
    assert found.info.num_bytes == path.stat().st_size
    assert found.open_s >= 0


def test_an_origin_that_is_down_is_a_store_error_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(StoreError) as caught:
        sakura.open(f"http://127.0.0.1:{port}/a.skv")
    assert caught.value.hint


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        sakura.open(tmp_path / "none.skv")
    assert caught.value.hint


@pytest.mark.parametrize("num_bytes", [0, 5, 40, 3000])
def test_what_is_no_bundle_is_a_format_error(num_bytes: int) -> None:
    with pytest.raises(FormatError):
        from_reader(FaultyReader(bundles.compressed().data[:num_bytes]))
