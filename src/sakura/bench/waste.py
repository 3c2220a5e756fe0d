"""How many of the fetched bytes an edit never used, from its event log. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sakura.events import Event
from sakura.format import Head


def wasted_bytes(events: Iterable[Event], head: Head, opened_bytes: int = 0) -> int:
    """Fetched bytes of layers that were not decoded when their block was injected for the last
    time, and of ranges that were dropped.

    Args:
        events: of a run.
        head: of its bundle.
        opened_bytes: first bytes of the object, which were not fetched.
    """
    log = list(events)
    last_s: dict[int, float] = {}
    for event in log:
        if event.kind == "block" and event.data["mode"] == "inject":
            last_s[event.data["block"]] = event.data["start_s"]
    levels: dict[tuple[int, int], int] = {}
    for event in log:
        if event.kind == "decode" and event.t_s <= last_s.get(event.data["block"], -1.0):
            levels[event.data["block"], event.data["component"]] = event.data["level"]
    num_used = sum(
        layer.num_bytes
        for shard in head.manifest.shards
        for level, layer in enumerate(shard.layers)
        if level <= levels.get((shard.block, shard.component), -1)
        and head.span(layer)[1] > opened_bytes
    )
    num_fetched = sum(event.data["num_bytes"] for event in log if event.kind == "fetch_bytes")
    return max(0, num_fetched - num_used)
