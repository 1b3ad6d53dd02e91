"""A peak that is foretold from a trace, against storage counted in a real step on two ranks."""

import pytest
import torch
from test_layout_memory import NUM_BLOCKS, POSITIONS, SAMPLES, Words, measured

from hemostat.plan import Layout
from hemostat.plan.memory import peak
from hemostat.plan.workload import Regime, Workload
from hemostat.task import LossDoor, profile_of

BAR = 0.03


def counted_bytes(layout, accumulation):
    """Of this rank; the data are drawn where they are asked for, and must be the same on both ranks."""
    torch.manual_seed(0)
    return measured(layout, accumulation)["peak"]


def forecast_bytes(text, micro_batch, accumulation):
    """Of the fullest rank; AdamW on the CPU has two temporaries of one parameter at a time."""
    task, layout = Words(), Layout.read(text).filled(2)
    model = task.model()
    batch = torch.zeros(2, micro_batch, POSITIONS, dtype=torch.long).unbind()
    blocks = [(str(number), model[number]) for number in range(NUM_BLOCKS + 2)]
    profile = profile_of(model, batch, LossDoor(task).compute, blocks)
    largest = max(param.numel() for param in model.parameters())
    regime = Regime(
        name="fp32 on the CPU",
        zero_stage=3 if layout.fsdp > 1 else 0,
        step_bytes=2 * 4 * largest / profile.num_params,
    )
    workload = Workload(micro_batch=micro_batch, accumulation=accumulation, regime=regime)
    return peak(profile, layout, workload).allocated.num_bytes


@pytest.mark.parametrize(("layout", "accumulation"), [("dp=2", 1), ("fsdp=2", 1), ("pp=2", 8)])
def test_the_peak_of_the_fullest_rank_is_foretold(ranks, layout, accumulation):
    data_ranks = Layout.read(layout).filled(2).num_data_ranks
    counted = max(ranks(2, counted_bytes, layout, accumulation))
    forecast = forecast_bytes(layout, SAMPLES // data_ranks // accumulation, accumulation)
    assert forecast == pytest.approx(counted, rel=BAR)
