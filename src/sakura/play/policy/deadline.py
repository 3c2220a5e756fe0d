"""`deadline`: the highest fidelity that is ready in time, and never less than the floor allows."""

from __future__ import annotations

from sakura.play.plan import Decision, is_in_time
from sakura.play.policy.base import Offer, View
from sakura.play.policy.sakura import SakuraPolicy


class DeadlinePolicy:
    """Computes for as long as the deadline permits, because computing costs no fidelity; from then
    on it does what `sakura` does, and without a deadline that is all it does.
    """

    name = "deadline"
    is_streaming = True
    is_patient = False
    chooses_levels = False

    def __init__(self) -> None:
        self._hasty = SakuraPolicy()

    def decide(self, view: View) -> Decision:
        """Compute if later steps can still save the time that is missing; else as `sakura`."""
        haste = view.haste
        if view.is_dropped or view.wait_left_s is not None or haste is None:
            return self._hasty.decide(view)
        gain = (view.num_blocks - view.block) / view.num_blocks
        if is_in_time(haste, view.cost / gain, view.later_costs, view.budget):
            return Decision("compute", f"{haste.left_s * 1e3:.0f} ms are enough for better ones")
        return self._hasty.decide(view)

    def choose_level(self, offer: Offer) -> int:
        """All of them; never asked."""
        return offer.top_level
