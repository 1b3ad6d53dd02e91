"""Accumulation is the lever when memory is short; what fits is found, also under a real limit of the process."""

import subprocess
import sys
import textwrap
import traceback

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import Dataset, TensorDataset

from hemostat.errors import TaskError
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.memory import find_micro_batch, is_out_of_memory, largest_samples, release


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


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (TaskError("loss returned None"), False),
    ],
)
def test_a_refused_allocation_is_known_even_inside_a_message_of_the_task(error, is_one):
    assert is_out_of_memory(error) is is_one
    try:
        raise TaskError("Digits.loss raised") from error
    except TaskError as wrapped:
        assert is_out_of_memory(wrapped) is is_one


def test_a_real_refusal_is_known():
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(refused.value)


def test_what_the_frames_of_a_failed_pass_hold_is_let_go():
    seen = []

    def failing():
        activations = torch.ones(8)
        seen.append(activations.untyped_storage()._weak_ref())
        raise torch.OutOfMemoryError("injected")

    try:
        failing()
    except torch.OutOfMemoryError as error:
        release(error)
        assert traceback.extract_tb(error.__traceback__)[-1].name == "failing"
        assert torch.UntypedStorage._expired(seen[0])
        return
    raise AssertionError("it did not fail")


class Limited(torch.nn.Module):
    def __init__(self, limit: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.limit = torch.nn.Linear(4, 1), limit
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > self.limit:
            raise torch.OutOfMemoryError(f"{len(inputs)} rows")
        return self.linear(self.drop(inputs))


def squares(model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, int]:
    return (model(batch[0]) ** 2).sum(), len(batch[0])


@pytest.mark.parametrize(("limit", "cut"), [(1000, (48, 1)), (47, (24, 2)), (24, (24, 2)), (5, (3, 16))])
def test_the_search_halves_the_share_until_it_fits_and_leaves_no_trace(limit, cut):
    data, base = TensorDataset(torch.ones(96, 4)), Base(optimizer="sgd", lr=0.1, tuned_batch=48)
    model = Limited(limit)
    with Session(model, None, data, base, settings=TrainSettings(record=False)) as session:
        before = [param.clone() for param in model.parameters()]
        numbers = torch.get_rng_state()
        find_micro_batch(session, squares)
        assert (session.recipe.micro_batch, session.recipe.accumulation) == cut
        assert session.recipe.global_batch == 48
        assert session.back_off.found == cut[0]
        assert not session.outcome.findings
        assert torch.equal(numbers, torch.get_rng_state())
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
        assert all(param.grad is None for param in model.parameters())
        rows = [
            len(batch)
            for (batch,) in session.steps()
            if session.backward(model(batch).sum(), len(batch)) is None
        ]
    assert max(rows) == cut[0]
    assert sum(rows) == 96


class Ragged(Dataset):
    """Sample 5 is the longest."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(100 if index == 5 else index + 1)


def test_the_largest_sample_in_sight_is_tried():
    with Session(
        torch.nn.Linear(1, 1), None, Ragged(), Base(tuned_batch=4), settings=TrainSettings(record=False)
    ) as session:
        assert largest_samples(session, 3).shape == (3, 100)


LIMITED_RUN = """
    import resource, sys, warnings
    import torch
    from hemostat import Base, Session
    from hemostat.train import TrainSettings

    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 1)

        def forward(self, inputs):
            wide = inputs.repeat(1, 1 << 17)  # 4 MiB a row and copy
            return self.linear(wide.exp().sqrt().view(len(inputs), -1, 8).mean(1))

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(256, 8))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=128)
    Wide()(torch.ones(2, 8)).sum().backward()
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (700 << 20),) * 2)
    warnings.simplefilter("ignore")
    with Session(Wide(), None, data, base, settings=TrainSettings(record=False)) as session:
        for (inputs,) in session.steps():
            with session.back_off.guard():
                session.backward((session.model(inputs) ** 2).sum(), count=len(inputs))
    print(session.last.samples, session.recipe.global_batch, session.recipe.micro_batch, len(session.outcome.findings))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS")
def test_a_run_goes_on_under_a_real_limit_of_memory():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED_RUN)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    samples, global_batch, micro_batch, findings = map(int, done.stdout.split())
    assert (samples, global_batch) == (256, 128)
    assert micro_batch in (8, 16, 32, 64)
    assert 128 // 2**findings == micro_batch
