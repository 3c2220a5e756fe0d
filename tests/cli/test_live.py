"""The live line: what it shows, and when it shows nothing."""

from __future__ import annotations

import io
import sys

import pytest

from sakura.cli.live import Live
from sakura.events import Event


class Terminal(io.StringIO):
    """Text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def feed(live: Live) -> None:
    live.stage("face-swap, sakura, run 1", 0.5)
    block = {"step": 3, "block": 2, "mode": "inject", "level": 1, "start_s": 0.1}
    live.event(Event(0.2, "block", block))
    live.event(Event(0.2, "throughput", {"bps": 2.5e7}))
    live.event(Event(0.2, "buffer", {"buffer_s": 0.012}))
    live.event(Event(0.3, "decode", {"block": 0, "component": 0, "level": 0, "start_s": 0.1}))


def test_the_line_shows_step_block_level_throughput_and_buffer() -> None:
    live = Live()
    feed(live)
    text = live.render().plain
    assert "50%" in text
    assert "face-swap, sakura, run 1" in text
    assert text.endswith("step 3 · block 2 · level 1 · 25.0 Mbit/s · buffer 12 ms")


def test_a_computed_block_has_no_level_and_a_new_stage_starts_afresh() -> None:
    live = Live()
    feed(live)
    block = {"step": 0, "block": 0, "mode": "compute", "level": -1, "start_s": 0.0}
    live.event(Event(0.1, "block", block))
    assert "computed" in live.render().plain
    live.stage("draw", 0.9)
    assert live.render().plain.endswith("draw")


@pytest.mark.parametrize(("is_terminal", "quiet"), [(False, False), (True, True)])
def test_nothing_is_shown_without_a_terminal_or_when_quiet(
    is_terminal: bool, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Live(quiet=quiet) as live:
        feed(live)
    assert stream.getvalue() == ""


def test_a_terminal_shows_the_line_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with Live() as live:
        feed(live)
    shown = stream.getvalue()
    assert "face-swap, sakura, run 1" in shown
    assert shown.endswith("\x1b[2K")  # the last thing done is to erase the line
