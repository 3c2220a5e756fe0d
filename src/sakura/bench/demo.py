"""The whole system on one machine: pack, serve, stream over a recorded network, compare, show.

Decides the order of things; every part does its own work. An interrupt leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sakura.bench.devices import StepCost, phone_step, scale_link
from sakura.bench.machine import machine, versions
from sakura.bench.methods import Attempt, measure_step_s, median_attempt, run_method
from sakura.bench.options import DemoOptions, Link, Watch
from sakura.bench.outputs import report_json, write_pictures
from sakura.bench.packed import DemoModel, Packed, pack_task
from sakura.bench.report import METHODS, DemoReport, Row
from sakura.bench.staging import staged_folder
from sakura.bench.tasks import load_task
from sakura.fidelity import psnr_db
from sakura.models import load_model
from sakura.models.base import Adapter
from sakura.models.threads import one_thread
from sakura.origin.serve import OriginProcess
from sakura.store.shaped import ShapedLink
from sakura.store.trace import load_trace

STORE = "store"
_PACK_SHARE, _RUN_SHARE = 0.5, 0.4  # of the time, for the progress display

NO_REFERENCE = "no run of uncompressed streaming had its state in every block"

Attempts = dict[tuple[str, str], list[Attempt]]
"""By task and method, in the order they were made."""


def run_demo(options: DemoOptions, watch: Watch, model: DemoModel | None = None) -> DemoReport:
    """Run the demo and write its folder.

    Args:
        options: what to run.
        watch: told about progress.
        model: a loaded model; None loads the shipped one.

    Raises:
        SakuraError: a trace, output or model that cannot be used.
    """
    load_trace(options.trace), phone_step(options.like)  # complain before the work begins
    # One thread throughout: a second one gains little on models this small, and loses much where
    # the origin, the link or anything else wants the other core.
    with staged_folder(options.out) as folder, one_thread():
        watch.stage("load the model", 0.0)
        model = model or DemoModel(load_model("mini"))
        adapter = model.adapter
        packed = pack_all(model, options, folder / STORE, watch)
        watch.stage("measure a step", _PACK_SHARE)
        link = scaled_link(adapter, packed[0], options)
        attempts = run_all(adapter, packed, (options, link), folder / STORE, watch)
        report = make_report(adapter, packed, attempts, (options, link))
        watch.stage("draw", _PACK_SHARE + _RUN_SHARE)
        write_pictures(folder, packed, attempts, report)
        (folder / "report.json").write_text(report_json(report), "utf-8")
    return report


def pack_all(model: DemoModel, options: DemoOptions, store: Path, watch: Watch) -> list[Packed]:
    """Pack every task into a new store folder."""
    store.mkdir()
    packed = []
    for index, name in enumerate(options.tasks):

        def progress(text: str, fraction: float, index: int = index) -> None:
            watch.stage(text, _PACK_SHARE * (index + fraction) / len(options.tasks))

        packed.append(pack_task(model, load_task(name), store, progress))
    return packed


def scaled_link(adapter: Adapter, packed: Packed, options: DemoOptions) -> Link:
    """The recorded network, scaled by how fast this machine computes a step."""
    step_s = measure_step_s(adapter, packed.job("", options.floor_db))
    state_bytes = adapter.geometry.state_bytes(packed.template.mask.grid.num_tokens, 1)
    scale = scale_link(StepCost(step_s, state_bytes), phone_step(options.like), options.like)
    return Link(load_trace(options.trace), options.rtt_ms / 1e3, scale)


def run_all(
    adapter: Adapter,
    packed: Sequence[Packed],
    setting: tuple[DemoOptions, Link],
    store: Path,
    watch: Watch,
) -> Attempts:
    """Make every edit by every method, repetitions interleaved, the link begun anew for each."""
    options, link = setting
    attempts: Attempts = {(p.task.name, method): [] for p in packed for method in METHODS}
    trace, rtt_s = link.scale.trace(link.trace), link.scale.rtt_s(link.rtt_s)
    total, done = options.repetitions * len(attempts), 0
    with OriginProcess(store) as origin, ShapedLink(origin.url, trace, rtt_s=rtt_s) as shaped:
        for repetition in range(options.repetitions):
            for one in packed:
                job = one.job(shaped.url, options.floor_db)
                for method in METHODS:
                    text = f"{one.task.name}, {method}, run {repetition + 1}"
                    watch.stage(text, _PACK_SHARE + _RUN_SHARE * done / total)
                    shaped.restart()
                    made = run_method(adapter, job, method, watch.event)
                    attempts[one.task.name, method].append(made)
                    done += 1
    return attempts


def make_report(
    adapter: Adapter,
    packed: Sequence[Packed],
    attempts: Attempts,
    setting: tuple[DemoOptions, Link],
) -> DemoReport:
    """Figures of all runs."""
    options, link = setting
    scaled = link.scale.trace(link.trace)
    return DemoReport(
        runs=tuple(row for one in packed for row in _rows(adapter, one, attempts)),
        machine=machine(),
        trace={
            "name": link.trace.name,
            "mean_bps": link.trace.mean_bps,
            "duration_s": link.trace.duration_s,
            "rtt_s": link.rtt_s,
            "scaled_mean_bps": scaled.mean_bps,
            "scaled_duration_s": scaled.duration_s,
            "scaled_rtt_s": link.scale.rtt_s(link.rtt_s),
        },
        link_scale=link.scale.to_json(),
        versions=versions(),
        settings={
            "repetitions": options.repetitions,
            "floor_db": options.floor_db,
            "num_steps": adapter.schedule.num_steps,
            "num_blocks": adapter.geometry.num_blocks,
            "weights_digest": adapter.identity().weights_digest,
        },
    )


def uncompressed_edit(attempts: Sequence[Attempt]) -> NDArray[np.uint8] | None:
    """A picture made with uncompressed state in every block; None where every run fell short."""
    whole = (a.result for a in attempts if a.result.report.finished_by == "stream")
    return next((result.image for result in whole), None)


def _rows(adapter: Adapter, packed: Packed, attempts: Attempts) -> list[Row]:
    task, mask = packed.task.name, packed.template.mask
    chosen = {method: median_attempt(attempts[task, method]) for method in METHODS}
    full, truth = chosen["on-device"].result.image, packed.task.truth()
    raw = uncompressed_edit(attempts[task, "uncompressed"])
    rows = []
    for method, attempt in chosen.items():
        report, image = attempt.result.report, attempt.result.image
        rows.append(
            Row(
                task=task,
                method=method,
                latency_s=attempt.latency_s,
                open_s=attempt.open_s,
                startup_s=report.startup_s,
                stall_s=report.stall_s,
                num_stalls=report.num_stalls,
                num_bytes=attempt.num_bytes,
                raw_state_bytes=adapter.geometry.state_bytes(
                    mask.num_cached, adapter.schedule.num_steps
                ),
                bundle_bytes=packed.bundle_bytes.get(method, 0),
                psnr_vs_full_db=psnr_db(image, full, mask),
                psnr_vs_uncompressed_db=None if raw is None else psnr_db(image, raw, mask),
                psnr_vs_truth_db=psnr_db(image, truth, mask),
                recomputed_blocks=report.recomputed_blocks,
                injected_blocks=report.injected_blocks,
                mask_ratio=mask.ratio,
                latencies_s=tuple(made.latency_s for made in attempts[task, method]),
                finished_by=report.finished_by,
                fetch_error=attempt.open_error or report.fetch_error,
                psnr_vs_uncompressed_note=NO_REFERENCE if raw is None else None,
            )
        )
    return rows
