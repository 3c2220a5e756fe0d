"""Edits under a simulated clock: the player's own exchange, session, policies, step loop and
report, with a fluid link, a decoder that only takes time and blocks that only take time.

Nothing is planned here. What is simulated is what the player leaves to threads and to the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from sakura.bench.sim_clock import SimClock, SimMeeting
from sakura.bench.sim_device import DeviceModel, SimRun, SimStore
from sakura.bench.sim_link import FluidLink
from sakura.bench.sim_workers import SimDecoder, SimFetcher
from sakura.errors import InputError
from sakura.events import EventLog
from sakura.format import Head
from sakura.play.deadlines import BlockTimes
from sakura.play.downloads import Limits
from sakura.play.exchange import Exchange
from sakura.play.execute import execute
from sakura.play.opened import Opened
from sakura.play.plan import ErrorModel, error_model
from sakura.play.policy import Policy
from sakura.play.report import RunReport, make_report
from sakura.play.retry import Retry
from sakura.play.session import Session, Setting
from sakura.store.link import LinkModel

Array = NDArray[Any]

NUM_TICKS, MOST_TICK_S = 100, 0.1
"""Of an edit: how often bytes that trickle are heard of; a fetch is never taken for silent."""


@dataclass(frozen=True, slots=True, eq=False)
class SimBundle:
    """A bundle of which nothing but its head is needed.

    Args:
        head: manifest and data start.
        step_basis: (B, 2, S, C) of its codec profile.
        opened_bytes: first bytes of the object that came with the head.
        size: how many times the state of the manifest's geometry it holds, see `enlarged`.
    """

    head: Head
    step_basis: Array
    opened_bytes: int = 0
    size: float = 1.0

    @property
    def num_steps(self) -> int:
        return self.head.manifest.schedule.num_steps

    @property
    def num_blocks(self) -> int:
        return self.head.manifest.geometry.num_blocks


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Where edits take place.

    Args:
        bundle: what is streamed.
        link: over what.
        device: to where.
        floor_db: PSNR that the edit should keep against uncompressed state.
        start_s: how far into the trace the edit begins.
        deadline_s: when it should be done; None for soon.
        limits: see `Limits`.
        retry: see `Retry`.
    """

    bundle: SimBundle
    link: LinkModel
    device: DeviceModel
    floor_db: float = 40.0
    start_s: float = 0.0
    deadline_s: float | None = None
    limits: Limits = field(default_factory=Limits)
    retry: Retry = field(default_factory=Retry)

    def __post_init__(self) -> None:
        if len(self.device.compute_s) != self.bundle.num_blocks:
            raise InputError(
                f"the device has {len(self.device.compute_s)} blocks, "
                f"the bundle {self.bundle.num_blocks}"
            )

    def error_model(self) -> ErrorModel:
        """What injecting costs."""
        return error_model(self.bundle.head.manifest, self.bundle.step_basis, self.floor_db)

    @property
    def device_s(self) -> float:
        """What the edit takes on the device alone."""
        return self.device.edit_s(self.bundle.num_steps)


@dataclass(frozen=True, slots=True, eq=False)
class SimResult:
    """A simulated edit."""

    report: RunReport
    events: EventLog


class Stage:
    """One edit of a scene, set up and not begun.

    Args:
        scene: where it takes place.
        policy: who decides.
        times: block times of earlier edits on the device.
    """

    def __init__(self, scene: Scene, policy: Policy, times: BlockTimes | None = None) -> None:
        bundle, manifest = scene.bundle, scene.bundle.head.manifest
        self.scene, self.policy, self.clock = scene, policy, SimClock()
        self.log = EventLog(self.clock)
        self.store = SimStore(manifest, bundle.step_basis)
        num_warm, tick_s = scene.limits.num_fetches, min(MOST_TICK_S, scene.device_s / NUM_TICKS)
        link = FluidLink(self.clock, scene.link, num_warm, scene.start_s, tick_s)
        setting = Setting(
            head=bundle.head,
            model=scene.error_model(),
            policy=policy,
            levels_BC=self.store.levels,
            limits=scene.limits if policy.is_streaming else Limits(max_total_bytes=0),
            opened_bytes=bundle.opened_bytes,
            deadline_s=scene.deadline_s,
        )
        session = Session(setting, times or BlockTimes(bundle.num_blocks))
        self.fetcher = SimFetcher(self.clock, link, scene.retry)
        self.decoder = SimDecoder(self.clock, scene.device, manifest, self.store)
        self.shelf = None
        opened, meeting = Opened(bytes(bundle.opened_bytes)), SimMeeting(self.clock)
        self.exchange = Exchange(session, self, self.log, opened, meeting)

    def play(self) -> SimResult:
        """Run the edit."""
        scene, bundle = self.scene, self.scene.bundle
        self.log.add(
            "run_start",
            policy=self.policy.name,
            task=bundle.head.manifest.task,
            num_steps=bundle.num_steps,
            num_blocks=bundle.num_blocks,
            mask_ratio=bundle.head.manifest.token_mask.ratio,
            floor_db=scene.floor_db,
            head_bytes=bundle.opened_bytes,
        )
        if self.policy.is_streaming:
            self.exchange.start()
        run = SimRun(self.clock, scene.device)
        execute(run, self.exchange, self.log, bundle.num_steps, bundle.num_blocks)
        latency_s = self.log.now()
        self.exchange.finish()
        self.log.add("run_end", latency_s=latency_s)
        return SimResult(make_report(self.log), self.log)


def simulate(scene: Scene, policy: Policy, times: BlockTimes | None = None) -> SimResult:
    """Run one edit; see `Stage`."""
    return Stage(scene, policy, times).play()
