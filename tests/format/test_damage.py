"""Damage is found: every truncation, every flipped bit, every byte too many."""

from __future__ import annotations

import pytest

from sakura.errors import FormatError
from sakura.format import Head, HeadNeeds, parse_head, read_head, read_manifest, verify_bundle
from sakura.format.container import HEADER_BYTES, data_start
from tests.format.tiny import reader, seal, split, tiny_bundle

BUNDLE = tiny_bundle()
RAW, DATA = split(BUNDLE)
START = data_start(len(RAW))


def is_refused(candidate: bytes) -> bool:
    try:
        return not verify_bundle(reader(candidate), len(candidate)).is_intact
    except FormatError:
        return True


def test_the_whole_bundle_is_intact() -> None:
    report = verify_bundle(reader(BUNDLE), len(BUNDLE))
    assert report.is_intact
    assert report.num_chunks == 7
    assert report.level_bytes == (0 + 3 + 6 + 9, 1 + 4 + 7 + 10)


def test_every_truncation_is_refused() -> None:
    for length in range(len(BUNDLE)):
        with pytest.raises(FormatError):
            read_head(reader(BUNDLE[:length]), length)


def test_every_bit_flip_is_found() -> None:
    for position in range(len(BUNDLE)):
        for bit in range(8):
            flipped = bytearray(BUNDLE)
            flipped[position] ^= 1 << bit
            assert is_refused(bytes(flipped)), f"bit {bit} of byte {position}"


def test_flips_of_a_sealed_manifest_never_escape() -> None:
    """With a right digest around it, a wrong manifest is refused or is another valid one."""
    accepted = 0
    for position in range(len(RAW)):
        for bit in range(8):
            flipped = bytearray(RAW)
            flipped[position] ^= 1 << bit
            bundle = seal(bytes(flipped), DATA)
            try:
                read_manifest(reader(bundle), len(bundle))
                accepted += 1
            except FormatError:
                continue
    # Names and free text survive a flip; structure does not.
    assert 0 < accepted < 4 * len(RAW)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(FormatError, match="data has"):
        parse_head(BUNDLE + b"\0", len(BUNDLE) + 1)


def test_padding_must_be_zero() -> None:
    assert HEADER_BYTES + len(RAW) < START, "the sample has padding"
    dirty = bytearray(BUNDLE)
    dirty[START - 1] = 1
    with pytest.raises(FormatError, match="padding"):
        parse_head(bytes(dirty), len(dirty))


def test_verify_names_every_damaged_layer() -> None:
    dirty = bytearray(BUNDLE)
    dirty[START] ^= 1
    dirty[-1] ^= 1
    report = verify_bundle(reader(bytes(dirty)), len(dirty))
    assert [problem.where for problem in report.problems] == [
        "$.template.blob",
        "$.shards[3].layers[1]",
    ]


def test_a_growing_prefix_says_what_it_needs() -> None:
    assert parse_head(b"", len(BUNDLE)) == HeadNeeds(HEADER_BYTES)
    assert parse_head(BUNDLE[: HEADER_BYTES - 1], len(BUNDLE)) == HeadNeeds(HEADER_BYTES)
    assert parse_head(BUNDLE[:HEADER_BYTES], len(BUNDLE)) == HeadNeeds(START)
    assert parse_head(BUNDLE[: START - 1], len(BUNDLE)) == HeadNeeds(START)
    assert isinstance(parse_head(BUNDLE[:START], len(BUNDLE)), Head)


def test_a_head_takes_two_reads() -> None:
    calls = []

    def read(offset: int, length: int) -> bytes:
        calls.append((offset, length))
        return BUNDLE[offset : offset + length]

    read_head(read, len(BUNDLE))
    assert calls == [(0, HEADER_BYTES), (HEADER_BYTES, START - HEADER_BYTES)]


def test_a_short_read_is_an_error() -> None:
    with pytest.raises(FormatError, match="read 31 bytes, expected 32"):
        read_head(lambda offset, length: BUNDLE[offset : offset + length - 1], len(BUNDLE))
