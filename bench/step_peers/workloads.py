"""The two pieces of work: the small MLP on random digits-like data, and the demo's GPT on its own text."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from step_peers.workload import Workload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MLP_BATCH = 32
MLP_SAMPLES = 64 * MLP_BATCH


def mlp(num_steps: int, num_untimed_steps: int) -> Workload:
    """64-128-10 with ReLU, batch 32: so small that what is measured is the loop."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(MLP_SAMPLES, 64, generator=generator)
    targets = torch.randint(10, (MLP_SAMPLES,), generator=generator)
    return Workload(
        name="mlp",
        build=lambda: torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        ),
        dataset=torch.utils.data.TensorDataset(inputs, targets),
        fetch=lambda indices: (inputs.index_select(0, indices), targets.index_select(0, indices)),
        global_batch=MLP_BATCH,
        num_steps=num_steps,
        num_untimed_steps=num_untimed_steps,
    )


def gpt(num_steps: int, num_untimed_steps: int) -> Workload:
    """The model and the data of examples/bytegpt.py in float32, with one rank's share of its batch."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    from bytegpt import ByteGPT

    task = ByteGPT()
    dataset = task.train_data()
    return Workload(
        name="gpt",
        build=task.model,
        dataset=dataset,
        fetch=lambda indices: dataset.__getitems__(indices.tolist()),
        global_batch=max(1, task.tuned_batch // 2),
        num_steps=num_steps,
        num_untimed_steps=num_untimed_steps,
    )
