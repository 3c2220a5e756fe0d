"""What players of video do: a block is injected once its state is there at the level that was
chosen for it, and is waited for until then.
"""

from __future__ import annotations

import math

from sakura.play.plan import Decision
from sakura.play.policy.base import View


def stream(view: View) -> Decision:
    """Inject what is there as chosen; wait as long as anything can come; then what there is."""
    if view.is_ready:
        return Decision("inject", "the state is there as chosen")
    if view.can_arrive:
        return Decision("wait", "the state is not there as chosen", math.inf)
    if view.is_complete:
        return Decision("inject", "nothing better will come")
    return Decision("compute", "the state will not come")
