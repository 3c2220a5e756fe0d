"""Class tables: the built-in ones are what the generator gives, and bad ones are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sakura.codec.tablegen import GRID_STEP, NUM_GRID, default_shape, tables_for_shape
from sakura.codec.tables import (
    FIRST_THRESHOLD_CLASS,
    MAX_CLASS0,
    TABLE_BYTES,
    THRESHOLDS,
    ClassTables,
    default_tables,
    tables_from_bytes,
)
from sakura.errors import CodecError


def test_the_built_in_tables_equal_their_regeneration() -> None:
    assert tables_for_shape(default_shape()).to_bytes() == default_tables().to_bytes()


def test_thresholds_are_a_third_of_a_trit_apart() -> None:
    classes = np.arange(FIRST_THRESHOLD_CLASS, MAX_CLASS0 + 1)
    assert np.array(THRESHOLDS) == pytest.approx(0.36 * 3.0 ** (classes / 3), rel=1e-15)


def test_the_source_model_has_unit_variance() -> None:
    middle = (np.arange(NUM_GRID) + 0.5) * GRID_STEP
    assert (default_shape() * middle**2).sum() == pytest.approx(1, abs=1e-3)


def test_every_table_decodes_every_slot() -> None:
    tables = default_tables()
    for row, counts in zip(tables.slots, tables.frequencies, strict=True):
        symbol, frequency, inside = row & 255, row >> 8 & 255, row >> 16
        assert np.bincount(symbol, minlength=16).tolist() == counts.tolist()
        assert (frequency == counts[symbol]).all()
        assert (inside < frequency).all()


def test_bytes_round_trip() -> None:
    tables = default_tables()
    assert tables_from_bytes(tables.to_bytes()).to_bytes() == tables.to_bytes()
    assert len(tables.to_bytes()) == TABLE_BYTES


@pytest.mark.parametrize("length", [0, TABLE_BYTES - 1, TABLE_BYTES + 1])
def test_another_length_is_refused(length: int) -> None:
    with pytest.raises(CodecError, match="class tables take"):
        tables_from_bytes(bytes(length))


def broken(name: str, place: tuple[int, ...], value: int) -> ClassTables:
    """The built-in tables with one number changed."""
    array = getattr(default_tables(), name).copy()
    array[place] = value
    return dataclasses.replace(default_tables(), **{name: array})


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("start", (0, 7), 1, "sum to 256"),
        ("ternary", (8, 2, 1), 1, "sum to 256"),
        ("edge", (0, 0), 1, "sum to 256"),
        ("shrink", (3, 1), 65, "half a step"),
    ],
)
def test_wrong_numbers_are_refused(
    name: str, place: tuple[int, ...], value: int, message: str
) -> None:
    with pytest.raises(CodecError, match=message):
        broken(name, place, value)


def test_every_single_byte_change_is_refused_or_harmless() -> None:
    data = default_tables().to_bytes()
    for position in range(len(data) - 24):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(CodecError):
            tables_from_bytes(bytes(changed))


@pytest.mark.parametrize(
    "row",
    [
        [0] * 7 + [255, 1] + [0] * 6,
        [0] * 6 + [1, 254, 1] + [0] * 6,
        [0] * 4 + [1, 0, 1, 252, 1, 0, 1] + [0] * 4,
        [0] * 5 + [1, 1, 252, 1, 0, 1] + [0] * 4,
    ],
)
def test_an_alphabet_with_a_gap_or_too_small_is_refused(row: list[int]) -> None:
    start = default_tables().start.copy()
    start[1] = row
    with pytest.raises(CodecError, match="not an alphabet"):
        dataclasses.replace(default_tables(), start=start)
