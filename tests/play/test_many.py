"""Several pictures of one request: one download, state decoded once, each as if made alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sakura.errors import InputError, PlayError
from sakura.format import Head, parse_head
from sakura.play import Player
from sakura.play.bundle import from_reader
from sakura.play.engine import Key, LocalEngine, Outcome, Piece
from tests.play import bundles
from tests.play.bundles import Made
from tests.play.readers import FaultyReader

SEEDS = (3, 8, 3)


def player(made: Made, reader: FaultyReader | None = None, **options: Any) -> Player:
    reader = reader or FaultyReader(made.data)
    bundle = from_reader(reader)
    bundle.template()
    reader.is_playing = True
    return Player(bundles.adapter(), bundle, profile=made.profile, **options)


def num_shard_bytes(made: Made) -> int:
    head = parse_head(made.data, len(made.data))
    assert isinstance(head, Head)
    return sum(layer.num_bytes for shard in head.manifest.shards for layer in shard.layers)


def warm(running: Player) -> None:
    """Edit until everything is decoded."""
    for _ in range(20):
        report = running.edit(bundles.reference()).report
        if report.levels == ((3,) * 6,) * 8:
            return
    raise AssertionError("the state never came")


def test_each_picture_is_that_of_a_run_of_its_own() -> None:
    """Uncompressed state that is waited for is the same in every run."""
    made = bundles.raw()
    with player(made, policy="wait") as running:
        results = running.edit_many(bundles.reference(), seeds=SEEDS)
    assert [result.report.num_bytes > 0 for result in results] == [True, False, False]
    for seed, result in zip(SEEDS, results, strict=True):
        with player(made, policy="wait") as alone:
            expected = alone.edit(bundles.reference(), seed=seed)
        np.testing.assert_array_equal(result.image, expected.image)
    assert not np.array_equal(results[0].image, results[1].image)


def test_on_a_warm_player_as_well() -> None:
    """Decoded in one go or over several edits, in whatever order it came: the same picture."""
    made = bundles.compressed()
    with player(made) as running, player(made, policy="wait") as alone:
        warm(running)
        warm(alone)
        results = running.edit_many(bundles.reference(), seeds=SEEDS)
        for seed, result in zip(SEEDS, results, strict=True):
            expected = alone.edit(bundles.reference(), seed=seed)
            assert result.report.levels == expected.report.levels == ((3,) * 6,) * 8
            np.testing.assert_array_equal(result.image, expected.image)
            assert result.report.num_bytes == 0


def test_pictures_of_a_cold_player_end_at_what_a_warm_one_makes() -> None:
    made = bundles.compressed()
    with player(made, policy="wait") as running, player(made) as alone:
        results = running.edit_many(bundles.reference(), seeds=[3] * 6)
        warm(alone)
        expected = alone.edit(bundles.reference(), seed=3)
    assert results[-1].report.levels == ((3,) * 6,) * 8
    np.testing.assert_array_equal(results[-1].image, expected.image)


def test_what_came_and_was_not_decoded_is_not_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The decoder does nothing until the first picture is done; then all is there."""
    made, may_decode = bundles.compressed(), threading.Event()
    real = LocalEngine.advance

    def advance(engine: LocalEngine, key: Key, pieces: Sequence[Piece]) -> Outcome:
        assert may_decode.wait(60)
        return real(engine, key, pieces)

    reader = FaultyReader(made.data)
    monkeypatch.setattr(LocalEngine, "advance", advance)
    with player(made, reader) as running:
        first = running.edit(bundles.reference(), seed=3).report
        may_decode.set()
        asked = list(reader.asked)
        warm(running)
    assert first.num_bytes > 0
    assert first.injected_blocks == 0
    started = {start for start, _ in asked}
    assert not started & {start for start, _ in reader.asked[len(asked) :]}
    total = sum(stop - start for start, stop in reader.asked)
    assert total <= num_shard_bytes(made) + 8 * 65536


def test_a_request_for_nothing_and_a_closed_player_are_refused(tmp_path: Path) -> None:
    closed = player(bundles.raw())
    with pytest.raises(PlayError, match="closed"):
        closed.edit_many(bundles.reference(), seeds=[1])
    with closed as running, pytest.raises(InputError, match="seed"):
        running.edit_many(bundles.reference(), seeds=[])
    with pytest.raises(InputError):
        closed.edit_many(tmp_path / "none.png")


def test_without_a_network_they_are_on_device_edits() -> None:
    results = []
    with player(bundles.raw(), policy="device") as running:
        results = running.edit_many(bundles.reference(), seeds=[3, 8])
        expected = running.edit(bundles.reference(), seed=8)
    np.testing.assert_array_equal(results[1].image, expected.image)
