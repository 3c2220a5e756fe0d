"""The fastest edit that a scene allows to whoever knows the link's future.

Computed in two parts. First the link is run with nothing executed, which says when each layer would
be decoded; executing hardly changes that, because what is fetched follows from the link. Then a
dynamic program over the steps finds, for every step, how many blocks to compute and when to begin
to inject, such that the edit is done soonest and its predicted error stays inside the budget. The
rules are those of the player: a block is injected only with its main component decoded, and a step
that injects goes on to its end. Waiting between injected blocks is left out: waiting as long before
the first of them brings every block at least as much state. The plan is then played like any other
policy.

`ideal_s` is the same program over a link that carries layer after layer at its full rate from the
first round trip on: no player that fetches in this order can be sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.simulate import Scene, SimResult, Stage, simulate
from sakura.play.downloads import Limits
from sakura.play.ledger import free_level
from sakura.play.levels import floor_level
from sakura.play.plan import ErrorModel, Layer
from sakura.play.policy import OraclePolicy, StepPlan
from sakura.play.policy.sakura import SakuraPolicy
from sakura.play.ranges import FetchList

Array = NDArray[Any]

SLACK_S = 1e-8
"""A layer counts as decoded so much later, so that rounding cannot make a plan miss it."""
MOST_LABELS = 60
"""Ways to have come to a step that are followed up; if there are more, the dearer ones between are
left out, which can make a plan slower, never wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """What is decoded when: layer k at `times_s[k]`, rising."""

    times_s: Array
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to run every step, when the edit is done, and its predicted error."""

    steps: tuple[StepPlan, ...]
    latency_s: float
    error: float


@dataclass(frozen=True, slots=True)
class _Label:
    """One way to have come to a step."""

    time_s: float
    error: float
    steps: tuple[StepPlan, ...] = ()


class _Costs:
    """Predicted error of every (step, block) as layers are decoded; infinite without its state.

    Attributes:
        times_s: (K,) when the next layers are decoded.
        costs_KSB: (K + 1, S, B) error with the first k of them.
    """

    def __init__(self, model: ErrorModel, levels_BC: Array, arrivals: Arrivals) -> None:
        levels, rows = levels_BC.copy(), []
        main_SB = (model.share_SBC * model.distortion_BCL[..., 0]).argmax(-1)
        for layer in (None, *arrivals.layers):
            if layer is not None:
                levels[layer[:2]] = max(levels[layer[:2]], layer[2])
            index = (levels + 1)[..., None]
            distortion = np.take_along_axis(model.distortion_BCL, index, -1)[..., 0]
            cost_SB = (model.share_SBC * distortion).sum(-1)
            has_main = levels[np.arange(len(levels)), main_SB] >= 0
            rows.append(np.where(has_main, cost_SB, np.inf))
        self.times_s = arrivals.times_s + SLACK_S
        self.costs_KSB = np.array(rows)

    def spent(self, step: int, first: int, starts_UB: Array) -> Array:
        """Error (U,) of injecting blocks `first` and later of a step at these times each."""
        known = np.searchsorted(self.times_s, starts_UB, "right")
        blocks = np.arange(first, first + starts_UB.shape[1])
        total: Array = self.costs_KSB[known, step, blocks].sum(-1)
        return total


def best_plan(scene: Scene, arrivals: Arrivals, most_s: float = np.inf) -> Plan | None:
    """The plan that is done soonest inside the budget; None if none is done within `most_s`."""
    model = scene.error_model()
    costs = _Costs(model, first_levels(scene), arrivals)
    labels, num_steps = [_Label(0.0, 0.0)], scene.bundle.num_steps
    least_s = min(sum(scene.device.inject_s), sum(scene.device.compute_s))
    for step in range(num_steps):
        ways = [way for label in labels for way in _ways(scene, costs, step, label)]
        latest_s = most_s + SLACK_S - (num_steps - step - 1) * least_s
        labels = _best(ways, model.budget, latest_s)
        if not labels:
            return None
    return Plan(labels[0].steps, labels[0].time_s, labels[0].error)


def arrivals_of(scene: Scene, policy: OraclePolicy) -> Arrivals:
    """When each layer is decoded if nothing is executed until the device would be done."""
    stage = Stage(scene, policy)
    stage.exchange.start()
    stage.clock.pass_until(scene.device_s)
    decodes = [(event.t_s, event.data) for event in stage.log.of("decode")]
    layers = tuple((d["block"], d["component"], d["level"]) for _, d in decodes)
    return Arrivals(np.array([time_s for time_s, _ in decodes]), layers)


def ideal_arrivals(scene: Scene, is_whole: bool = False) -> Arrivals:
    """The same on a link that wastes nothing, in the order of a fetch list."""
    bundle, link = scene.bundle, scene.link
    fetch_list = FetchList(bundle.head, first_levels(scene), bundle.opened_bytes, is_whole=is_whole)
    opened = {chunk.layer for chunk in fetch_list.opened}
    trace, half_s = link.trace, link.rtt_s / 2
    before = trace.bytes_by(scene.start_s + half_s, link.loop)  # the request has come up
    sizes = np.diff(fetch_list.ends, prepend=0)
    times_s, num_bytes, busy_s = [], 0.0, 0.0
    for layer, size in zip(fetch_list.layers, sizes.tolist(), strict=True):
        num_bytes += 0 if layer in opened else size
        came_s = trace.time_of(before + num_bytes, link.loop) - scene.start_s + half_s
        first_s = 0.0 if layer in opened or not size else max(came_s, link.rtt_s)
        busy_s = max(busy_s, first_s) + size * scene.device.byte_s
        times_s.append(busy_s)
    return Arrivals(np.array(times_s), tuple(fetch_list.layers))


def play_oracle(scene: Scene) -> SimResult:
    """The oracle's edit: the best over the orders and range sizes that the player could use."""
    device = StepPlan(scene.bundle.num_blocks, 0.0)
    best = simulate(scene, OraclePolicy((device,) * scene.bundle.num_steps))
    most_s = simulate(scene, SakuraPolicy()).report.latency_s  # a better plan is at least as soon
    floor = floor_level(scene.error_model())
    for level in (None, floor):
        for limits in (scene.limits, _careful(scene.limits)):
            chosen = replace(scene, limits=limits)
            arrivals = arrivals_of(chosen, OraclePolicy((), level))
            plan = best_plan(chosen, arrivals, min(most_s, best.report.latency_s))
            if plan is not None:
                result = simulate(chosen, OraclePolicy(plan.steps, level))
                best = min(best, result, key=lambda each: each.report.latency_s)
    return best


def ideal_s(scene: Scene, most_s: float) -> float:
    """A bound on the latency of whoever fetches base layers first; see the module.

    Args:
        scene: where.
        most_s: latency that some policy reaches.
    """
    plan = best_plan(scene, ideal_arrivals(scene), most_s)
    return most_s if plan is None else plan.latency_s


def first_levels(scene: Scene) -> Array:
    """(B, C) levels that need no bytes."""
    manifest = scene.bundle.head.manifest
    levels = np.full((scene.bundle.num_blocks, manifest.num_components), -1)
    for shard in manifest.shards:
        levels[shard.block, shard.component] = free_level(shard)
    return levels


def _careful(limits: Limits) -> Limits:
    """Short ranges, few at once: what is needed first is not slowed by what is needed later."""
    return replace(limits, num_fetches=2, min_bytes=1024, first_bytes=4096)


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """Ways to run a step from one label, (U,) each."""

    label: _Label
    prefix: int
    starts_s: Array
    times_s: Array
    errors: Array


def _ways(scene: Scene, costs: _Costs, step: int, label: _Label) -> Iterator[_Ways]:
    """Every way to run a step that may be worth it."""
    device, num_blocks = scene.device, scene.bundle.num_blocks
    compute, inject = np.array(device.compute_s), np.array(device.inject_s)
    end_s = label.time_s + float(compute.sum())
    ends = np.array([end_s])
    yield _Ways(label, num_blocks, ends, ends, np.array([label.error]))
    for first in range(num_blocks):
        reach_s = label.time_s + float(compute[:first].sum())
        offsets = np.concatenate([[0.0], np.cumsum(inject[first:-1])])
        rest_s = float(inject[first:].sum())
        # Injecting later than now pays only as of an arrival before one of the blocks begins.
        starts = (costs.times_s[:, None] - offsets).ravel()
        later = starts[(starts > reach_s) & (starts + rest_s < end_s)]
        starts_s = np.concatenate([[reach_s], np.unique(later)])
        errors = label.error + costs.spent(step, first, starts_s[:, None] + offsets)
        yield _Ways(label, first, starts_s, starts_s + rest_s, errors)


def _best(ways: Sequence[_Ways], budget: float, latest_s: float) -> list[_Label]:
    """Of ways inside budget and time, those than which no other is both sooner and better."""
    times_s = np.concatenate([way.times_s for way in ways])
    errors = np.concatenate([way.errors for way in ways])
    order = np.lexsort((errors, times_s))
    order = order[(errors[order] <= budget) & (times_s[order] <= latest_s)]
    if not len(order):
        return []
    least = np.minimum.accumulate(errors[order])
    kept = order[np.concatenate([[True], errors[order][1:] < least[:-1]])]
    if len(kept) > MOST_LABELS:
        kept = kept[np.linspace(0, len(kept) - 1, MOST_LABELS).round().astype(int)]
    ends = np.cumsum([len(way.times_s) for way in ways])
    labels = []
    for index in kept.tolist():
        number = int(np.searchsorted(ends, index, "right"))
        way = ways[number]
        at = index - int(ends[number]) + len(way.times_s)
        steps = (*way.label.steps, StepPlan(way.prefix, float(way.starts_s[at])))
        labels.append(_Label(float(way.times_s[at]), float(way.errors[at]), steps))
    return labels
