"""Traces: the integral and its inverse against sums by hand, the strict loader, what is shipped."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sakura
from sakura.errors import InputError
from sakura.store.trace import Trace, load_trace, parse_trace, trace_names

FOLDER = Path(sakura.__file__).parent / "assets/traces"
SCRIPT = Path(__file__).parents[2] / "scripts/make_traces.py"


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    steps = draw(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=8))
    rates = draw(st.lists(st.sampled_from([0.0, 8e3, 1e6, 3e7]), min_size=8, max_size=8))
    rates[0] = max(rates[0], 8e3)
    starts = [math.fsum(steps[:i]) for i in range(len(steps))]
    return Trace(tuple(starts), tuple(rates[: len(steps)]), "drawn", math.fsum(steps))


def test_integral_of_steps_by_hand() -> None:
    trace = Trace((0.0, 1.0, 3.0), (8e3, 0.0, 16e3), "steps", 4.0)
    assert [trace.bytes_by(t) for t in (0, 0.5, 1, 2, 3, 3.5, 4, 4.5, 8)] == [
        0, 500, 1000, 1000, 1000, 2000, 3000, 3500, 6000,
    ]  # fmt: skip
    assert [trace.time_of(n) for n in (0, 500, 1000, 1001, 3000, 3500, 6000)] == [
        0, 0.5, 1.0, 3.0005, 4.0, 4.5, 8.0,
    ]  # fmt: skip
    assert trace.mean_bps == 6000
    assert [trace.rate_at(t) for t in (0, 0.99, 1, 3, 3.99, 4, 5)] == [
        8e3,
        8e3,
        0,
        16e3,
        16e3,
        8e3,
        0,
    ]


def test_without_loop_the_last_rate_holds() -> None:
    trace = Trace((0.0, 1.0), (8e3, 16e3), "steps", 2.0)
    assert trace.bytes_by(5.0, loop=False) == 1000 + 4 * 2000
    assert trace.time_of(9000, loop=False) == 5.0
    assert trace.rate_at(99, loop=False) == 16e3
    dead = Trace((0.0, 1.0), (8e3, 0.0))
    assert dead.bytes_by(99, loop=False) == 1000
    assert dead.time_of(1001, loop=False) == math.inf


@given(traces(), st.floats(0, 60), st.booleans())
def test_time_is_the_first_by_which_the_bytes_passed(
    trace: Trace, time_s: float, loop: bool
) -> None:
    num_bytes = trace.bytes_by(time_s, loop)
    first = trace.time_of(num_bytes, loop)
    assert first <= time_s + 1e-6
    assert trace.bytes_by(first, loop) == pytest.approx(num_bytes, rel=1e-9, abs=1e-3)


@given(traces(), st.lists(st.floats(0, 60), min_size=2, max_size=6))
def test_bytes_never_decrease(trace: Trace, times: list[float]) -> None:
    passed = [trace.bytes_by(t) for t in sorted(times)]
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(passed))


@given(traces(), st.floats(0, 40), st.floats(0.001, 10), st.floats(0.01, 3))
def test_scaling_scales_the_integral(trace: Trace, at_s: float, rate: float, time: float) -> None:
    scaled = trace.scaled(rate=rate, time=time)
    expected = trace.bytes_by(at_s) * rate * time
    # Where a pass ends exactly at at_s, rounding may put it into either pass; a moment decides.
    slack = max(trace.rates_bps) / 8 * rate * time * 1e-6
    assert scaled.bytes_by(at_s * time) == pytest.approx(expected, rel=1e-6, abs=slack + 1e-6)
    assert scaled.duration_s == pytest.approx(trace.duration_s * time)


def test_made_links() -> None:
    assert Trace.constant(8e6).bytes_by(12.25) == 12.25e6
    outage = Trace.outage(8e6, 1.0, 2.0, 10.0)
    assert [outage.bytes_by(t) for t in (1, 3, 4)] == [1e6, 1e6, 2e6]
    assert Trace.outage(8e6, 0.0, 2.0, 10.0).time_of(1) == pytest.approx(2.000001)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ":1"),
        ("time,mbps\n0,1\n", ":1"),
        ("time_s,mbps\n", "no rows"),
        ("time_s,mbps\n0,1\n1\n", ":3"),
        ("time_s,mbps\n0,1,2\n", ":2"),
        ("time_s,mbps\n0,fast\n", ":2"),
        ("time_s,mbps\n1,1\n", "starts at 1"),
        ("time_s,mbps\n0,1\n0,2\n", "sample 2"),
        ("time_s,mbps\n0,1\n2,1\n1,1\n", "sample 3"),
        ("time_s,mbps\n0,1\ninf,1\n", "sample 2"),
        ("time_s,mbps\n0,1\nnan,1\n", "sample 2"),
        ("time_s,mbps\n0,-1\n", "sample 1"),
        ("time_s,mbps\n0,nan\n", "sample 1"),
        ("time_s,mbps\n0,inf\n", "sample 1"),
        ("time_s,mbps\n0,0\n1,0\n", "0 all the time"),
    ],
)
def test_loader_says_what_is_wrong(text: str, where: str) -> None:
    with pytest.raises(InputError, match=where):
        parse_trace(text, "made.csv")


def test_last_step_lasts_a_median_step() -> None:
    assert parse_trace("time_s,mbps\n0,1\n2,1\n4,1\n9,1\n", "x").duration_s == 11
    assert parse_trace("time_s,mbps\n0,1\n", "x").duration_s == 1


def test_unknown_trace_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_trace("lte-flight")
    assert "lte-drive" in (caught.value.hint or "")
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError):
        load_trace(tmp_path / "bad.csv")


def test_path_and_name_load_the_same() -> None:
    assert load_trace(FOLDER / "lte-drive.csv") == load_trace("lte-drive")


def per_second(trace: Trace) -> list[float]:
    whole = range(int(trace.duration_s))
    return [(trace.bytes_by(t + 1) - trace.bytes_by(t)) * 8e-6 for t in whole]


@pytest.mark.parametrize("name", ["lte-drive", "5g-walk", "outage"])
def test_made_up_traces_look_recorded(name: str) -> None:
    """Bounds from recorded mobile links: mean, coefficient of variation, lag-1 correlation."""
    rates = per_second(load_trace(name))
    mean, spread = fmean(rates), pstdev(rates)
    lag = fmean((a - mean) * (b - mean) for a, b in pairwise(rates))
    assert 20 <= mean <= 40
    assert 0.4 <= spread / mean <= 0.7
    assert 0.7 <= lag / spread**2 <= 0.95


def test_shipped_outage_is_one_and_long() -> None:
    rates = per_second(load_trace("outage"))
    dead = [second for second, rate in enumerate(rates) if rate == 0]
    assert dead == list(range(dead[0], dead[0] + 25))


def test_shipped_files_are_small_and_accounted_for() -> None:
    notice = (FOLDER / "NOTICE").read_text("utf-8")
    assert {"lte-drive", "5g-walk", "outage", "ghent-car"} == set(trace_names())
    for name in trace_names():
        assert (FOLDER / f"{name}.csv").stat().st_size <= 12 * 1024
        assert f"{name}.csv" in notice


def test_recorded_files_carry_the_licence_of_their_source() -> None:
    """Every licence shipped here wants its copyright line, with a year and a holder, kept."""
    made_up = {recipe.name for recipe in load_script().RECIPES}
    notice = (FOLDER / "NOTICE").read_text("utf-8")
    sections = re.split(r"\n(?=\S+\.csv\n)", notice)
    found = {section.partition(".csv\n")[0]: section for section in sections[1:]}
    assert set(found) == set(trace_names()) - made_up
    for section in found.values():
        assert re.search(r"Licence: +\S", section)
        assert re.search(r"at commit [0-9a-f]{12}", section)
        assert re.search(r"Copyright \(c\) \d{4}, [A-Z]\w+ [A-Z]\w+", section)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_traces", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_traces"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_script_reproduces_the_made_up_files() -> None:
    script = load_script()
    for recipe in script.RECIPES:
        shipped = load_trace(recipe.name)
        made = script.made_up(recipe)
        assert [rate / 1e6 for rate in shipped.rates_bps] == pytest.approx(made, abs=6e-4)
