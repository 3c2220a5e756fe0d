"""`buffer`: the level that the buffer allows, without any estimate of throughput.

Source: BOLA (Spiteri, Urgaonkar, Sitaraman, INFOCOM 2016), equation 11: of the levels m with size
S and utility v, the one with the largest (V (v + g) - Q) / S, Q being the buffer.
"""

from __future__ import annotations

import math

from sakura.play.plan import Decision
from sakura.play.policy.base import Offer, View
from sakura.play.policy.stream import stream

GAMMA = 1.0
"""g: how much more the lowest level is worth than nothing."""
MIN_BUFFER_SHARE, MAX_BUFFER_SHARE = 0.05, 0.5
"""Of the execution that is left: the lowest level below the first, the highest above the second."""


class BufferPolicy:
    """Streams at the level that the buffer allows; never below the level that keeps the floor."""

    name = "buffer"
    is_streaming = True
    is_patient = True
    chooses_levels = True

    def decide(self, view: View) -> Decision:
        """Inject or wait."""
        return stream(view)

    def choose_level(self, offer: Offer) -> int:
        """By the buffer; the floor's level where times are not known yet."""
        sizes = [max(1, size) for size in offer.level_bytes]
        utilities = [math.log(size / sizes[0]) for size in sizes]
        if offer.play_s is None or utilities[-1] == 0:
            return offer.floor_level
        # The buffer at which the score of the highest level passes that of the one below it, and
        # of the lowest that of nothing, lie at the shares above.
        highest_s = MAX_BUFFER_SHARE * offer.play_s
        weight_s = max(highest_s - MIN_BUFFER_SHARE * offer.play_s, 1e-9)
        weight_s /= utilities[-1] + GAMMA
        scores = [
            (weight_s * (utility + GAMMA) - offer.buffer_s) / size
            for utility, size in zip(utilities, sizes, strict=True)
        ]
        return max(offer.floor_level, max(range(len(scores)), key=scores.__getitem__))
