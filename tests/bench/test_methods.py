"""Methods on a toy model: what is chosen as the median, and what happens without a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sakura.bench.methods import Attempt, Job, measure_step_s, median_attempt, run_method
from sakura.events import Event
from sakura.grid import TokenMask
from sakura.models.base import BlockState, Request
from sakura.origin.serve import OriginProcess
from sakura.play import edit_on_device
from sakura.play.edit import one_thread
from tests.pack.toy import ToyAdapter, toy_template
from tests.play import bundles

REQUEST = Request(np.full((4, 4, 3), 90, np.uint8), seed=3)


def job(url: str = "") -> Job:
    return Job(toy_template(), REQUEST, {"sakura": url, "uncompressed": url})


@pytest.fixture(scope="module")
def attempt() -> Attempt:
    return Attempt(edit_on_device(ToyAdapter(), toy_template(), REQUEST))


@pytest.mark.parametrize(
    ("latencies_s", "chosen"),
    [((3.0, 1.0, 2.0), 2.0), ((4.0, 1.0, 3.0, 2.0), 2.0), ((5.0,), 5.0)],
)
def test_the_median_is_one_of_the_attempts(
    attempt: Attempt, latencies_s: tuple[float, ...], chosen: float
) -> None:
    result = attempt.result
    reports = [replace(result.report, latency_s=seconds) for seconds in latencies_s]
    attempts = [replace(attempt, result=replace(result, report=report)) for report in reports]
    assert median_attempt(attempts).latency_s == chosen


def test_opening_the_bundle_is_no_part_of_the_latency(attempt: Attempt) -> None:
    opened = replace(attempt, open_s=2.0)
    assert opened.latency_s == attempt.result.report.latency_s


def test_a_step_takes_time() -> None:
    assert measure_step_s(ToyAdapter(), job(), num_edits=1) > 0


@pytest.mark.parametrize("method", ["sakura", "uncompressed"])
def test_without_an_origin_the_device_makes_the_same_edit(
    method: str, attempt: Attempt, tmp_path: Path
) -> None:
    with OriginProcess(tmp_path) as origin:
        url = f"{origin.url}/gone.skv"
    events: list[Event] = []
    made = run_method(ToyAdapter(), job(url), method, events.append)
    assert made.open_error is not None
    assert made.num_bytes == 0
    assert made.result.report.finished_by == "device"
    assert np.array_equal(made.result.image, attempt.result.image)
    assert events[-1].kind == "run_end"


def test_streaming_makes_the_whole_request(tmp_path: Path) -> None:
    """Prompt, seed and mask too: with all state from the device, both methods agree."""
    made, adapter = bundles.raw(), bundles.adapter()
    (tmp_path / "raw.skv").write_bytes(made.data)
    bits = bundles.template().mask.bits.copy()
    bits[1:, 1:14] = True
    mask = TokenMask.from_bits(bundles.template().mask.grid, bits)
    requests = [
        Request(bundles.reference(), "try-on", 4, mask),
        Request(bundles.reference(), None, 4, mask),
    ]
    images = []
    for request in requests:
        whole = Job(bundles.template(), request, {"uncompressed": str(tmp_path / "raw.skv")})
        result = run_method(adapter, whole, "uncompressed", lambda _: None).result
        assert (result.report.mask_ratio, result.report.finished_by) == (mask.ratio, "stream")
        run = adapter.prepare(bundles.template(), request, bundles.token_order())
        with one_thread():
            for step in range(8):
                run.begin_step(step, active_only=True)
                for block in range(6):
                    keys, values = np.ascontiguousarray(bundles.raw_state()[block, :, step])
                    run.run_block(block, BlockState(keys, values))
                run.end_step()
        assert np.abs(result.image.astype(int) - run.image()).max() <= 1
        images.append(result.image)
    assert not np.array_equal(*images)
