"""What every policy does. A policy is done when its subclass of PolicyConformance passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, product

import pytest

from sakura.bench.simulate import Scene, SimResult, simulate
from sakura.play.plan import Haste, Wait
from sakura.play.policy import Offer, Policy, View
from sakura.store.trace import Trace
from tests.bench.scenes import LINKS, make_scene

SOON = Wait(arrival_s=0.001, full_s=0.01, active_s=0.003, num_blocks=6)
LATE = Wait(arrival_s=0.5, full_s=0.01, active_s=0.003, num_blocks=6)
HASTE = Haste(left_s=0.05, rest_s=0.2, step_saving_s=0.02)
AMPLE = Haste(left_s=9.0, rest_s=0.2, step_saving_s=0.02)


def views() -> Iterator[View]:
    """What a policy can come to see, every combination."""
    states = [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]
    waits = [(None, None), (SOON, None), (LATE, None), (None, 0.001), (None, 0.0), (None, -1e-6)]
    for state, is_dropped, can_arrive, cost, wait, haste in product(
        states, (False, True), (False, True), (0.0, 1e-5, 1e-3), waits, (None, HASTE, AMPLE)
    ):
        yield View(
            step=1,
            block=2,
            num_blocks=6,
            is_dropped=is_dropped,
            has_state=state[0],
            is_complete=state[1],
            can_arrive=can_arrive,
            cost=cost if state[0] else math.inf,
            later_costs=(1e-5, 2e-5),
            budget=1e-4,
            wait=wait[0],
            wait_left_s=wait[1],
            is_ready=state[2],
            now_s=0.1,
            haste=haste,
        )


OFFERS = [
    Offer(sizes, tuple(10 * size for size in sizes), floor, rate_bps, buffer_s, play_s)
    for sizes, floor, rate_bps, buffer_s, play_s in product(
        [(100,), (100, 250, 900), (0, 0, 50), (0, 0, 0)],
        [0],
        [None, 0.0, 1e3, 1e12],
        [0.0, 0.1, 1e3],
        [None, 0.0, 0.3],
    )
] + [Offer((10, 20, 30), (10, 20, 30), floor, 1e5, 0.1, 0.3) for floor in (1, 2)]


class PolicyConformance:
    """Subclass it, and provide the fixture `policy`; the last attributes say what is promised."""

    keeps_floor = True
    """What it injects stays inside the error budget, as long as bytes come."""
    never_goes_back = True
    """A step that was begun with injecting is never computed again."""
    is_patient = False
    """Waits for as long as bytes come, be it one a second."""

    @pytest.fixture
    def policy(self) -> Policy:
        raise NotImplementedError

    def play(self, policy: Policy, scene: Scene) -> SimResult:
        """Run a scene; the oracle needs a plan for each."""
        return simulate(scene, policy)

    def skip_days(self, name: str) -> None:
        if self.is_patient and name == "one byte a second":
            pytest.skip("it would wait for days")

    def test_it_has_a_name(self, policy: Policy) -> None:
        assert policy.name.isidentifier() and policy.name == policy.name.lower()

    def test_every_answer_has_a_reason_and_is_the_same_again(self, policy: Policy) -> None:
        for view in views():
            decision = policy.decide(view)
            assert decision.action in ("inject", "compute", "wait")
            assert decision.reason
            assert policy.decide(view) == decision

    def test_it_waits_only_for_what_can_come_and_says_how_long(self, policy: Policy) -> None:
        for view in views():
            decision = policy.decide(view)
            assert (decision.timeout_s > 0) == (decision.action == "wait"), view
            if decision.action == "wait":
                assert policy.is_streaming
                assert view.can_arrive or not policy.chooses_levels

    def test_levels_exist_and_keep_the_floor(self, policy: Policy) -> None:
        for offer in OFFERS:
            assert offer.floor_level <= policy.choose_level(offer) <= offer.top_level

    @pytest.mark.parametrize("name", LINKS)
    def test_every_edit_ends_and_its_log_is_whole(self, policy: Policy, name: str) -> None:
        self.skip_days(name)
        scene = make_scene(LINKS[name])
        result = self.play(policy, scene)
        report, log = result.report, list(result.events)
        assert log[0].kind == "run_start" and log[-1].kind == "run_end"
        assert all(a.t_s <= b.t_s for a, b in pairwise(log))
        num_blocks = scene.bundle.num_steps * scene.bundle.num_blocks
        assert report.recomputed_blocks + report.injected_blocks == num_blocks
        fastest_s = num_blocks * min(*scene.device.compute_s, *scene.device.inject_s)
        assert report.latency_s >= fastest_s - 1e-9
        executed = [e for e in log if e.kind == "block"]
        if self.never_goes_back:
            assert len(executed) == num_blocks
        total_s = sum(e.t_s - e.data["start_s"] for e in executed) + report.stall_s
        assert report.latency_s == pytest.approx(total_s)

    @pytest.mark.parametrize("name", LINKS)
    def test_the_floor_is_kept(self, policy: Policy, name: str) -> None:
        if not self.keeps_floor:
            pytest.skip(f"{policy.name} promises no floor")
        self.skip_days(name)
        scene = make_scene(LINKS[name])
        predicted_db = self.play(policy, scene).report.predicted_db
        assert predicted_db is None or predicted_db >= scene.floor_db - 1e-6

    def test_a_dead_link_changes_nothing(self, policy: Policy) -> None:
        dead = Trace((0.0, 1e-9), (1.0, 0.0), "dead", duration_s=1.0)
        report = self.play(policy, make_scene(dead, loop=False)).report
        assert report.injected_blocks == 0
        assert report.num_bytes == 0
