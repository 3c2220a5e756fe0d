"""`oracle`: follows a plan that was made with the link's future known. Simulation only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sakura.play.plan import Decision
from sakura.play.policy.base import Offer, View

SLACK_S = 1e-9
"""Added to a wait, so that rounding does not end it before what it is for."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """How to run one step.

    Args:
        prefix: blocks to compute with all tokens; the rest is injected.
        inject_s: when to begin to inject, in seconds since the edit began.
    """

    prefix: int
    inject_s: float


class OraclePolicy:
    """Computes, waits and injects as planned.

    Args:
        steps: one plan for each step.
        level: fetch shard after shard up to this level; None for base layers first, then all
            refinements.
    """

    name = "oracle"
    is_streaming = True
    is_patient = True

    def __init__(self, steps: Sequence[StepPlan], level: int | None = None) -> None:
        self._steps, self._level = tuple(steps), level
        self.chooses_levels = level is not None

    def decide(self, view: View) -> Decision:
        """What the plan says; it never asks for what is not there."""
        plan = self._steps[view.step]
        if view.is_dropped:
            return Decision("inject", "this step is injected already")
        if view.block < plan.prefix:
            return Decision("compute", f"planned until block {plan.prefix}")
        left_s = plan.inject_s - view.now_s
        if left_s > 0:
            return Decision("wait", f"planned for {left_s * 1e3:.1f} ms", left_s + SLACK_S)
        return Decision("inject", "planned")

    def choose_level(self, offer: Offer) -> int:
        """The plan's level."""
        return offer.top_level if self._level is None else self._level
