"""What `sakura edit` says of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sakura.cli.explain import decisions, explain
from sakura.cli.text import note
from sakura.units import format_bytes, format_duration

if TYPE_CHECKING:
    from sakura.play import EditResult
    from sakura.play.report import RunReport


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of the run."""

    as_json: bool
    with_reasons: bool


def report_of(result: EditResult, output: Path, told: Told) -> dict[str, Any]:
    """What `--json` prints of an edit."""
    reasons = {"decisions": decisions(result.events)} if told.with_reasons else {}
    return {"output": str(output), **asdict(result.report), **reasons}


def tell(result: EditResult, output: Path, told: Told) -> None:
    """Say what came of the edit to people: the path on stdout, the rest on stderr."""
    click.echo(str(output))
    if told.with_reasons:
        note(explain(result.events))
    note(_summary(result.report))


def warnings_of(report: RunReport) -> Iterator[str]:
    """What went wrong on the way although there is a picture."""
    if report.num_damaged:
        shards = ", ".join(
            f"block {block} component {component}" for block, component in report.damaged_shards
        )
        yield (
            f"{report.num_damaged} damaged chunk(s) refused, of {shards}; "
            "`sakura verify` checks the whole bundle"
        )
    if report.fetch_error:
        yield f"fetching ended early: {report.fetch_error}"
    if report.cache_error:
        yield f"the cache: {report.cache_error}"


def _summary(report: RunReport) -> str:
    """One line for people."""
    total = report.recomputed_blocks + report.injected_blocks
    cached = f"{format_bytes(report.cached_bytes)} cached, " if report.cached_bytes else ""
    return (
        f"{format_duration(report.latency_s)}, {format_bytes(report.num_bytes)} fetched, "
        f"{cached}"
        f"{report.recomputed_blocks} of {total} blocks computed with all tokens, "
        f"{report.num_stalls} stalls"
    )
