"""The rows of README.md, by number. Each bundle is sealed: its head digest is right."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.errors import FormatError
from sakura.format import parse_head, read_head
from tests.attacks.fuzz_head import target
from tests.format.tiny import altered, reader, seal, split, tiny_bundle

BUNDLE = tiny_bundle()
RAW, DATA = split(BUNDLE)


def refused(bundle: bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read_head(reader(bundle), len(bundle))
    return caught.value


def replaced(old: bytes, new: bytes) -> bytes:
    assert RAW.count(old) == 1
    return seal(RAW.replace(old, new), DATA)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, len(BUNDLE) - 31, 16 << 20])
def test_01_lying_manifest_length(length: int) -> None:
    lying = BUNDLE[:8] + struct.pack("<Q", length) + BUNDLE[16:]
    reads: list[int] = []

    def read(offset: int, length: int) -> bytes:
        reads.append(length)
        return lying[offset : offset + length]

    with pytest.raises(FormatError, match="manifest of"):
        read_head(read, len(lying))
    assert reads == [32]


def test_02_manifest_above_the_cap() -> None:
    head = b"SAKV" + struct.pack("<HHQ", 1, 0, (16 << 20) + 1) + bytes(16)
    with pytest.raises(FormatError, match="expected at most 16777216"):
        parse_head(head, 1 << 40)


@pytest.mark.parametrize("key", [b'"conditioning":{"guidance":', b'"zzz":'])
def test_03_deep_nesting(key: bytes) -> None:
    deep = b"[" * 1_000_000
    raw = RAW.replace(b'"conditioning":{"guidance":', key + deep) if b"cond" in key else None
    refused(seal(raw or RAW[:-1] + b"," + key + deep, DATA))


def test_04_repeated_key() -> None:
    error = refused(replaced(b'"task":"face-swap"', b'"task":"face-swap","task":"other"'))
    assert "repeated" in str(error)


def test_05_unsorted_keys() -> None:
    error = refused(replaced(b'"num_double":1,"num_heads":1', b'"num_heads":1,"num_double":1'))
    assert "expected sorted keys" in str(error)


@pytest.mark.parametrize(
    "number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 10_000, b"0x10", b"01"]
)
def test_06_numbers_that_are_none(number: bytes) -> None:
    refused(replaced(b'"theta":2000.0', b'"theta":' + number))
    refused(seal(RAW[:-1] + b',"zzz":' + (number if number != b"1e999" else b"1e"), DATA))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("template", "blob", "offset"), -1),
        (("template", "blob", "length"), -16),
        (("shards", 1, 4, 0, 0), -6),
        (("shards", 1, 4, 0, 1), [-6]),
        (("shards", 1, 4, 0, 1), [12, -6]),
        (("geometry", "num_double"), -1),
        (("grid", "height"), -3),
        (("noise", "seed"), -1),
        (("tiles", "widths"), [8, -1]),
    ],
)
def test_07_negative_numbers(path: tuple[str | int, ...], value: object) -> None:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    assert "Expected `int`" in str(refused(altered(BUNDLE, change)))


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("grid", {"height": 1 << 31, "width": 1 << 31}),
        ("grid", {"height": 1 << 53}),
        ("geometry", {"num_heads": 1 << 50}),
        ("geometry", {"num_double": 1 << 50}),
        ("grid", {"height": 1 << 64}),
    ],
)
def test_08_huge_counts(section: str, change: dict[str, int]) -> None:
    bundle = altered(BUNDLE, lambda document: document[section].update(change))
    tracemalloc.start()
    refused(bundle)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_09_huge_product() -> None:
    def change(document: dict[str, Any]) -> None:
        document["grid"].update(height=1 << 10, width=1 << 10)
        document["geometry"].update(num_heads=1 << 8, head_dim=1 << 8)

    assert "values in a shard" in str(refused(altered(BUNDLE, change)))


@pytest.mark.parametrize("offset", [(1 << 53) - 6, 1 << 53, (1 << 64) - 6, 1 << 64])
def test_10_lying_offsets(offset: int) -> None:
    def change(document: dict[str, Any]) -> None:
        document["shards"][1][4][0][0] = offset

    refused(altered(BUNDLE, change))


def test_11_aliased_layers() -> None:
    def change(document: dict[str, Any]) -> None:
        document["shards"][1][4][1] = document["shards"][1][4][0]

    assert "inside" in str(refused(altered(BUNDLE, change)))


def test_12_hidden_bytes() -> None:
    refused(seal(RAW, DATA + b"PK\x05\x06"))
    error = refused(replaced(b'"length":16,"media_type"', b'"length":12,"media_type"'))
    assert "expected 12, the end of $.template.blob" in str(error)


def test_13_many_empty_shards() -> None:
    def change(document: dict[str, Any]) -> None:
        empty = [0, [], "", 0]
        document["shards"] = [[n, 0, [1, 1], 0, [empty, empty]] for n in range(2, 100_002)]

    assert "expected less than 2" in str(refused(altered(BUNDLE, change)))


@pytest.mark.parametrize(
    "raw",
    [
        RAW.replace(b"caf\xc3\xa9", b"caf\xff\xfe"),
        RAW.replace(b"caf\xc3\xa9", b"caf\\ud800"),
        RAW.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + RAW,
        b"",
        b"[]",
        b"null",
        RAW + b"{}",
    ],
)
def test_14_other_encodings(raw: bytes) -> None:
    refused(seal(raw, DATA))


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"<!do", b"\x89PNG", b"SAKW", b"sakv"])
def test_15_other_files(magic: bytes) -> None:
    assert refused(magic + BUNDLE[4:]).where == "byte 0"


@given(st.binary(max_size=200))
def test_16_random_bytes(data: bytes) -> None:
    target(data)
    target(b"SAKV\x01\x00\x00\x00" + data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(data=st.data(), value=JSON)
def test_16_a_random_value_anywhere(data: st.DataObject, value: object) -> None:
    def change(document: Any) -> None:
        while True:
            keys = sorted(document) if isinstance(document, dict) else range(len(document))
            key = data.draw(st.sampled_from(list(keys)))
            inner = document[key]
            if not (isinstance(inner, dict | list) and inner and data.draw(st.booleans())):
                document[key] = value
                return
            document = inner

    bundle = altered(BUNDLE, change)
    with contextlib.suppress(FormatError):
        read_head(reader(bundle), len(bundle))


def test_a_packed_manifest_is_one_whole_stream_that_does_not_explode() -> None:
    packed = zlib.compress(RAW, 9)
    assert read_head(reader(seal(packed, DATA)), len(seal(packed, DATA)))
    for broken in (
        packed[:-1],
        packed + b"\0",
        packed + packed,
        packed[:-4] + b"\0\0\0\0",
        b"\x78",
    ):
        refused(seal(broken, DATA))
    refused(seal(zlib.compress(RAW + b" " * (1 << 20), 9), DATA))
    refused(seal(zlib.compress(b""), DATA))
