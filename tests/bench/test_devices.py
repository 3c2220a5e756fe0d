"""Link scaling: what it promises, as equations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.bench.devices import DEFAULT_LIKE, StepCost, phone_step, scale_link
from sakura.errors import InputError
from sakura.store.trace import Trace

COSTS = st.builds(
    StepCost,
    compute_s=st.floats(1e-4, 1e3),
    state_bytes=st.floats(1e3, 1e12),
)


@given(mini=COSTS, phone=COSTS, rate_bps=st.floats(1e4, 1e10))
def test_fetching_over_computing_is_the_same_ratio(
    mini: StepCost, phone: StepCost, rate_bps: float
) -> None:
    scale = scale_link(mini, phone)
    scaled_bps = scale.trace(Trace.constant(rate_bps)).mean_bps
    here = (mini.state_bytes / scaled_bps) / mini.compute_s
    there = (phone.state_bytes / rate_bps) / phone.compute_s
    assert here == pytest.approx(there, rel=1e-9)


@given(mini=COSTS, phone=COSTS)
def test_the_trace_runs_as_far_during_a_step(mini: StepCost, phone: StepCost) -> None:
    scale = scale_link(mini, phone)
    trace = Trace((0.0, 2.0), (1e6, 2e6), duration_s=5.0)
    assert scale.trace(trace).duration_s / mini.compute_s == pytest.approx(5.0 / phone.compute_s)
    assert scale.rtt_s(0.04) / mini.compute_s == pytest.approx(0.04 / phone.compute_s)


def test_a_device_needs_no_scaling_to_itself() -> None:
    cost = StepCost(2.0, 5e6)
    scale = scale_link(cost, cost)
    assert (scale.rate, scale.time) == (1.0, 1.0)


def test_the_phone_is_the_one_of_the_notes() -> None:
    phone = phone_step(DEFAULT_LIKE)
    assert phone.state_bytes == 307_200 * 1024
    assert phone.compute_s == pytest.approx(11.8, abs=0.1)


@pytest.mark.parametrize("like", ["", "klein-4b", "klein-4b@toaster", "x@adreno-830"])
def test_an_unknown_profile_names_the_known_ones(like: str) -> None:
    with pytest.raises(InputError) as caught:
        phone_step(like)
    assert DEFAULT_LIKE in (caught.value.hint or "")


def test_a_step_that_costs_nothing_is_refused() -> None:
    with pytest.raises(InputError):
        scale_link(StepCost(0.0, 1.0), StepCost(1.0, 1.0))
