"""What an edit took and how it came about, from its event log alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sakura.events import Event
from sakura.fidelity import to_db

COMPUTED = -1


@dataclass(frozen=True, slots=True)
class RunReport:
    """One edit in numbers.

    Args:
        policy: who decided.
        task: the template's task.
        latency_s: from the request to the edited picture.
        startup_s: from the request to the first block.
        stall_s: time in which the device waited for bytes.
        num_stalls: how often it did.
        num_bytes: bytes of shards that arrived during the edit.
        head_bytes: bytes that opening the bundle took; shards that came along count here.
        cached_bytes: bytes of shards that lay in the flash cache when the edit began.
        recomputed_blocks: blocks executed with all tokens.
        injected_blocks: blocks executed with injected state.
        mask_ratio: share of the tokens that are active.
        predicted_db: PSNR to expect against uncompressed state; None where nothing was injected.
        finished_by: "stream" if every block was injected, "device" if none was, else "mixed".
        fetch_error: why fetching ended early, or had broken off when the edit ended; or None.
        cache_error: why the flash cache could not be read or added to, if so; or None.
        num_damaged: chunks from the origin that were refused, each counted once.
        damaged_shards: (block, component) of the shards they belong to.
        canary_distance: how far the model is from the one the bundle was captured with.
        levels: per step and block, the level that was injected, -1 for computed.
    """

    policy: str
    task: str
    latency_s: float
    startup_s: float
    stall_s: float
    num_stalls: int
    num_bytes: int
    head_bytes: int
    cached_bytes: int
    recomputed_blocks: int
    injected_blocks: int
    mask_ratio: float
    predicted_db: float | None
    finished_by: Literal["stream", "device", "mixed"]
    fetch_error: str | None
    cache_error: str | None
    num_damaged: int
    damaged_shards: tuple[tuple[int, int], ...]
    canary_distance: float | None
    levels: tuple[tuple[int, ...], ...]

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))


def make_report(events: Iterable[Event]) -> RunReport:
    """The report of a finished run; its first event is `run_start`, its last one `run_end`."""
    log = list(events)
    start, end = log[0].data, log[-1].data
    assert log[0].kind == "run_start" and log[-1].kind == "run_end"
    stalls = [event.t_s - event.data["start_s"] for event in log if event.kind == "stall"]
    levels = _levels(log, start["num_steps"], start["num_blocks"])
    flat = [level for row in levels for level in row]
    num_computed = flat.count(COMPUTED)
    num_injected = len(flat) - num_computed
    damaged = _damaged(log)
    mse = sum(event.data.get("mse", 0.0) for event in log if event.kind == "step")
    return RunReport(
        policy=start["policy"],
        task=start["task"],
        latency_s=end["latency_s"],
        startup_s=min((e.data["start_s"] for e in log if e.kind == "block"), default=0.0),
        stall_s=sum(stalls),
        num_stalls=len(stalls),
        num_bytes=sum(e.data["num_bytes"] for e in log if e.kind == "fetch_bytes"),
        head_bytes=start.get("head_bytes", 0),
        cached_bytes=sum(e.data["num_bytes"] for e in log if e.kind == "cached"),
        recomputed_blocks=num_computed,
        injected_blocks=num_injected,
        mask_ratio=start["mask_ratio"],
        predicted_db=to_db(mse) if num_injected and mse > 0 else None,
        finished_by="device" if not num_injected else "mixed" if num_computed else "stream",
        fetch_error=_fetch_error(log),
        cache_error=next((f["reason"] for f in _faults(log, "cache")), None),
        num_damaged=len(damaged),
        damaged_shards=tuple(sorted({place[:2] for place in damaged})),
        canary_distance=start.get("canary_distance"),
        levels=levels,
    )


def _levels(log: list[Event], num_steps: int, num_blocks: int) -> tuple[tuple[int, ...], ...]:
    """A block that was executed again counts as it was the last time."""
    levels = [[COMPUTED] * num_blocks for _ in range(num_steps)]
    for event in log:
        if event.kind == "block":
            data: dict[str, Any] = event.data
            is_injected = data["mode"] == "inject"
            levels[data["step"]][data["block"]] = data["level"] if is_injected else COMPUTED
    return tuple(tuple(row) for row in levels)


def _damaged(log: list[Event]) -> set[tuple[int, int, int, int]]:
    """(block, component, level, index) of refused chunks; -1, -1 where the codec refuses a shard.

    A chunk that is refused twice is one, and so is a shard that is refused on top of its chunks.
    """
    faults = _faults(log, "decode")
    places = {(f["block"], f["component"], f["level"], f["index"]) for f in faults}
    bad_chunks = {place[:2] for place in places if place[2] >= 0}
    return {place for place in places if place[2] >= 0 or place[:2] not in bad_chunks}


def _faults(log: list[Event], source: str) -> list[dict[str, Any]]:
    return [e.data for e in log if e.kind == "fault" and e.data["source"] == source]


def _fetch_error(log: list[Event]) -> str | None:
    """The final fault, or one of the fetches after which no byte came until the edit was over."""
    reason: str | None = None
    for event in log:
        if event.kind == "fault" and event.data["is_final"]:
            return str(event.data["reason"])
        if event.kind == "fault" and event.data["source"] == "fetch":
            reason = event.data["reason"]
        elif event.kind == "fetch_bytes":
            reason = None
    return reason
