"""The demo's pictures: edits, sheets, timelines and the page, from runs and their event logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sakura.bench.methods import Attempt, median_attempt
from sakura.bench.packed import Packed
from sakura.bench.report import HEADERS, METHODS, DemoReport, headline, setting, table_rows
from sakura.images import encode, load_rgb
from sakura.viz.compare import Panel, difference, make_sheet, show_mask
from sakura.viz.page import METHOD_NAMES, Facts, Section, make_page
from sakura.viz.timeline import timeline_png

Attempts = Mapping[tuple[str, str], list[Attempt]]


def write_pictures(
    folder: Path, packed: Sequence[Packed], attempts: Attempts, report: DemoReport
) -> None:
    """Write everything of the demo's folder but the report and the bundles."""
    sections = []
    for one in packed:
        task = one.task.name
        chosen = {method: median_attempt(attempts[task, method]) for method in METHODS}
        sheet = encode(make_sheet(*_sheet(one, chosen, report)), "PNG")
        (folder / f"{task}-sheet.png").write_bytes(sheet)
        timelines = {m: _write_run(folder, task, m, attempt) for m, attempt in chosen.items()}
        latencies_s = {method: attempt.latency_s for method, attempt in chosen.items()}
        sections.append(Section(task, one.task.caption, latencies_s, sheet, timelines))
    (folder / "index.html").write_text(make_page(_facts(report), sections), "utf-8")


def _write_run(folder: Path, task: str, method: str, attempt: Attempt) -> bytes:
    """Write one run's picture, event log and timeline; returns the timeline's PNG file."""
    name = f"{task}-{method}"
    (folder / f"{name}.png").write_bytes(encode(attempt.result.image, "PNG"))
    attempt.result.events.write_jsonl(folder / f"{name}-events.jsonl")
    title = f"{task} · {METHOD_NAMES[method]} · {attempt.latency_s:.3f} s"
    if attempt.open_s:
        title += f" ({attempt.open_s:.3f} s before 0 to open the bundle)"
    png = timeline_png(list(attempt.result.events), title)
    (folder / f"{name}-timeline.png").write_bytes(png)
    return png


def _sheet(
    packed: Packed, chosen: Mapping[str, Attempt], report: DemoReport
) -> tuple[list[Panel], str]:
    """Panels and title of a task's sheet."""
    template, mask = packed.template.image, packed.template.mask
    full, ours = chosen["on-device"].result.image, chosen["sakura"].result.image
    row = report.row(packed.task.name, "sakura")
    panels = [
        ("template", "public, packed once", template),
        ("mask", f"{mask.ratio:.0%} of the tokens are active", show_mask(template, mask)),
        ("private reference", "stays on the device", load_rgb(packed.task.reference_path)),
        ("full compute", f"on the device, {chosen['on-device'].latency_s:.3f} s", full),
        ("SAKURA", f"{row.latency_s:.3f} s, {row.psnr_vs_full_db:.1f} dB", ours),
        ("difference x8", "between SAKURA and full compute", difference(ours, full)),
    ]
    return panels, f"{packed.task.name}: {packed.task.caption}"


def _facts(report: DemoReport) -> Facts:
    """What the page says about all tasks."""
    figures = [
        (f"{report.speedup('on-device'):.2f}x", "as fast as on-device generation"),
        (f"{report.speedup('uncompressed'):.2f}x", "as fast as uncompressed streaming"),
        (f"{report.compression:.1f}x", "smaller than the uncompressed state"),
        (f"{report.mean('sakura', 'psnr_vs_full_db'):.1f} dB", "against full compute, in the mask"),
    ]
    details = {
        "Machine": report.machine,
        "Network trace": report.trace,
        "Link scale": report.link_scale,
        "Settings": report.settings,
        "Versions": report.versions,
    }
    return Facts(headline(report), setting(report), figures, HEADERS, table_rows(report), details)


def report_json(report: DemoReport) -> str:
    """The text of `report.json`."""
    return json.dumps(report.to_json(), indent=2) + "\n"
