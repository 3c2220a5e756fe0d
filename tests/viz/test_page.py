"""The page: well formed, self-contained, escaped, with everything it was given."""

from __future__ import annotations

import re
from base64 import b64encode
from html.parser import HTMLParser

from sakura.viz.page import Facts, Section, make_page

VOID = {"meta", "img", "br"}


class Balance(HTMLParser):
    """Checks that every element is closed in order; collects what is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page() -> str:
    facts = Facts(
        headline="fast & <small>",
        setting="on a slow link",
        figures=[("2.5x", "as fast")],
        headers=("task", "latency"),
        rows=[("face-swap", "1.0 s")],
        details={"Machine": {"num_cpus": 2, "processor": "<script>alert(1)</script>"}},
    )
    section = Section(
        "face-swap",
        "a face",
        {"on-device": 2.0, "sakura": 0.5},
        b"sheet",
        {"on-device": b"slow", "sakura": b"quick"},
    )
    return make_page(facts, [section])


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    parser = Balance()
    parser.feed(page())
    assert parser.open == []
    assert len(parser.loads) == 3
    assert all(load.startswith("data:image/png;base64,") for load in parser.loads)
    assert not re.search(r"https?:|@import|url\(|<script|<link", page())


def test_the_page_holds_its_pictures_and_escapes_text() -> None:
    text = page()
    for picture in (b"sheet", b"slow", b"quick"):
        assert b64encode(picture).decode() in text
    assert "fast &amp; &lt;small&gt;" in text
    assert "&lt;script&gt;alert(1)" in text
    assert "on a slow link" in text


def test_the_page_is_light_and_dark() -> None:
    assert "prefers-color-scheme: dark" in page()
    assert 'name="color-scheme" content="light dark"' in page()


def test_bars_are_as_long_as_latencies() -> None:
    assert re.findall(r"width:([\d.]+)%", page()) == ["100.00", "25.00"]
