"""Edits over a real origin and a shaped link, in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import sakura
from sakura.events import Event
from sakura.origin.serve import OriginProcess
from sakura.play import EditResult, Player
from sakura.store.shaped import ShapedLink
from sakura.store.trace import Trace
from tests.play import bundles
from tests.play.test_player import assert_same_picture, injected

RATE_BPS = 40e6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.skv").write_bytes(bundles.compressed().data)
    (tmp_path / "raw.skv").write_bytes(bundles.raw().data)
    return tmp_path


@pytest.fixture
def origin(folder: Path) -> Iterator[OriginProcess]:
    with OriginProcess(folder) as running:
        yield running


def edit(player: Player) -> EditResult:
    with player:
        result = player.edit(bundles.reference(), seed=3)
    assert [t.name for t in threading.enumerate() if t.name.startswith("sakura")] == []
    return result


def test_edit_over_a_shaped_link(origin: OriginProcess) -> None:
    with ShapedLink(origin.url, Trace.constant(RATE_BPS), rtt_s=0.01) as link:
        bundle = sakura.open(f"{link.url}/a.skv")
        made = bundles.compressed()
        result = edit(Player(bundles.adapter(), bundle, profile=made.profile))
    report = result.report
    assert report.num_bytes > 0
    assert report.fetch_error is None
    assert report.predicted_db is None or report.predicted_db >= 40.0
    assert not result.events.of("fault")


def test_naive_streaming_over_the_origin(origin: OriginProcess) -> None:
    bundle = sakura.open(f"{origin.url}/raw.skv")
    result = edit(Player(bundles.adapter(), bundle, policy="wait", decoder="process"))
    assert result.report.finished_by == "stream"
    assert_same_picture(result.image, injected(bundles.raw_state()))


def test_an_origin_that_is_killed_midway_leaves_a_finished_edit(origin: OriginProcess) -> None:
    def kill(event: Event) -> None:
        if event.kind == "step" and event.data["step"] == 1:
            os.kill(origin.pid, signal.SIGKILL)

    bundle = sakura.open(f"{origin.url}/raw.skv")
    result = edit(Player(bundles.adapter(), bundle, policy="wait", listener=kill))
    assert result.report.fetch_error
    assert result.report.finished_by == "mixed"
    num_streamed = [row[-1] for row in result.report.levels].count(0)
    assert 2 <= num_streamed < 8
    assert_same_picture(result.image, injected(bundles.raw_state(), num_steps=num_streamed))


def test_a_bundle_that_is_replaced_midway_is_not_mixed_in(
    origin: OriginProcess, folder: Path
) -> None:
    """The new object has other bytes in the same places: none of them may be decoded."""

    def replace(event: Event) -> None:
        if event.kind == "step" and event.data["step"] == 0:
            new = folder / "new"
            new.write_bytes(bytes(len(bundles.raw().data)))
            new.replace(folder / "raw.skv")

    bundle = sakura.open(f"{origin.url}/raw.skv")
    result = edit(Player(bundles.adapter(), bundle, policy="wait", listener=replace))
    assert "changed" in (result.report.fetch_error or "")
    (fault,) = result.events.of("fault")
    assert fault.data["source"] == "fetch"
    num_streamed = [row[-1] for row in result.report.levels].count(0)
    assert 1 <= num_streamed < 8
    assert_same_picture(result.image, injected(bundles.raw_state(), num_steps=num_streamed))


def test_a_link_without_bandwidth_leaves_on_device_generation(origin: OriginProcess) -> None:
    made = bundles.compressed()
    bundle = sakura.open(f"{origin.url}/a.skv")
    bundle.template()
    os.kill(origin.pid, signal.SIGSTOP)
    try:
        result = edit(Player(bundles.adapter(), bundle, profile=made.profile))
    finally:
        os.kill(origin.pid, signal.SIGCONT)
    report = result.report
    assert (report.finished_by, report.num_stalls, report.num_bytes) == ("device", 0, 0)
