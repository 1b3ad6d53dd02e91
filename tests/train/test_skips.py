"""Non-finite steps: borne up to a limit in a row, and blamed on the data where these hold NaN."""

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import Feed, MicroBatch, Source
from hemostat.errors import GuardStop, TaskError
from hemostat.train.process import World
from hemostat.train.skips import Skips
from hemostat.train.update import Step

FEED = Feed(seed=0, global_batch=4, total_samples=8)
STEP = Step(1, 4, float("nan"), 0.1, float("nan"), False)


def micro(inputs: torch.Tensor) -> MicroBatch:
    return MicroBatch((inputs[:4],), num_samples=4, window_samples=4, last=True, position=4)


def skips(inputs: torch.Tensor, limit: int) -> Skips:
    return Skips(World(), Source(TensorDataset(inputs), "train_data"), limit)


def test_too_many_in_a_row_stop_the_run():
    inputs = torch.ones(8, 2)
    counter = skips(inputs, limit=2)
    for _ in range(2):
        counter.skipped(STEP, micro(inputs), FEED)
    counter.applied()
    for _ in range(2):
        counter.skipped(STEP, micro(inputs), FEED)
    with pytest.raises(GuardStop, match=r"not finite in 3 steps in a row, up to step 1\. Lower lr"):
        counter.skipped(STEP, micro(inputs), FEED)


def test_the_count_goes_on_after_a_resume():
    inputs = torch.ones(8, 2)
    first, second = skips(inputs, limit=1), skips(inputs, limit=1)
    first.skipped(STEP, micro(inputs), FEED)
    second.restore(first.state())
    with pytest.raises(GuardStop):
        second.skipped(STEP, micro(inputs), FEED)


def test_nan_in_the_data_is_named():
    inputs = torch.ones(8, 2)
    inputs[:, 1] = float("nan")
    with pytest.raises(TaskError, match=r"sample \d of train_data holds NaN"):
        skips(inputs, limit=5).skipped(STEP, micro(inputs), FEED)
