"""The demo's figures: one row per task and method, as JSON and as a table. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from sakura.units import format_bytes, format_duration, format_rate

METHODS = ("on-device", "uncompressed", "sakura")


@dataclass(frozen=True, slots=True)
class Row:
    """One task by one method: the run with the median latency, and all latencies.

    Attributes:
        latency_s: from the request to the finished picture, the bundle being open: an app opens it
            when the user picks the template, whose picture is in its head.
        open_s: what opening took (head, model check, connections); not part of the latency.
        startup_s: until the first block began.
        stall_s: the executor waited, in all.
        num_bytes: fetched, the bundle's head included.
        raw_state_bytes: of the uncompressed state in bf16.
        bundle_bytes: of the whole object; 0 where none is used.
        psnr_vs_full_db: inside the mask, against on-device generation with all tokens.
        psnr_vs_uncompressed_db: against the edit with uncompressed state; None where no run had
            that in every block.
        psnr_vs_uncompressed_note: why it is None.
        psnr_vs_truth_db: against what the generator says is right.
        recomputed_blocks: blocks executed with all tokens, over all steps.
        mask_ratio: share of active tokens.
    """

    task: str
    method: str
    latency_s: float
    open_s: float
    startup_s: float
    stall_s: float
    num_stalls: int
    num_bytes: int
    raw_state_bytes: int
    bundle_bytes: int
    psnr_vs_full_db: float
    psnr_vs_uncompressed_db: float | None
    psnr_vs_truth_db: float
    recomputed_blocks: int
    injected_blocks: int
    mask_ratio: float
    latencies_s: tuple[float, ...]
    finished_by: str
    fetch_error: str | None = None
    psnr_vs_uncompressed_note: str | None = None


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Everything `report.json` holds."""

    runs: tuple[Row, ...]
    machine: dict[str, Any]
    trace: dict[str, Any]
    link_scale: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return {**asdict(self), "runs": [asdict(row) for row in self.runs]}

    def row(self, task: str, method: str) -> Row:
        """The row of a task and method."""
        return next(row for row in self.runs if (row.task, row.method) == (task, method))

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.task for row in self.runs))

    def speedup(self, over: str) -> float:
        """Latency of method `over` divided by SAKURA's, mean over the tasks."""
        return fmean(
            self.row(task, over).latency_s / self.row(task, "sakura").latency_s
            for task in self.tasks
        )

    @property
    def compression(self) -> float:
        """Raw state divided by SAKURA's bundles, over all tasks."""
        rows = [self.row(task, "sakura") for task in self.tasks]
        return sum(row.raw_state_bytes for row in rows) / sum(row.bundle_bytes for row in rows)

    def mean(self, method: str, name: str) -> float:
        """Mean of a figure over the tasks."""
        return fmean(getattr(self.row(task, method), name) for task in self.tasks)


HEADERS = (
    *("task", "method", "latency", "startup", "stalls", "fetched", "computed"),
    *("dB: full", "raw", "truth"),
)
"""Computed: blocks with all tokens; dB: PSNR against full compute, raw state and ground truth."""


def table_rows(report: DemoReport) -> list[tuple[str, ...]]:
    """The report as text, one tuple per run, in the order of `HEADERS`."""
    return [_text(row) for row in report.runs]


def _text(row: Row) -> tuple[str, ...]:
    raw_db = None if row.method == "uncompressed" else row.psnr_vs_uncompressed_db
    total = row.recomputed_blocks + row.injected_blocks
    return (
        row.task,
        row.method,
        format_duration(row.latency_s),
        format_duration(row.startup_s),
        f"{row.num_stalls} ({format_duration(row.stall_s)})" if row.num_stalls else "none",
        format_bytes(row.num_bytes) if row.num_bytes else "-",
        f"{row.recomputed_blocks}/{total}",
        "-" if row.method == "on-device" else f"{row.psnr_vs_full_db:.1f}",
        "-" if raw_db is None else f"{raw_db:.1f}",
        f"{row.psnr_vs_truth_db:.1f}",
    )


def headline(report: DemoReport) -> str:
    """One sentence that sums the report up."""
    return (
        f"SAKURA is {report.speedup('on-device'):.2f}x as fast as on-device generation and "
        f"{report.speedup('uncompressed'):.2f}x as fast as uncompressed streaming, with "
        f"bundles {report.compression:.1f}x smaller than the state, at "
        f"{report.mean('sakura', 'psnr_vs_full_db'):.1f} dB against full compute."
    )


def setting(report: DemoReport) -> str:
    """Under which conditions the figures hold: network, scale, machine."""
    trace, scale, machine = report.trace, report.link_scale, report.machine
    return (
        f"Network {trace['name']} ({format_rate(trace['mean_bps'])} on average, "
        f"{format_duration(trace['rtt_s'])} round trip), scaled like {scale['like']}: "
        f"rate x {scale['rate']:.3g}, time x {scale['time']:.3g}. "
        f"Median of {report.settings['repetitions']} on {machine['processor']}, "
        f"{machine['num_cpus']} processors."
    )
