"""Whole edits: exact where nothing comes, right where all comes, finished whatever happens."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sakura.codec import TilePlan, create_codec, identity_profile, inverse_channels, synthesise
from sakura.codec.base import ShardSpec
from sakura.errors import CodecError, InputError, PlayError
from sakura.events import Event
from sakura.format import Head, parse_head
from sakura.grid import TokenMask
from sakura.models.base import BlockState, Request
from sakura.models.threads import one_thread
from sakura.play import EditResult, Player, PlayerOptions, edit_on_device
from sakura.play import bundle as opening
from sakura.play.bundle import from_reader
from sakura.play.downloads import Limits
from sakura.play.player import pixels_of
from tests.play import bundles
from tests.play.bundles import Array, Made
from tests.play.readers import FaultyReader, dies_at, flips, goes_stale_at

FLOOR_DB = 40.0


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith("sakura")] == []


def head_of(made: Made) -> Head:
    head = parse_head(made.data, len(made.data))
    assert isinstance(head, Head)
    return head


def player(made: Made, reader: FaultyReader, **options: Any) -> Player:
    """A player whose reader behaves while the bundle is opened, and misbehaves afterwards."""
    bundle = from_reader(reader)
    bundle.template()
    reader.is_playing = True
    options = {"decoder": "thread", "profile": made.profile} | options
    return Player(bundles.adapter(), bundle, **options)


def play(made: Made, reader: FaultyReader, **options: Any) -> EditResult:
    with player(made, reader, **options) as running:
        return running.edit(bundles.reference(), seed=3)


@cache
def on_device(mask: TokenMask | None = None) -> EditResult:
    request = Request(bundles.reference(), seed=3, mask=mask)
    return edit_on_device(bundles.adapter(), bundles.template(), request)


def injected(state: Array, num_steps: int = 8, mask: TokenMask | None = None) -> Array:
    """The edit with state (B, 2, S, N, H, Dh) injected in the first steps, without the player."""
    run = bundles.adapter().prepare(
        bundles.template(), Request(bundles.reference(), seed=3, mask=mask), bundles.token_order()
    )
    with one_thread():
        for step in range(8):
            run.begin_step(step, active_only=step < num_steps)
            for block in range(6):
                keys, values = np.ascontiguousarray(state[block, :, step])
                given = BlockState(keys, values) if step < num_steps else None
                run.run_block(block, given)
            run.end_step()
        return run.image()


@cache
def decoded_state() -> Array:
    """State at the top level, decoded layer by layer without the player."""
    made = bundles.compressed()
    head, codec = head_of(made), create_codec("sakura-klt-rans/1", made.profile)
    parts = np.empty((6, 8, *made.state.shape[1:2], *made.state.shape[3:]), np.float32)
    for shard in head.manifest.shards:
        tiles = TilePlan(head.manifest.tiles.widths, head.manifest.tiles.gains[shard.block])
        decoder = codec.decoder(ShardSpec(shard.block, shard.component, shard.delta, tiles))
        for level, layer in enumerate(shard.layers):
            start, stop = head.span(layer)
            decoder.feed_layer(level, made.data[start:stop], complete=True)
        parts[shard.block, shard.component] = inverse_channels(
            made.profile, shard.block, decoder.coefficients()
        )
    steps = [[synthesise(made.profile, b, parts[b], s) for s in range(8)] for b in range(6)]
    return np.stack([np.stack(rows, 1) for rows in steps])


def assert_same_picture(found: Array, expected: Array) -> None:
    """Sums in another order may round to the next grey level."""
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def test_an_outage_from_the_start_is_on_device_generation() -> None:
    result = play(bundles.compressed(), FaultyReader(bundles.compressed().data, hangs_at=0))
    np.testing.assert_array_equal(result.image, on_device().image)
    report = result.report
    assert (report.num_stalls, report.num_bytes, report.injected_blocks) == (0, 0, 0)
    assert (report.finished_by, report.predicted_db) == ("device", None)


@pytest.mark.parametrize("policy", ["sakura", "wait"])
def test_an_origin_that_is_gone_leaves_on_device_generation(policy: str) -> None:
    made = bundles.compressed()
    result = play(made, FaultyReader(made.data, dies_at(0)), policy=policy)
    np.testing.assert_array_equal(result.image, on_device().image)
    assert result.report.finished_by == "device"
    assert result.report.fetch_error == "the connection ended inside the transfer"


def test_state_that_is_all_there_gives_the_edit_of_direct_injection() -> None:
    made, reader = bundles.compressed(), FaultyReader(bundles.compressed().data)
    with player(made, reader, policy="wait") as running:
        for _ in range(8):  # an edit keeps what earlier ones decoded
            result = running.edit(bundles.reference(), seed=3)
            if result.report.num_bytes == 0:
                break
    assert result.report.levels == ((3,) * 6,) * 8
    assert (result.report.finished_by, result.report.num_stalls) == ("stream", 0)
    assert result.report.predicted_db == pytest.approx(50, abs=0.1)
    assert_same_picture(result.image, injected(decoded_state()))
    spans = sorted(reader.asked)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


def test_the_floor_holds_and_the_report_agrees_with_the_log() -> None:
    made = bundles.compressed()
    result = play(made, FaultyReader(made.data), floor_db=FLOOR_DB)
    report = result.report
    assert report.recomputed_blocks + report.injected_blocks == 48
    assert report.predicted_db is None or report.predicted_db >= FLOOR_DB
    ends = result.events.of("fetch_end")
    assert sum(event.data["num_bytes"] for event in ends) == report.num_bytes
    assert len(ends) == len(result.events.of("fetch_start"))
    assert report.mask_ratio == bundles.template().mask.ratio
    assert (report.canary_distance, report.task) == (0.0, "face-swap")
    assert (report.num_damaged, report.damaged_shards) == (0, ())
    assert report.latency_s >= report.startup_s > 0


def test_naive_streaming_gives_the_edit_of_uncompressed_state() -> None:
    made = bundles.raw()
    result = play(made, FaultyReader(made.data), policy="wait")
    assert result.report.levels == ((0,) * 6,) * 8
    assert result.report.num_bytes == sum(
        layer.num_bytes for shard in head_of(made).manifest.shards for layer in shard.layers
    )
    assert_same_picture(result.image, injected(bundles.raw_state()))


def test_shards_that_came_with_the_head_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is the same, and the first bytes cross the link once."""
    made = bundles.raw()
    head = head_of(made)
    num_bytes = sum(layer.num_bytes for shard in head.manifest.shards for layer in shard.layers)
    start, stop = head.span(head.manifest.shards[2].layers[0])
    monkeypatch.setattr(opening, "FIRST_BYTES", (start + stop) // 2)
    reader = FaultyReader(made.data)
    result = play(made, reader, policy="wait")
    assert_same_picture(result.image, injected(bundles.raw_state()))
    assert result.report.levels == ((0,) * 6,) * 8
    assert result.report.head_bytes == (start + stop) // 2
    first = min(first for first, _ in reader.asked)
    assert start <= first <= (start + stop) // 2  # the first chunk that is not all there
    assert result.report.num_bytes == len(made.data) - first < num_bytes
    assert sum(stop - start for start, stop in reader.asked) == result.report.num_bytes


def test_damage_in_what_came_with_the_head_is_mended_by_a_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = bundles.raw()
    start, stop = head_of(made).span(head_of(made).manifest.shards[0].layers[0])
    monkeypatch.setattr(opening, "FIRST_BYTES", stop)
    damaged = bytearray(made.data)
    damaged[start + 7] ^= 1
    reader = FaultyReader(bytes(damaged), lambda at, piece: made.data[at : at + len(piece)])
    result = play(made, reader, policy="wait")
    assert (result.report.num_damaged, result.report.finished_by) == (1, "stream")
    assert_same_picture(result.image, injected(bundles.raw_state()))


def test_naive_streaming_that_breaks_off_does_the_step_again_on_the_device() -> None:
    made = bundles.raw()
    head = head_of(made)
    shards = {(shard.block, shard.component): shard for shard in head.manifest.shards}
    start, _ = head.span(shards[3, 2].layers[0])  # half of the third step is there
    result = play(made, FaultyReader(made.data, dies_at(start)), policy="wait")
    assert result.report.levels == ((0,) * 6,) * 2 + ((-1,) * 6,) * 6
    assert result.report.finished_by == "mixed"
    assert_same_picture(result.image, injected(bundles.raw_state(), num_steps=2))


@pytest.mark.parametrize(
    ("fault", "policy", "share"),
    [(dies_at, "sakura", 0.1), (goes_stale_at, "sakura", 0.6), (goes_stale_at, "wait", 0.1)],
)
def test_an_origin_that_dies_midway_leaves_a_finished_edit(
    fault: Any, policy: str, share: float
) -> None:
    made = bundles.compressed()
    position = int(share * len(made.data))
    result = play(made, FaultyReader(made.data, fault(position)), policy=policy)
    report = result.report
    assert report.num_bytes <= position
    assert sum(len(row) for row in report.levels) == 48
    outside = ~np.repeat(np.repeat(bundles.template().mask.bits, 8, 0), 8, 1)
    np.testing.assert_array_equal(result.image[outside], bundles.template().image[outside])
    faults = [event.data for event in result.events.of("fault")]
    assert [fault["reason"] for fault in faults if fault["is_final"]] in ([], [report.fetch_error])
    assert bool(report.fetch_error) == bool(faults)


def test_damage_on_the_way_is_refused_and_mended_by_a_second_fetch() -> None:
    made = bundles.raw()
    start, _ = head_of(made).span(head_of(made).manifest.shards[0].layers[0])
    result = play(made, FaultyReader(made.data, flips(start + 100, 1)), policy="wait")
    (fault,) = result.events.of("fault")
    assert (fault.data["source"], fault.data["is_final"]) == ("decode", False)
    assert (result.report.finished_by, result.report.fetch_error) == ("stream", None)
    assert (result.report.num_damaged, result.report.damaged_shards) == (1, ((0, 0),))
    assert_same_picture(result.image, injected(bundles.raw_state()))


def test_damage_at_the_origin_costs_one_block_and_no_more() -> None:
    made = bundles.raw()
    start, _ = head_of(made).span(head_of(made).manifest.shards[0].layers[0])
    result = play(made, FaultyReader(made.data, flips(start + 100)), policy="wait")
    assert len(result.events.of("fault")) == 2
    assert (result.report.num_damaged, result.report.damaged_shards) == (1, ((0, 0),))
    assert result.report.levels == ((-1, 0, 0, 0, 0, 0),) + ((0,) * 6,) * 7


def test_a_larger_mask_of_the_users_drops_rows_of_the_state() -> None:
    made = bundles.raw()
    bits = bundles.template().mask.bits.copy()
    bits[1:, 1:14] = True
    mask = TokenMask.from_bits(bundles.template().mask.grid, bits)
    with player(made, FaultyReader(made.data), policy="wait") as running:
        result = running.edit(bundles.reference(), seed=3, mask=mask)
    assert result.report.mask_ratio == mask.ratio
    assert_same_picture(result.image, injected(bundles.raw_state(), mask=mask))


def test_a_smaller_mask_is_refused_and_the_player_goes_on() -> None:
    made = bundles.compressed()
    bits = np.zeros((16, 16), bool)
    bits[5, 5] = True
    mask = TokenMask.from_bits(bundles.template().mask.grid, bits)
    with player(made, FaultyReader(made.data)) as running:
        with pytest.raises(InputError, match="cover"):
            running.edit(bundles.reference(), mask=mask)
        with pytest.raises(InputError, match="prompt"):
            running.edit(bundles.reference(), prompt="sing")
        with pytest.raises(InputError, match="reference"):
            running.edit(np.zeros((4, 4), np.uint8))
        assert running.edit(bundles.reference()).image.shape == (128, 128, 3)


def test_the_byte_limit_holds() -> None:
    made = bundles.compressed()
    result = play(made, FaultyReader(made.data), max_total_bytes=100_000)
    assert 0 < result.report.num_bytes <= 100_000
    assert result.report.fetch_error is None


def test_device_policy_fetches_nothing() -> None:
    reader = FaultyReader(bundles.compressed().data)
    result = play(bundles.compressed(), reader, policy="device")
    np.testing.assert_array_equal(result.image, on_device().image)
    assert (reader.asked, result.report.finished_by) == ([], "device")


def test_pictures_of_every_kind_are_taken(tmp_path: Path) -> None:
    picture = Image.fromarray(bundles.reference())
    picture.save(tmp_path / "me.png")
    for given in (bundles.reference(), picture, tmp_path / "me.png", str(tmp_path / "me.png")):
        np.testing.assert_array_equal(pixels_of(given), bundles.reference())


class Interrupting:
    """Presses Ctrl-C once the executor waits: the second fetch never delivers a byte."""

    def __init__(self) -> None:
        self.is_waiting = threading.Event()

    def hear(self, event: Event) -> None:
        if event.kind == "decision" and event.data["action"] == "wait":
            self.is_waiting.set()


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """SIGINT interrupts, also under a parent that ignores it, as a background shell does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_while_waiting_leaves_no_thread() -> None:
    made, interrupting = bundles.raw(), Interrupting()

    class Reader(FaultyReader):
        async def stream(self, start: int, stop: int, etag: str | None = None) -> Any:
            while not interrupting.is_waiting.is_set():
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
            yield b""

    with (
        pytest.raises(KeyboardInterrupt),
        player(made, Reader(made.data), policy="wait", listener=interrupting.hear) as running,
    ):
        running.edit(bundles.reference())


def test_ctrl_c_while_computing_leaves_no_thread() -> None:
    made = bundles.compressed()

    def hear(event: Event) -> None:
        if event.kind == "step":
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        player(made, FaultyReader(made.data, hangs_at=0), listener=hear) as running,
    ):
        running.edit(bundles.reference())


def test_an_error_in_a_listener_comes_out_after_the_edit() -> None:
    made = bundles.compressed()
    kinds: list[str] = []

    def hear(event: Event) -> None:
        kinds.append(event.kind)
        if event.kind == "fetch_bytes":
            raise ZeroDivisionError("display")

    with (
        pytest.raises(ZeroDivisionError, match="display"),
        player(made, FaultyReader(made.data), listener=hear) as running,
    ):
        running.edit(bundles.reference())
    assert kinds.count("fetch_bytes") == 1


def test_a_player_works_in_its_with_block_only() -> None:
    made = bundles.compressed()
    closed = player(made, FaultyReader(made.data))
    with pytest.raises(PlayError, match="closed"):
        closed.edit(bundles.reference())
    with closed:
        pass
    with pytest.raises(PlayError, match="closed"):
        closed.edit(bundles.reference())


def test_options_are_checked() -> None:
    made = bundles.compressed()
    for options in ({"policy": "guess"}, {"floor_db": -1.0}, {"num_fetches": 0}):
        with pytest.raises(InputError):
            player(made, FaultyReader(made.data), **options)
    with pytest.raises(TypeError):
        player(made, FaultyReader(made.data), flour_db=3)
    bundle = from_reader(FaultyReader(made.data))
    with pytest.raises(CodecError):
        Player(bundles.adapter(), bundle, profile=identity_profile(6, 8, 4, 48))


def test_the_guide_gives_the_bounds_of_the_options() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/player.md").read_text("utf-8")
    match = re.search(r"`num_fetches` \| (\d+) \|.* (\d+) to (\d+);.* beyond (\d+) ", guide)
    assert match is not None
    default, least, most, stretched = (int(text) for text in match.groups())
    limits = Limits()
    assert (default, stretched) == (limits.num_fetches, limits.most_fetches)
    assert PlayerOptions().num_fetches == default
    for allowed in (least, most):
        PlayerOptions(num_fetches=allowed)
    for refused in (least - 1, most + 1):
        with pytest.raises(InputError):
            PlayerOptions(num_fetches=refused)
