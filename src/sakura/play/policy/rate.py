"""`rate`: the level that the measured throughput carries, as the throughput rule of video players.

Source: the rule of dash.js and hls.js, "the highest rate below 0.9 of the estimate".
"""

from __future__ import annotations

from sakura.play.plan import Decision
from sakura.play.policy.base import Offer, View
from sakura.play.policy.stream import stream
from sakura.units import BITS_PER_BYTE

CAUTION = 0.9


class RatePolicy:
    """Streams at the highest level at which all that is left arrives while the device would still
    be computing; never below the level that keeps the floor.
    """

    name = "rate"
    is_streaming = True
    is_patient = True
    chooses_levels = True

    def decide(self, view: View) -> Decision:
        """Inject or wait."""
        return stream(view)

    def choose_level(self, offer: Offer) -> int:
        """By throughput; the floor's level until one is known."""
        if offer.rate_bps is None or offer.play_s is None:
            return offer.floor_level
        most = CAUTION * offer.rate_bps * offer.play_s / BITS_PER_BYTE
        fitting = [level for level, rest in enumerate(offer.rest_bytes) if rest <= most]
        return max(offer.floor_level, *fitting, 0)
