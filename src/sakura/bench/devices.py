"""Links scaled to a device that is not here: a mini model on this machine stands for a phone's.

Everything about streaming is decided by one ratio: seconds to fetch a step's state over seconds
to compute a step on the device. A mini model has less state per step and computes a step faster,
so on a link of the phone's rate the ratio would be another and the demo would show nothing about
phones. The link is therefore changed until the ratio is the phone's:

    rate: (mini state bytes / (rate * throughput)) / mini step seconds
          = (phone state bytes / throughput) / phone step seconds
    time: a recorded second of the trace passes while the same share of an edit is computed, so the
          time axis and the round trip shrink by mini step seconds / phone step seconds.

Bytes are those of the uncompressed state in bf16, so what a codec saves shows up as saved. Pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sakura.errors import InputError
from sakura.store.trace import Trace


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A phone-class model in mask mode.

    Attributes:
        name: for reports.
        token_bytes: K/V of one token at one step, all blocks, in bf16.
        num_tokens: of the canvas.
        step_flop: floating-point operations of one step with all tokens computed.
    """

    name: str
    token_bytes: int
    num_tokens: int
    step_flop: float


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """What a device sustains on large matrix products, in operations per second."""

    name: str
    flop_per_s: float


MODELS = {
    # FLUX.2-klein-4B at 512 x 512: 25 blocks x K and V x 3072 wide x 2 bytes; one cached step.
    "klein-4b": ModelProfile("FLUX.2-klein-4B, 512 x 512", 307_200, 1024, 10.6e12),
}
DEVICES = {
    # ggml OpenCL on Snapdragon 8 Elite, matrix products of FLUX.2-klein-4B at 1024 x 1024.
    "adreno-830": DeviceProfile("Adreno 830", 0.90e12),
}
DEFAULT_LIKE = "klein-4b@adreno-830"


@dataclass(frozen=True, slots=True)
class StepCost:
    """One denoising step with all tokens: its compute time, and the raw state of all its tokens.

    The same mask ratio is meant on both sides, so it cancels and is left out.
    """

    compute_s: float
    state_bytes: float


@dataclass(frozen=True, slots=True)
class LinkScale:
    """What to multiply a link by: `rate` its throughput, `time` its time axis and round trip."""

    rate: float
    time: float
    like: str = ""
    mini_step_s: float = 0.0
    phone_step_s: float = 0.0

    def trace(self, trace: Trace) -> Trace:
        """The trace as the stand-in model has to meet it."""
        return trace.scaled(rate=self.rate, time=self.time)

    def rtt_s(self, rtt_s: float) -> float:
        """A round trip that takes the same share of a step."""
        return rtt_s * self.time

    def to_json(self) -> dict[str, float | str]:
        """For a report."""
        return asdict(self)


def phone_step(like: str) -> StepCost:
    """Cost of a phone's step.

    Args:
        like: MODEL@DEVICE, for instance `klein-4b@adreno-830`.

    Raises:
        InputError: an unknown model or device.
    """
    model_name, _, device_name = like.partition("@")
    if model_name not in MODELS or device_name not in DEVICES:
        known = ", ".join(f"{m}@{d}" for m in MODELS for d in DEVICES)
        raise InputError(f"unknown profile {like!r}", hint=f"known: {known}")
    model, device = MODELS[model_name], DEVICES[device_name]
    return StepCost(model.step_flop / device.flop_per_s, model.token_bytes * model.num_tokens)


def scale_link(mini: StepCost, phone: StepCost, like: str = "") -> LinkScale:
    """The link on which `mini` meets what `phone` meets on the recorded one.

    Raises:
        InputError: a cost that is not positive.
    """
    for cost in (mini, phone):
        if not (cost.compute_s > 0 and cost.state_bytes > 0):
            raise InputError(f"a step costs time and bytes, found {cost}")
    time = mini.compute_s / phone.compute_s
    rate = (mini.state_bytes / phone.state_bytes) / time
    return LinkScale(rate, time, like, mini.compute_s, phone.compute_s)
