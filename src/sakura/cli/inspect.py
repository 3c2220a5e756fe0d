"""`sakura inspect`: what a bundle says about itself. Reads the head alone, over any store."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import click

from sakura.cli.text import facts, print_json, table
from sakura.format import Head, Manifest, read_head
from sakura.models.base import Geometry
from sakura.store.open import open_reader
from sakura.units import format_bytes


@click.command(short_help="Say what a bundle holds, level by level.")
@click.argument("bundle")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(bundle: str, as_json: bool) -> None:
    """Say what BUNDLE (a path or URL) holds, level by level.

    Only the head is read, so a bundle of any size answers at once.
    """
    reader = open_reader(bundle)
    info = reader.stat()
    head = read_head(lambda offset, length: reader.read(offset, offset + length), info.num_bytes)
    summary = summarize(head)
    if as_json:
        print_json({"bundle": bundle, "etag": info.etag, **summary})
        return
    click.echo(facts(_facts(bundle, summary)))
    click.echo()
    click.echo(_levels(summary))
    click.echo()
    click.echo(_components(summary))


def summarize(head: Head) -> dict[str, Any]:
    """A head as JSON values."""
    manifest = head.manifest
    mask, geometry = manifest.token_mask, manifest.geometry
    raw = Geometry(geometry.num_double, geometry.num_single, geometry.num_heads, geometry.head_dim)
    return {
        "num_bytes": head.num_bytes,
        "head_bytes": head.data_start,
        "format": str(head.version),
        "tool": manifest.tool,
        "task": manifest.task,
        "reuse": manifest.reuse,
        "model": {
            "family": manifest.model.family,
            "class_name": manifest.model.class_name,
            "weights_digest": manifest.model.weights_digest,
            "adapters": list(manifest.model.adapters),
        },
        "schedule": {"name": manifest.schedule.name, "num_steps": manifest.schedule.num_steps},
        "num_blocks": geometry.num_blocks,
        "grid": [manifest.grid.height, manifest.grid.width],
        "template_px": [manifest.template.height, manifest.template.width],
        "num_active": mask.num_active,
        "num_cached": mask.num_cached,
        "mask_ratio": mask.ratio,
        "codec": manifest.codec.id,
        "profile_digest": manifest.codec.profile_digest,
        "raw_state_bytes": raw.state_bytes(mask.num_cached, manifest.num_components),
        "levels": _level_rows(manifest),
        "components": _component_rows(manifest),
    }


def _level_rows(manifest: Manifest) -> list[dict[str, Any]]:
    sizes = [
        sum(shard.layers[level].num_bytes for shard in manifest.shards)
        for level in range(manifest.num_levels)
    ]
    return [
        {"level": level, "num_bytes": size, "total_bytes": total, "predicted_db": predicted}
        for level, (size, total, predicted) in enumerate(
            zip(sizes, accumulate(sizes), manifest.predicted.levels, strict=True)
        )
    ]


def _component_rows(manifest: Manifest) -> list[dict[str, Any]]:
    rows = []
    for component in range(manifest.num_components):
        shards = [shard for shard in manifest.shards if shard.component == component]
        sizes = [
            sum(shard.layers[level].num_bytes for shard in shards)
            for level in range(manifest.num_levels)
        ]
        energy = sum(shard.energy for shard in shards)
        rows.append({"component": component, "energy": energy, "level_bytes": sizes})
    return rows


def _facts(bundle: str, summary: dict[str, Any]) -> dict[str, str]:
    model, grid = summary["model"], summary["grid"]
    ratio = summary["raw_state_bytes"] / summary["num_bytes"]
    return {
        "bundle": bundle,
        "size": f"{format_bytes(summary['num_bytes'])} "
        f"({summary['num_bytes']} bytes, head {format_bytes(summary['head_bytes'])})",
        "format": f"{summary['format']}, written by {summary['tool']}",
        "model": f"{model['family']} ({model['class_name']}, "
        f"weights {model['weights_digest'][:12]})",
        "edit": f"{summary['task']}, {summary['reuse']} mode",
        "steps": f"{summary['schedule']['num_steps']} ({summary['schedule']['name']}), "
        f"{summary['num_blocks']} blocks",
        "tokens": f"{grid[0]} x {grid[1]}: {summary['num_active']} active "
        f"({summary['mask_ratio']:.1%}), {summary['num_cached']} cached",
        "codec": f"{summary['codec']}, profile {summary['profile_digest'][:12]}",
        "state": f"{format_bytes(summary['raw_state_bytes'])} uncompressed, "
        f"{ratio:.1f} times the bundle",
    }


def _levels(summary: dict[str, Any]) -> str:
    rows = [
        (
            str(row["level"]),
            format_bytes(row["num_bytes"]),
            format_bytes(row["total_bytes"]),
            f"{row['predicted_db']:.1f} dB",
        )
        for row in summary["levels"]
    ]
    return table(("level", "adds", "in all", "predicted"), rows)


def _components(summary: dict[str, Any]) -> str:
    total = sum(row["energy"] for row in summary["components"]) or 1.0
    rows = [
        (
            str(row["component"]),
            f"{row['energy'] / total:.2%}",
            *(format_bytes(size) for size in row["level_bytes"]),
        )
        for row in summary["components"]
    ]
    levels = (f"level {row['level']}" for row in summary["levels"])
    return table(("component", "energy", *levels), rows)
