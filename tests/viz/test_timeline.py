"""Timelines: drawn from the log alone, the same bytes every time, and legible lanes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sakura.errors import InputError
from sakura.events import Event, read_jsonl
from sakura.viz import timeline
from sakura.viz.timeline import timeline_png, write_timeline
from tests.viz.fake_run import fake_run


def colors_in(png: bytes) -> set[tuple[int, ...]]:
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).reshape(-1, 3)
    return {tuple(int(v) for v in color) for color in np.unique(pixels, axis=0)}


def rgb(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def test_a_timeline_shows_every_kind_of_bar() -> None:
    shown = colors_in(timeline_png(fake_run()))
    wanted = (timeline.FETCH, timeline.COMPUTE, timeline.FAILED, *timeline.LEVELS)
    assert {rgb(color) for color in wanted} <= shown


def test_a_run_on_the_device_shows_no_network() -> None:
    kinds = ("run_start", "block", "step", "run_end")
    log = [event for event in fake_run() if event.kind in kinds]
    computed = [
        Event(event.t_s, event.kind, {**event.data, "mode": "compute", "level": -1})
        if event.kind == "block"
        else event
        for event in log
    ]
    shown = colors_in(timeline_png(computed))
    assert rgb(timeline.COMPUTE) in shown
    assert rgb(timeline.FETCH) not in shown
    assert not {rgb(color) for color in timeline.LEVELS[1:]} & shown


def test_the_log_file_draws_the_same_picture(tmp_path: Path) -> None:
    log = fake_run()
    lines = [json.dumps({"t_s": e.t_s, "kind": e.kind, **e.data}) for e in log]
    write_timeline(tmp_path / "a.png", log, "a run")
    write_timeline(tmp_path / "b.png", read_jsonl(lines), "a run")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_log_of_one_event_is_drawn() -> None:
    assert timeline_png([Event(0.0, "run_start", {"task": "try-on"})]).startswith(b"\x89PNG")


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        timeline_png([])


def test_a_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError) as caught:
        timeline_png(fake_run())
    assert caught.value.hint == 'pip install "sakura-kv[viz]"'
