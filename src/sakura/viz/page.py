"""The demo as one HTML file, every picture inlined, nothing loaded from anywhere. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sakura.viz.page_style import STYLE

METHOD_NAMES = {
    "on-device": "on-device generation",
    "uncompressed": "uncompressed streaming",
    "sakura": "SAKURA",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One task of the page.

    Attributes:
        task: its name.
        caption: what the edit does.
        latencies_s: by method, in the order to show.
        sheet: PNG file of the side-by-side sheet.
        timelines: PNG file by method.
    """

    task: str
    caption: str
    latencies_s: Mapping[str, float]
    sheet: bytes
    timelines: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page says besides its sections.

    Attributes:
        headline: one sentence.
        setting: under which conditions it holds.
        figures: (number, what it is) cards.
        headers, rows: the table of runs.
        details: title of each group of settings, with its names and values.
    """

    headline: str
    setting: str
    figures: Sequence[tuple[str, str]]
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    details: Mapping[str, Mapping[str, Any]]


def make_page(facts: Facts, sections: Sequence[Section]) -> str:
    """The HTML document."""
    body = "\n".join(
        (
            f"<header><h1>SAKURA demo</h1><p>{escape(facts.headline)}</p>"
            f"<p class='note'>{escape(facts.setting)}</p></header>",
            _cards(facts.figures),
            *(_section(section) for section in sections),
            "<section><h2>All runs</h2>" + _table(facts.headers, facts.rows) + _NOTES,
            "</section>",
            "<section><h2>How it was measured</h2><div class='details'>"
            + "".join(_definitions(title, values) for title, values in facts.details.items())
            + "</div></section>",
        )
    )
    return _DOCUMENT.format(style=STYLE, body=body)


_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>SAKURA demo</title>
<style>{style}</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""

_NOTES = """<p class="note">Latency is the median of the repetitions, the bundle being open (an
app opens it when the user picks the template); how long opening took is in report.json.
PSNR (dB, against full compute, against uncompressed state and against the ground truth) counts the
pixels of the active tokens only; 99 dB stands for identical pictures.
&ldquo;Computed&rdquo; counts the blocks that ran with all tokens on the device.</p>"""


def _cards(figures: Sequence[tuple[str, str]]) -> str:
    cards = (
        f"<div class='card'><b>{escape(number)}</b><span>{escape(what)}</span></div>"
        for number, what in figures
    )
    return f"<div class='cards'>{''.join(cards)}</div>"


def _section(section: Section) -> str:
    longest_s = max(section.latencies_s.values())
    bars = "".join(
        f"<div class='bar {escape(method)}'><span>{escape(METHOD_NAMES.get(method, method))}</span>"
        f"<i style='width:{100 * latency_s / longest_s:.2f}%'></i><b>{latency_s:.3f} s</b></div>"
        for method, latency_s in section.latencies_s.items()
    )
    timelines = "".join(
        f"<details{' open' if method == 'sakura' else ''}>"
        f"<summary>Timeline: {escape(METHOD_NAMES.get(method, method))}</summary>"
        f"{_picture(png, f'timeline of {section.task}, {method}')}</details>"
        for method, png in sorted(section.timelines.items(), key=lambda item: item[0] != "sakura")
    )
    return (
        f"<section><h2>{escape(section.task)}</h2><p>{escape(section.caption)}</p>"
        f"<div class='bars'>{bars}</div>"
        f"{_picture(section.sheet, f'pictures of {section.task}')}{timelines}</section>"
    )


def _picture(png: bytes, text: str) -> str:
    data = b64encode(png).decode("ascii")
    return f"<img alt='{escape(text, quote=True)}' src='data:image/png;base64,{data}'>"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _definitions(title: str, values: Mapping[str, Any]) -> str:
    items = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(_number(value))}</dd>"
        for name, value in values.items()
    )
    return f"<div><h3>{escape(title)}</h3><dl>{items}</dl></div>"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
