"""Accumulation is the lever when memory is short: 8 times the batch for less than 1 % more peak memory."""

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import TensorDataset

from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings


def peak_bytes(micro_batch: int, accumulation: int) -> int:
    """Highest sum of live tensor bytes during a run, from torch's own allocator events."""
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(12)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
    data = TensorDataset(torch.randn(65536, 64), torch.randn(65536, 1))
    base = Base(optimizer="sgd", lr=1e-3, tuned_batch=8192, total_samples=131072, warmup_steps=0)
    devices = Devices(micro_batch=micro_batch, accumulation=accumulation)
    with (
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler,
        Session(model, None, data, base, devices, TrainSettings(record=False)) as session,
    ):
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def test_eight_times_the_batch_costs_less_than_one_percent():
    one, eight = peak_bytes(8192, 1), peak_bytes(8192, 8)
    assert eight <= 1.01 * one  # what is added is one copy of the gradients: 12 x 64 x 64 x 4 bytes
    assert peak_bytes(16384, 1) > 1.9 * one  # the measure sees a larger micro-batch
    print(f"peak {one} -> {eight} bytes: {eight / one - 1:.3%}")
