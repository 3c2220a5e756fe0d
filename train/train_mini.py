"""Train mini model A (FLUX.2 class) on exact toon edits. Seeded, resumable, CPU or CUDA.

    python train/render_pool.py POOL --seeds 0 14
    python train/train_mini.py POOL OUT --minutes 115

Rectified flow with clean-image prediction relative to the template: z = (1 - t) x + t n, the
network predicts x - template. Loss is squared error, weighted to the mask. Three micro-batches a
step, one a task. Until `--full-from` of the time only the masked tokens and some others are
computed, which is cheaper and makes the model robust to a thinned context; then all tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from card import export_weights, write_card
from muon import Muon
from pairs import TASKS, Pairs, PairSource

from sakura.models import mini_net
from sakura.models.mini_net import MiniFlux2, canvas_ids, patchify, reference_ids


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the weights, besides the pool and the run time."""

    seed: int = 0
    micro_batch: int = 6
    micro_batch_end: int = 12
    context_tokens: int = 32
    full_from: float = 0.85
    lr_adam: float = 2e-3
    lr_muon: float = 3e-3
    mask_weight: float = 1.0
    rest_weight: float = 0.05
    ema: float = 0.998
    noise_logit: float = 0.6  # mean of the noise level's logit
    noise_logit_late: float = 1.3  # from `late_noise_from` of the time on: the first steps decide
    late_noise_from: float = 0.3


@dataclass(frozen=True, slots=True)
class NoiseDraw:
    """Where noise comes from, and the mean logit of its level."""

    generator: torch.Generator
    logit: float


def to_tokens(images: np.ndarray, device: str) -> torch.Tensor:
    """uint8 (B, H, W, 3) to patch tokens in [-1, 1]."""
    x = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float()
    return patchify(x / 127.5 - 1)


def choose_tokens(pairs: Pairs, context: int | None, rng: np.random.Generator) -> torch.Tensor:
    """Indices of the canvas tokens to compute: the mask and `context` others (all when None)."""
    mask = pairs.layout.mask.reshape(-1)
    if context is None:
        return torch.arange(mask.size)
    others = rng.permutation(np.flatnonzero(~mask))[:context]
    return torch.from_numpy(np.concatenate([np.flatnonzero(mask), others]))


def pair_loss(
    net: MiniFlux2,
    pairs: Pairs,
    tokens: torch.Tensor,
    recipe: Recipe,
    draw: NoiseDraw,
) -> tuple[torch.Tensor, float]:
    """Loss of one micro-batch and the mean squared error inside the mask."""
    device = next(net.parameters()).device.type
    truth, template = to_tokens(pairs.truth, device), to_tokens(pairs.template, device)
    reference = to_tokens(pairs.reference, device)
    B = len(truth)
    mask = torch.from_numpy(pairs.layout.mask.reshape(1, -1, 1)).float().to(device)
    mask = mask.expand(B, -1, -1)
    t = torch.sigmoid(torch.randn(B, generator=draw.generator) + draw.logit).to(device)
    noise = torch.randn(truth.shape, generator=draw.generator).to(device)
    noisy = (1 - t)[:, None, None] * truth + t[:, None, None] * noise
    tokens = tokens.to(device)
    truth, template, mask = truth[:, tokens], template[:, tokens], mask[:, tokens]
    prompt = torch.full((B,), mini_net.PROMPTS.index(pairs.layout.task), device=device)
    ids = (canvas_ids().to(device)[tokens], reference_ids(pairs.layout.placement).to(device))
    canvas = net.canvas_input(noisy[:, tokens], template, mask)
    change = net(canvas, net.reference_input(reference), prompt, t, ids)
    error = (template + change - truth).pow(2).mean(-1, keepdim=True)
    inside = (error * mask).sum() / mask.sum()
    outside = (error * (1 - mask)).sum() / (1 - mask).sum().clamp_min(1)
    return recipe.mask_weight * inside + recipe.rest_weight * outside, inside.item()


class Trainer:
    """Owns the network, its moving average, both optimisers and the state that makes a run
    resumable.
    """

    def __init__(self, pool: Path, out: Path, recipe: Recipe, device: str) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.out = recipe, out
        self.net = MiniFlux2().to(device)
        torch.nn.init.zeros_(self.net.transformer.proj_out.weight)
        self.average = MiniFlux2().to(device).requires_grad_(False)
        self.average.load_state_dict(self.net.state_dict())
        blocks = ("transformer_blocks", "single_transformer_blocks")
        named = list(self.net.named_parameters())
        matrices = [p for n, p in named if p.ndim == 2 and any(b in n for b in blocks)]
        chosen = {id(p) for p in matrices}
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, lr=recipe.lr_muon),
            torch.optim.AdamW(
                [p for _, p in named if id(p) not in chosen],
                lr=recipe.lr_adam,
                betas=(0.9, 0.97),
                weight_decay=0.0,
            ),
        ]
        self.source = PairSource(pool, np.random.default_rng([recipe.seed, 7]), test=False)
        self.rng = np.random.default_rng([recipe.seed, 8])
        self.generator = torch.Generator().manual_seed(recipe.seed)
        self.step, self.samples, self.spent_s = 0, 0, 0.0

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs."""
        return {
            "net": self.net.state_dict(),
            "average": self.average.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "counters": (self.step, self.samples, self.spent_s),
            "generator": self.generator.get_state(),
            "rngs": [self.rng.bit_generator.state, self.source.rng.bit_generator.state],
        }

    def save(self) -> None:
        """Write the state atomically; a killed run loses the steps since the last call."""
        part = self.out / "state.part"
        torch.save(self.state(), part)
        part.rename(self.out / "state.pt")

    def load(self) -> None:
        """Continue from `save`."""
        state = torch.load(self.out / "state.pt", weights_only=False)
        self.net.load_state_dict(state["net"])
        self.average.load_state_dict(state["average"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.samples, self.spent_s = state["counters"]
        self.generator.set_state(state["generator"])
        self.rng.bit_generator.state, self.source.rng.bit_generator.state = state["rngs"]

    def train_step(self, progress: float) -> dict[str, float]:
        """One optimiser step over the three tasks; progress in [0, 1] sets rate and batch."""
        recipe = self.recipe
        rate = min(1.0, (self.step + 1) / 50) * (1 - progress) ** 0.8 + 0.005
        for optimizer, base in zip(self.optimizers, (recipe.lr_muon, recipe.lr_adam), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
        late = progress >= recipe.full_from
        size = round(recipe.micro_batch + progress * (recipe.micro_batch_end - recipe.micro_batch))
        noisier = progress >= recipe.late_noise_from
        logit = recipe.noise_logit_late if noisier else recipe.noise_logit
        draw = NoiseDraw(self.generator, logit)
        errors: dict[str, float] = {}
        for task in TASKS:
            pairs = self.source.batch(task, size)
            tokens = choose_tokens(pairs, None if late else recipe.context_tokens, self.rng)
            loss, errors[task] = pair_loss(self.net, pairs, tokens, recipe, draw)
            (loss / len(TASKS)).backward()
            self.samples += size
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        decay = min(recipe.ema, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            for a, p in zip(self.average.parameters(), self.net.parameters(), strict=True):
                a.lerp_(p, 1 - decay)
        self.step += 1
        return errors

    def run(self, minutes: float) -> None:
        """Train until `minutes` of run time are spent, over all resumed runs together."""
        log: list[dict[str, float]] = []
        last = time.monotonic()
        while (progress := self.spent_s / (60 * minutes)) < 1:
            log.append(self.train_step(progress))
            now = time.monotonic()
            self.spent_s, last = self.spent_s + now - last, now
            if self.step % 50 == 0:
                self.report(log[-50:])
            if self.step % 100 == 0:
                self.save()
                self.source.refresh()
        self.save()

    def report(self, recent: list[dict[str, float]]) -> None:
        """Append one line to log.jsonl and print it."""
        dbs = {t: -10 * math.log10(np.mean([e[t] for e in recent]) / 4) for t in TASKS}
        row = {
            "step": self.step,
            "samples": self.samples,
            "spent_s": round(self.spent_s),
            "samples_per_s": round(self.samples / self.spent_s, 2),
            **{f"{t}_db": round(v, 2) for t, v in dbs.items()},
        }
        print(json.dumps(row), flush=True)
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lr-muon", type=float, default=Recipe().lr_muon)
    parser.add_argument("--lr-adam", type=float, default=Recipe().lr_adam)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    args.out.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(lr_muon=args.lr_muon, lr_adam=args.lr_adam)
    trainer = Trainer(args.pool, args.out, recipe, args.device)
    if (args.out / "state.pt").exists():
        trainer.load()
    trainer.run(args.minutes)
    export_weights(trainer.state(), args.out / "mini_a.safetensors")
    write_card(trainer.state(), None, args.out / "mini_a.md")


if __name__ == "__main__":
    main()
