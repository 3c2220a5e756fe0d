"""What will be decoded when, and what steps will cost by then. Pure.

Layers are taken to arrive in the order they are asked for, at the measured rate, and to be decoded
one after the other.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.play.ledger import Ledger
from sakura.play.plan import ErrorModel, Layer, fits
from sakura.play.ranges import FetchList
from sakura.units import BITS_PER_BYTE

Array = NDArray[Any]

CAUTION = 0.8
"""Part of the measured rate that later steps are planned with."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where the stream stands.

    Args:
        num_bytes: bytes of the fetch list that came or were passed over.
        num_layers: layers of the fetch list that are decoded or were passed over.
        rate_bps: what to expect; 0 where nothing comes or nothing is known.
        decode_s: the decoder's time for a layer.
    """

    num_bytes: int
    num_layers: int
    rate_bps: float
    decode_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A step that does not fit in the budget yet.

    Args:
        step: the step.
        block: its first block that would be injected.
        gain: part of the step that injecting saves.
        later_costs: predicted error of later steps.
        budget: error that is left to spend.
    """

    step: int
    block: int
    gain: float
    later_costs: tuple[float, ...]
    budget: float


class Forecast:
    """Costs of steps as a function of how many layers of the fetch list are decoded."""

    def __init__(self, model: ErrorModel, fetch_list: FetchList, ledger: Ledger) -> None:
        self._ledger, self._ends = ledger, fetch_list.ends
        self._layers = np.array(fetch_list.layers, np.intp).reshape(-1, 3)
        self._gains_SP = model.gains(fetch_list.layers)
        num_steps = len(self._gains_SP)
        self._start_S = np.array([ledger.rest_cost(step, 0) for step in range(num_steps)])
        self._costs_SP = self._costs_by_layer()
        self._given_up: set[tuple[int, int]] = set()
        self._is_lost_P = np.zeros(len(self._layers), bool)

    def give_up(self, shards: Set[tuple[int, int]]) -> None:
        """Nothing more of these (block, component) will be decoded; hearing of one again is free.

        Their missing layers lower no cost, and are nothing to wait for.
        """
        news = shards - self._given_up
        if not news:
            return
        self._given_up |= news
        block, component, level = self._layers.T
        for shard in news:
            is_missing = level > self._ledger.levels[shard]
            self._is_lost_P |= (block == shard[0]) & (component == shard[1]) & is_missing
        self._gains_SP[:, self._is_lost_P] = 0
        self._costs_SP = self._costs_by_layer()

    def later_costs(self, step: int, starts_s: Array, arrival: Arrival) -> tuple[float, ...]:
        """Predicted error of each step after `step`, which start in `starts_s` seconds each."""
        num_bytes = arrival.num_bytes + CAUTION * arrival.rate_bps / BITS_PER_BYTE * starts_s
        num_layers = np.searchsorted(self._ends, num_bytes, "right")
        if arrival.decode_s > 0:
            decodable = arrival.num_layers + starts_s / arrival.decode_s
            num_layers = np.minimum(num_layers, decodable.astype(np.intp))
        costs = self._costs_SP[np.arange(step + 1, len(self._costs_SP)), num_layers]
        return tuple(np.maximum(costs, 0).tolist())

    def _costs_by_layer(self) -> Array:
        """Predicted error of each whole step once the first 0, 1, 2, ... layers are decoded."""
        falls = np.cumsum(self._gains_SP, 1)
        costs: Array = self._start_S[:, None] - np.pad(falls, ((0, 0), (1, 0)))
        return costs

    def missing_layers(self, ask: Ask, ledger: Ledger) -> list[Layer]:
        """Layers that must be decoded before injecting fits, in the order they come.

        Empty where nothing ahead is enough.
        """
        costs_P = self._costs_ahead(ask, ledger)
        first, last = 0, len(costs_P)
        while first < last:
            middle = (first + last) // 2
            if fits(float(costs_P[middle]), ask.gain, ask.later_costs, ask.budget):
                last = middle
            else:
                first = middle + 1
        if first == len(costs_P):
            return []
        rows = self._layers[: first + 1][~self._is_lost_P[: first + 1]].tolist()
        return [
            (block, component, level)
            for block, component, level in rows
            if block >= ask.block and level > ledger.levels[block, component]
        ]

    def _costs_ahead(self, ask: Ask, ledger: Ledger) -> Array:
        """Predicted error of the asked step once the first 1, 2, ... layers are decoded."""
        block, component, level = self._layers.T
        missing = (block >= ask.block) & (level > ledger.levels[block, component])
        falls = np.cumsum(np.where(missing, self._gains_SP[ask.step], 0))
        costs: Array = np.maximum(ledger.rest_cost(ask.step, ask.block) - falls, 0)
        costs[: self._first_state(ask, ledger)] = np.inf
        return costs

    def _first_state(self, ask: Ask, ledger: Ledger) -> int:
        """Layers to skip until the main component of every asked block is decoded."""
        block, component, _ = self._layers.T
        first = 0
        for bare, main in ledger.missing_main(ask.step, ask.block):
            is_main = (block == bare) & (component == main)
            found = np.flatnonzero(is_main & ~self._is_lost_P)
            first = max(first, int(found[0]) if len(found) else len(block))
        return first
