"""`wait`: naive streaming. Every block waits for its state, whatever computing it would take."""

from __future__ import annotations

import math

from sakura.play.plan import Decision
from sakura.play.policy.base import Offer, View


class WaitPolicy:
    """Inject every block, as soon as its state is there; compute only once nothing more comes."""

    name = "wait"
    is_streaming = True
    is_patient = True
    chooses_levels = False

    def decide(self, view: View) -> Decision:
        """Inject, or wait as long as bytes can still arrive."""
        if view.is_complete:
            return Decision("inject", "the state is there")
        if view.can_arrive:
            return Decision("wait", "the state is not there", math.inf)
        return Decision("compute", "the state will not come")

    def choose_level(self, offer: Offer) -> int:
        """All of them; never asked."""
        return offer.top_level
