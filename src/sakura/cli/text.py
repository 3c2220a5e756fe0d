"""Text on stdout: aligned tables and JSON, the same on a terminal and in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], num_left: int = 1) -> str:
    """Columns padded to their widest cell; the first `num_left` are flush left, others right."""
    lines = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < num_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def facts(values: Mapping[str, str]) -> str:
    """One `name  value` line each, values aligned."""
    width = max(len(name) for name in values)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in values.items())


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=2))


def note(message: str) -> None:
    """A remark for people, on stderr."""
    click.echo(message, err=True)
