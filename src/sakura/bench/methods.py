"""The three ways to make an edit that the demo compares, each run once per call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from sakura.codec import CodecProfile
from sakura.errors import StoreError
from sakura.events import Event
from sakura.models.base import Adapter, Request, Template

if TYPE_CHECKING:
    from sakura.play.player import EditResult

Listener = Callable[[Event], None]

POLICIES = {"uncompressed": "wait", "sakura": "sakura"}
"""Policy of each method that streams; naive streaming waits for every shard."""


@dataclass(frozen=True, slots=True)
class Job:
    """One edit to make.

    Attributes:
        template: its public part, as it was packed.
        request: its private part.
        urls: by streaming method, where its bundle is.
        floor_db: fidelity to keep against uncompressed state.
        profile: codec profile of SAKURA's bundle; None for the one that ships.
    """

    template: Template
    request: Request
    urls: dict[str, str]
    floor_db: float = 40.0
    profile: CodecProfile | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One edit that was made.

    Attributes:
        result: picture, report and event log; the log begins when the bundle is open.
        open_s: before the request, when the user opens the template: head, model check,
            connections.
        num_bytes: fetched, the head included.
        open_error: why there was no bundle, and the device made the edit alone; or None.
    """

    result: EditResult
    open_s: float = 0.0
    num_bytes: int = 0
    open_error: str | None = None

    @property
    def latency_s(self) -> float:
        return self.result.report.latency_s


def run_method(adapter: Adapter, job: Job, method: str, listener: Listener) -> Attempt:
    """Make an edit; on the device alone where the bundle cannot be opened.

    The player's threads and connections are its own and end with it.
    """
    from sakura.play import Player, PlayerOptions, edit_on_device, open

    if method not in POLICIES:
        return Attempt(edit_on_device(adapter, job.template, job.request, listener))
    start_s = time.monotonic()
    try:
        bundle = open(job.urls[method])
    except StoreError as error:
        open_s = time.monotonic() - start_s
        result = edit_on_device(adapter, job.template, job.request, listener)
        return Attempt(result, open_s, open_error=str(error))
    profile = job.profile if method == "sakura" else None
    options = PlayerOptions(policy=POLICIES[method], floor_db=job.floor_db, profile=profile)
    with Player(adapter, bundle, options, listener=listener) as player:
        request = job.request
        result = player.edit(request.reference, request.prompt, request.seed, request.mask)
        open_s = time.monotonic() - start_s - result.report.latency_s
    return Attempt(result, open_s, result.report.num_bytes + bundle.head_bytes)


def measure_step_s(adapter: Adapter, job: Job, num_edits: int = 2) -> float:
    """Seconds of one on-device step with all tokens: the median over a few edits."""
    from sakura.play import edit_on_device

    durations_s = [
        event.t_s - event.data["start_s"]
        for _ in range(num_edits)
        for event in edit_on_device(adapter, job.template, job.request).events.of("step")
    ]
    return median(durations_s)


def median_attempt(attempts: list[Attempt]) -> Attempt:
    """The attempt with the median latency, the faster of the middle two."""
    ranked = sorted(attempts, key=lambda attempt: attempt.latency_s)
    return ranked[(len(ranked) - 1) // 2]
