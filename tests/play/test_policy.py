"""What each policy answers to what it sees."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sakura.errors import InputError
from sakura.play.plan import Wait
from sakura.play.policy import POLICIES, View, create_policy

VIEW = View(
    step=2,
    block=0,
    num_blocks=6,
    is_dropped=False,
    has_state=True,
    is_complete=True,
    can_arrive=True,
    cost=1e-5,
    later_costs=(1e-5,),
    budget=1e-4,
)
DEAR = replace(VIEW, cost=1e-3)
SOON = Wait(arrival_s=0.001, full_s=0.01, active_s=0.003, num_blocks=6)
LATE = Wait(arrival_s=0.5, full_s=0.01, active_s=0.003, num_blocks=6)


def action(name: str, view: View) -> str:
    decision = create_policy(name).decide(view)
    assert decision.reason
    return decision.action


def test_sakura_injects_what_fits_and_computes_what_does_not() -> None:
    assert action("sakura", VIEW) == "inject"
    assert action("sakura", DEAR) == "compute"


def test_sakura_injects_no_state_of_which_nothing_came() -> None:
    assert action("sakura", replace(VIEW, has_state=False)) == "compute"


def test_sakura_never_goes_back_inside_a_step() -> None:
    assert action("sakura", replace(DEAR, is_dropped=True)) == "inject"


def test_sakura_leaves_the_budget_to_cheaper_steps() -> None:
    assert action("sakura", replace(VIEW, cost=6e-5, later_costs=(5e-5,))) == "compute"
    assert action("sakura", replace(VIEW, cost=6e-5, later_costs=(7e-5,))) == "inject"


def test_sakura_waits_only_if_that_surely_pays() -> None:
    assert action("sakura", replace(DEAR, wait=SOON)) == "wait"
    assert action("sakura", replace(DEAR, wait=LATE)) == "compute"
    assert action("sakura", replace(DEAR, wait=SOON, can_arrive=False)) == "compute"


def test_sakura_stops_waiting_in_time() -> None:
    decision = create_policy("sakura").decide(replace(DEAR, wait=SOON))
    assert 0 < decision.timeout_s <= 6 * SOON.full_s
    assert action("sakura", replace(DEAR, wait_left_s=0.001)) == "wait"
    assert action("sakura", replace(DEAR, wait_left_s=0.0)) == "compute"
    assert action("sakura", replace(DEAR, wait_left_s=0.001, can_arrive=False)) == "compute"
    assert action("sakura", replace(VIEW, wait_left_s=0.001)) == "inject"


def test_wait_waits_as_long_as_anything_can_come() -> None:
    missing = replace(VIEW, is_complete=False)
    assert create_policy("wait").decide(missing).timeout_s == math.inf
    assert action("wait", missing) == "wait"
    assert action("wait", replace(missing, wait_left_s=0.0)) == "wait"
    assert action("wait", replace(missing, can_arrive=False)) == "compute"
    assert action("wait", DEAR) == "inject"


def test_device_computes() -> None:
    assert action("device", VIEW) == "compute"
    assert [name for name in POLICIES if not create_policy(name).is_streaming] == ["device"]


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(InputError, match="nearest"):
        create_policy("nearest")
