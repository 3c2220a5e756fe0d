"""`sakura`: inject as soon as the predicted error allows, compute until then, hardly ever wait."""

from __future__ import annotations

from sakura.play.plan import Decision, fits
from sakura.play.policy.base import Offer, View


class SakuraPolicy:
    """The product's own policy; the rule is in docs/decisions/0003-never-wait.md."""

    name = "sakura"
    is_streaming = True
    is_patient = False
    chooses_levels = False

    def decide(self, view: View) -> Decision:
        """Inject where the error budget allows it; else wait if that surely pays; else compute."""
        if view.is_dropped:
            return Decision("inject", "this step is injected already")
        gain = (view.num_blocks - view.block) / view.num_blocks
        if view.has_state and fits(view.cost, gain, view.later_costs, view.budget):
            return Decision("inject", f"error {view.cost:.1e} fits in {view.budget:.1e}")
        if view.wait_left_s is not None:
            if view.wait_left_s > 0 and view.can_arrive:
                return Decision("wait", "still worth it", view.wait_left_s)
            return Decision("compute", "waited long enough")
        wait = view.wait
        if wait is not None and view.can_arrive and wait.pays:
            reason = (
                f"{wait.arrival_s * 1e3:.1f} ms away, computing costs {wait.saving_s * 1e3:.1f} ms"
            )
            return Decision("wait", reason, wait.timeout_s)
        if not view.has_state:
            return Decision("compute", "no state yet")
        return Decision("compute", f"error {view.cost:.1e} does not fit in {view.budget:.1e}")

    def choose_level(self, offer: Offer) -> int:
        """All of them; never asked."""
        return offer.top_level
