"""What is given up never arrives: not in predicted costs, nor as something to wait for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sakura.play.downloads import Downloads, Limits
from sakura.play.forecast import Arrival, Ask, Forecast
from sakura.play.ledger import Ledger
from sakura.play.messages import ChunkRefused, Fetch, FetchFailed, FetchProgress
from sakura.play.ranges import Chunk, FetchList
from sakura.play.throughput import Throughput
from tests.play.heads import make_head, model_of

STEPS, BLOCKS, SIZE = 3, 2, 1000
HEAD = make_head(STEPS, BLOCKS, [SIZE], 2)
MODEL = model_of(HEAD, 30.0)
NOTHING = np.full((BLOCKS, STEPS), -1)
ALL = Arrival(num_bytes=HEAD.num_bytes, num_layers=99, rate_bps=0.0, decode_s=0.0)
SHARD = 1, 2


def parts() -> tuple[FetchList, Ledger, Forecast]:
    fetch_list, ledger = FetchList(HEAD, NOTHING), Ledger(MODEL, NOTHING)
    return fetch_list, ledger, Forecast(MODEL, fetch_list, ledger)


def later_cost(forecast: Forecast) -> float:
    """Predicted error of step 2, in which component 2 matters, when all has come."""
    return forecast.later_costs(0, np.zeros(STEPS - 1), ALL)[1]


def test_what_is_given_up_still_costs_after_everything_came() -> None:
    """A level takes three quarters of a shard's error away; of a lost one nothing."""
    _, _, forecast = parts()
    before = later_cost(forecast)
    nothing = float(MODEL.block_costs(2, NOTHING).sum())
    assert before == pytest.approx(nothing / 16)
    forecast.give_up({SHARD})
    forecast.give_up({SHARD})  # hearing of it again changes nothing
    assert later_cost(forecast) == pytest.approx(nothing / 2 + nothing / 32)


def test_levels_that_were_decoded_before_it_was_given_up_count() -> None:
    _, ledger, forecast = parts()
    ledger.raise_level(*SHARD, 0)
    forecast.give_up({SHARD})
    nothing = float(MODEL.block_costs(2, NOTHING).sum())
    assert later_cost(forecast) == pytest.approx(nothing / 8 + nothing / 32)


def test_nothing_that_was_given_up_is_missing() -> None:
    _, ledger, forecast = parts()
    level_0 = {(b, 2, 0) for b in range(BLOCKS)}
    # Within reach of every base layer, but not of one alone.
    ask = Ask(2, 0, 1.0, (), float(MODEL.block_costs(2, np.zeros_like(NOTHING)).sum()) * 1.01)
    missing = forecast.missing_layers(ask, ledger)
    assert level_0 <= set(missing)
    forecast.give_up({(0, 0)})  # matters in another step
    still = forecast.missing_layers(ask, ledger)
    assert set(missing) - set(still) == {(0, 0, 0)}
    forecast.give_up({SHARD})  # and without this one no step 2 can be injected
    assert forecast.missing_layers(ask, ledger) == []


def downloads(num_fetches: int = 1, **limits: int) -> tuple[Downloads, list[Fetch]]:
    made = Downloads(
        FetchList(HEAD, NOTHING),
        Throughput(None),
        Limits(num_fetches, most_fetches=num_fetches, **limits),
    )
    return made, made.next_fetches(0.0, lambda _: True, lambda *_: False)


def test_bytes_ahead_leave_out_what_is_given_up() -> None:
    made, _ = downloads(first_bytes=SIZE)  # one layer is in flight
    last = (BLOCKS - 1, STEPS - 1, 1)
    assert made.bytes_until(last) == HEAD.num_bytes
    made.give_up(0, 1, "refused", 0.0)
    assert made.bytes_until(last) == HEAD.num_bytes - 2 * SIZE
    assert made.bytes_until((0, 1, 0)) == math.inf


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_layer_that_was_cut_will_not_be_there(is_stopped: bool) -> None:
    made, (fetch,) = downloads(first_bytes=2 * SIZE)
    made.on_progress(FetchProgress(fetch.fetch, SIZE + 10), 0.0)
    whole, cut = (chunk.layer for chunk in fetch.chunks)
    if is_stopped:
        made.stop("enough", 0.0)
    else:
        made.on_failure(FetchFailed(fetch.fetch, "gone"), 0.0)
    assert made.bytes_until(whole) == 0.0
    assert made.bytes_until(cut) == math.inf


def test_bytes_that_come_again_are_counted_once() -> None:
    made, (fetch,) = downloads(first_bytes=SIZE)
    made.on_progress(FetchProgress(fetch.fetch, SIZE), 0.0)
    assert made.num_settled_bytes == SIZE
    made.on_damage(ChunkRefused(fetch.chunks[0], "digest"), 0.0)
    assert made.num_settled_bytes == 0
    (again,) = made.next_fetches(0.0, lambda _: True, lambda *_: False)
    made.on_progress(FetchProgress(again.fetch, again.stop - again.start), 0.0)
    assert made.num_settled_bytes == again.stop - again.start


def test_a_late_chunk_is_held_and_offered_again() -> None:
    made = Downloads(FetchList(HEAD, NOTHING), Throughput(None), Limits(2, first_bytes=SIZE))
    asked = []

    def is_late(chunk: Chunk, num_bytes: int) -> bool:
        asked.append((chunk.layer, num_bytes))
        return len(asked) == 2

    (first,) = made.next_fetches(0.0, lambda _: True, is_late)
    assert [num_bytes for _, num_bytes in asked] == [SIZE, 2 * SIZE]
    (second,) = made.next_fetches(0.0, lambda _: True, is_late)
    assert asked[1:] == [asked[1]] * 2
    assert second.chunks[0].layer == asked[1][0] != first.chunks[0].layer
