"""`sakura codec`: measure codecs. Its one verb, `bench`, compares them on captured states."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sakura.cli.live import Live
from sakura.cli.options import InputPath, Output, gathered
from sakura.cli.text import facts, note, print_json, table

if TYPE_CHECKING:
    from sakura.bench.codec_report import CodecReport

STDOUT = "-"


class OutputOrStdout(Output):
    """A file to write, or "-" for stdout, which stays text."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | Path:
        """See `Output.convert`."""
        return STDOUT if value == STDOUT else super().convert(value, param, ctx)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the command line may say of a run; see `CodecBenchOptions`."""

    inputs: tuple[str, ...]
    model: str
    profile: Path | None
    calibration: tuple[Path, ...]
    quick: bool


@click.group(short_help="Compare codecs on captured state.")
def command() -> None:
    """Compare codecs on captured state."""


@command.command(short_help="Rate, fidelity and speed of SAKURA's codec and of others.")
@click.argument("inputs", nargs=-1, metavar="[STATES]...")
@click.option("--model", default="mini", show_default=True, help='Model that edits, or "none".')
@click.option("--profile", type=InputPath, help="Codec profile; by default the model's.")
@click.option(
    "--calibration",
    multiple=True,
    type=InputPath,
    help="State that baselines learn from (repeatable); by default STATES, in their favour.",
)
@click.option("--quick", is_flag=True, help="Fewer operating points and repeats.")
@click.option("--plot", type=Output(), help="Draw the rate-distortion curves (PNG).")
@click.option(
    "--json",
    "json_path",
    type=OutputOrStdout(),
    help='Write everything to a file, or "-" for stdout.',
)
@gathered(Chosen)
def bench(chosen: Chosen, plot: Path | None, json_path: str | Path | None) -> None:
    """Measure codecs on STATES: bundles packed with --codec raw-bf16/1, or .npz and .safetensors
    files with an array `state` (blocks, K|V, steps, tokens, heads, head dimension).

    Without STATES, the demo's templates are captured and measured. Takes minutes.
    """
    from sakura.bench.codec_bench import CodecBenchOptions, run_codec_bench

    options = CodecBenchOptions(**asdict(chosen))
    with Live(quiet=json_path == STDOUT) as live:
        report = run_codec_bench(options, live.stage)
    if plot is not None:
        draw(report, plot)
    if json_path == STDOUT:
        print_json(report.to_json())
        return
    if json_path is not None:
        Path(json_path).write_text(json.dumps(report.to_json(), indent=2) + "\n", "utf-8")
    show(report)


def show(report: CodecReport) -> None:
    """Tables on stdout, remarks on stderr."""
    from sakura.bench.codec_report import (
        CODEC_SPEED_HEADERS,
        SPEED_HEADERS,
        codec_speed_rows,
        headers,
        speed_facts,
        speed_rows,
        table_rows,
    )

    click.echo(table(headers(report), table_rows(report)))
    click.echo()
    click.echo(table(CODEC_SPEED_HEADERS, codec_speed_rows(report.decode_state)))
    click.echo()
    click.echo(table(SPEED_HEADERS, speed_rows(report.decode)))
    click.echo()
    click.echo(facts(speed_facts(report.decode)))
    for remark in report.notes:
        note(remark)


def draw(report: CodecReport, path: Path) -> None:
    """The curves as a PNG file."""
    from sakura.bench.codec_report import OURS
    from sakura.viz.rd import Labels, write_curves

    sizes = {p.subject: 8 * p.num_bytes / p.bits_per_element for p in report.points}
    per_byte = 8 * len(sizes) / sum(sizes.values())
    curves = {
        codec: [(point.num_bytes * per_byte, point.quality) for point in points]
        for codec, points in report.curves().items()
    }
    quality = "PSNR of the edit, dB" if report.has_edits else "signal to error of K and V, dB"
    title = f"Mean of {len(sizes)} states"
    write_curves(path, curves, OURS, Labels(title, quality))
