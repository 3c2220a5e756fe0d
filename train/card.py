"""Export the weights of a training run and write its model card.

    python train/card.py OUT --metrics docs/results/model_mini_a.json --card docs/models/mini_a.md
    \\
        --weights src/sakura/assets/mini_a.safetensors
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

CARD = """# Mini model A

A small in-context image editor for SAKURA's demo, tests and benchmarks: diffusers'
`Flux2Transformer2DModel`, {params:.2f} M parameters, 2 double and 4 single blocks, 4 heads x 48, in
pixel space (128 x 128 px, 8 x 8 patches, 256 canvas tokens, 64 reference tokens in the class's
causal KV mode, 4 prompt tokens). Clean-image prediction relative to the template, rectified flow, 8
steps, no guidance. Written by `train/card.py`; do not edit.

* **Tasks**: face swap, garment try-on, person into scene, told apart by prompt tokens.
* **Inputs**: template picture, token mask, a square portrait as reference, and the *placement*: the
square
  of tokens that the reference's content belongs to. Reference tokens get RoPE coordinates spread
  over it.
* **Not for**: photographs of people or any use but this project's. It knows drawn avatars only.

## Data

Exact pairs drawn by `train/pairs.py`: avatars of three DiceBear styles rendered by resvg over
procedural backgrounds (`train/backgrounds.py`). No photographs, no real persons. Identities and
garments of the test split (one in eight by a hash of their discrete choices) never occur in
training, and two of the three background families of the test split do not either.

| style | author | licence |
|---|---|---|
| avataaars | Pablo Stanley | free for personal and commercial use (avataaars.com) |
| toon-head | Johan Melin | CC BY 4.0 |
| micah | Micah Lanier | CC BY 4.0 |

## Training

{steps} steps, {samples} samples, {minutes:.0f} minutes on {threads} CPU cores, seed {seed}. Muon
(float32) for the blocks' matrices, AdamW for the rest; recipe in `train/train_mini.py`. To
reproduce:

    python train/render_pool.py POOL --seeds 0 14
    python train/train_mini.py POOL OUT --minutes {minutes:.0f}

Batches, noise and initial weights follow from the seed; the learning rate and the batch size follow
the clock, so another machine makes other, similar weights. {note}

## Metrics

{metrics}
## Licence

Weights and code: Apache-2.0. The drawings' licences ask for the attributions in the table above.
"""


def export_weights(state: dict[str, Any], path: Path) -> None:
    """Write the averaged weights as float16 safetensors."""
    weights = {name: value.half().contiguous() for name, value in state["average"].items()}
    save_file(weights, path)


def metrics_text(metrics: dict[str, Any] | None, picture: str) -> str:
    """The metrics section, from the JSON that `benchmarks/bench_model.py` wrote."""
    if metrics is None:
        return "Not measured yet: run `benchmarks/bench_model.py`.\n"
    rows = "\n".join(
        f"| {task} | {v['full']:.2f} | {v['paste']:.2f} | {v['wrong']:.2f} |"
        for task, v in metrics["psnr_inside_db"].items()
    )
    return f"""PSNR in dB inside the mask against the ground truth, {metrics["count"]} unseen pairs
(`benchmarks/bench_model.py`):

| task | full compute | template pasted | wrong reference |
|---|---|---|---|
{rows}

24 unseen edits, each row: template, mask, reference, edit, ground truth.

![24 unseen edits]({picture})
"""


def write_card(
    state: dict[str, Any], metrics: dict[str, Any] | None, path: Path, note: str = ""
) -> None:
    """Write the card for a training state."""
    steps, samples, spent_s = state["counters"]
    params = sum(v.numel() for v in state["average"].values()) / 1e6
    path.write_text(
        CARD.format(
            params=params,
            steps=steps,
            samples=samples,
            minutes=spent_s / 60,
            threads=torch.get_num_threads(),
            seed=0,
            note=note,
            metrics=metrics_text(metrics, f"{path.stem}.png"),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of the training run")
    parser.add_argument("--metrics", type=Path)
    parser.add_argument("--card", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--note", default="", help="what a reader of the card should know")
    args = parser.parse_args()
    state = torch.load(args.run / "state.pt", weights_only=False, map_location="cpu")
    if args.weights:
        export_weights(state, args.weights)
    if args.card:
        metrics = json.loads(args.metrics.read_text()) if args.metrics else None
        write_card(state, metrics, args.card, args.note)


if __name__ == "__main__":
    main()
