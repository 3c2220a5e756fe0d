"""Mini adapter: equal to the stock transformer, exact capture and injection, clear refusals.

Weights are random: exactness does not depend on training. The bound 1e-5 on injection is the
target for float32.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sakura.errors import InputError
from sakura.grid import TokenGrid, TokenMask
from sakura.models.base import BlockState, Request, Template, full_compute
from sakura.models.mini import MiniAdapter
from sakura.models.mini_inputs import fit_reference, image_tokens, placement_of
from sakura.models.mini_net import MiniFlux2, canvas_ids, reference_ids

GRID = TokenGrid(16, 16, 8)
PLACEMENT = [8, 3, 8, 8]


def box(top: int, left: int, height: int, width: int) -> TokenMask:
    bits = np.zeros((16, 16), bool)
    bits[top : top + height, left : left + width] = True
    return TokenMask.from_bits(GRID, bits)


def random_net() -> MiniFlux2:
    torch.manual_seed(0)
    return MiniFlux2()


@pytest.fixture(scope="module")
def adapter() -> MiniAdapter:
    return MiniAdapter(random_net(), "0" * 64)


@pytest.fixture(scope="module")
def template() -> Template:
    image = np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8)
    return Template(image, box(8, 4, 6, 6), "face-swap", {"placement": PLACEMENT}, noise_seed=5)


@pytest.fixture(scope="module")
def request_() -> Request:
    return Request(np.random.default_rng(1).integers(0, 256, (100, 80, 3), np.uint8), seed=3)


@pytest.fixture(scope="module")
def captured(adapter, template, request_) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """State of the whole canvas, the attention mass, and the picture of a full compute."""
    run = adapter.prepare(template, request_)
    with adapter.capture(run) as recorder:
        for _ in full_compute(run, adapter.schedule, adapter.geometry):
            pass
    return recorder.states(), recorder.attention_mass(), run._latent_BNP.numpy()


def state(states: np.ndarray, block: int, step: int, tokens: np.ndarray) -> BlockState:
    return BlockState(*(states[block, kv, step][tokens] for kv in (0, 1)))


def test_full_step_equals_the_stock_forward(adapter, template, request_):
    run = adapter.prepare(template, request_)
    run.begin_step(0, active_only=False)
    net = adapter.net
    canvas = net.canvas_input(run._noisy_canvas(1.0), run._template_BNP, run._mask_N1[None])
    reference = net.reference_input(image_tokens(fit_reference(request_.reference)))
    ids = (canvas_ids(), reference_ids(tuple(PLACEMENT)))
    with torch.inference_mode():
        stock = random_net()(canvas, reference, torch.tensor([0]), torch.tensor([1.0]), ids)
        for block in range(adapter.geometry.num_blocks):
            run.run_block(block, None)
        hidden = run.tokens.hidden[:, 4:]
        transformer = net.transformer
        own = transformer.proj_out(transformer.norm_out(hidden, adapter.modulation(1.0).temb))
    torch.testing.assert_close(own, stock, rtol=0, atol=1e-5)


@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
@pytest.mark.parametrize("rotated", [False, True])
def test_injecting_the_own_capture_is_exact(adapter, template, request_, captured, prefix, rotated):
    states, _, latent = captured
    tokens = template.mask.cached[::-1].copy()  # any order of rows
    run = adapter.prepare(template, request_, tokens)
    for step in range(adapter.schedule.num_steps):
        run.begin_step(step, active_only=prefix == 0)
        for block in range(adapter.geometry.num_blocks):
            given = state(states, block, step, tokens)
            if rotated:
                given = BlockState(run.rotate_keys(given.keys), given.values, rotated=True)
            run.run_block(block, given if block >= prefix else None)
        run.end_step()
    error = np.abs(run._latent_BNP.numpy() - latent).max() / np.abs(latent).max()
    assert error <= 1e-5


def test_foreign_state_changes_the_edit(adapter, template, request_, captured):
    """Control of the test above: the injected state is really used."""
    states, _, latent = captured
    tokens = template.mask.cached
    run = adapter.prepare(template, request_, tokens)
    for step in range(adapter.schedule.num_steps):
        run.begin_step(step, active_only=True)
        for block in range(adapter.geometry.num_blocks):
            given = state(states, block, step, tokens)
            run.run_block(block, BlockState(given.keys, -given.values))
        run.end_step()
    assert np.abs(run._latent_BNP.numpy() - latent).max() / np.abs(latent).max() > 1e-3


def test_larger_user_mask_ignores_its_cached_rows(adapter, template, request_):
    """Rows of tokens that the user made active are dropped: their values cannot matter."""
    wider = Request(request_.reference, seed=3, mask=template.mask.dilate(1))
    tokens = template.mask.cached
    extra = np.isin(tokens, wider.mask.active)
    pictures = []
    for poison in (0.0, 1e3):
        run = adapter.prepare(template, wider, tokens)
        run.begin_step(0, active_only=True)
        keys = np.ones((len(tokens), 4, 48), np.float32)
        keys[extra] += poison
        for block in range(adapter.geometry.num_blocks):
            run.run_block(block, BlockState(keys, keys))
        run.end_step()
        pictures.append(run.image())
    np.testing.assert_array_equal(*pictures)


def test_observers_are_taken_away(adapter, template, request_):
    run = adapter.prepare(template, request_)
    with pytest.raises(KeyboardInterrupt), adapter.capture(run):
        raise KeyboardInterrupt
    assert all(processor.observer is None for processor in adapter.processors)


def test_attention_mass_is_a_squared_weight(captured, template):
    _, mass, _ = captured
    assert mass.shape == (6, 256)
    assert (mass >= 0).all()
    assert (mass.sum(1) <= 1).all()


def test_outside_the_mask_is_the_template(adapter, template, request_, captured):
    run = adapter.prepare(template, request_)
    picture = run.image()
    outside = ~np.kron(template.mask.bits, np.ones((8, 8), bool))
    np.testing.assert_array_equal(picture[outside], template.image[outside])


def test_seed_and_reference_matter_and_repeat(adapter, template, request_):
    def first_step(request: Request) -> np.ndarray:
        run = adapter.prepare(template, request)
        run.begin_step(0, active_only=False)
        for block in range(adapter.geometry.num_blocks):
            run.run_block(block, None)
        run.end_step()
        return run.image()

    other = Request(request_.reference[::-1].copy(), seed=3)
    base = first_step(request_)
    np.testing.assert_array_equal(base, first_step(request_))
    assert (base != first_step(Request(request_.reference, seed=4))).any()
    assert (base != first_step(other)).any()


def test_identity_tells_models_apart(adapter):
    torch.manual_seed(1)
    other = MiniAdapter(MiniFlux2(), "1" * 64).identity()
    own = adapter.identity()
    assert own.config_digest == other.config_digest
    distance = np.abs(own.canary - other.canary).max() / np.abs(own.canary).max()
    assert distance > 0.1
    np.testing.assert_array_equal(own.canary, MiniAdapter(adapter.net, "0" * 64).identity().canary)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": np.zeros((64, 64, 3), np.uint8)}, "expected .128, 128, 3."),
        ({"image": np.zeros((128, 128, 3), np.float32)}, "uint8"),
        ({"task": "upscale"}, "unknown task"),
        ({"conditioning": {"placement": [1, 2, 3]}}, "placement"),
        ({"conditioning": {"placement": "all"}}, "placement"),
    ],
)
def test_unusable_templates_are_refused(adapter, template, request_, change, words):
    fields = {n: getattr(template, n) for n in ("image", "mask", "task", "conditioning")}
    with pytest.raises(InputError, match=words):
        adapter.prepare(Template(**{**fields, **change}), request_)


def test_unusable_requests_are_refused(adapter, template, request_):
    with pytest.raises(InputError, match="unknown prompt"):
        adapter.prepare(template, Request(request_.reference, prompt="a cat"))
    for seed in (-1, 1 << 64):
        with pytest.raises(InputError, match="out of range"):
            adapter.prepare(template, Request(request_.reference, seed=seed))
    with pytest.raises(InputError, match="does not cover"):
        adapter.prepare(template, Request(request_.reference, mask=box(0, 0, 2, 2)))


@pytest.mark.parametrize(
    ("task", "mask", "expected"),
    [
        ("face-swap", box(8, 5, 6, 6), (8, 4, 8, 8)),
        ("try-on", box(13, 4, 3, 8), (8, 4, 8, 8)),
        ("into-scene", box(8, 4, 8, 8), (8, 4, 8, 8)),
    ],
)
def test_default_placement_is_the_training_layout(template, task, mask, expected):
    assert placement_of(Template(template.image, mask, task)) == expected


def test_two_adapters_keep_their_own_identity() -> None:
    """What is computed once belongs to the adapter: alternating calls give the same objects."""
    torch.manual_seed(4)
    first = MiniAdapter(MiniFlux2(), "1" * 64)
    second = MiniAdapter(MiniFlux2(), "2" * 64)
    identities = [adapter.identity() for adapter in (first, second, first, second)]
    assert identities[0] is identities[2] and identities[1] is identities[3]
    assert identities[0].weights_digest != identities[1].weights_digest
    assert first.canvas_rope is first.canvas_rope
