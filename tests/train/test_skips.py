"""Non-finite steps: borne up to a limit in a row, and blamed on the data where these hold NaN."""

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import Feed, MicroBatch, Source
from hemostat.errors import GuardStop, HemostatWarning, TaskError
from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings
from hemostat.train.process import World
from hemostat.train.skips import Skips
from hemostat.train.update import Step

FEED = Feed(seed=0, global_batch=4, total_samples=8)
STEP = Step(1, 4, float("nan"), 0.1, float("nan"), False)
MINE = (float("nan"), 4.0, 0.0)


def micro(inputs: torch.Tensor) -> MicroBatch:
    return MicroBatch((inputs[:4],), num_samples=4, window_samples=4, last=True, position=4)


def skips(inputs: torch.Tensor, limit: int) -> Skips:
    return Skips(World(), Source(TensorDataset(inputs), "train_data"), limit)


def test_too_many_in_a_row_stop_the_run():
    inputs = torch.ones(8, 2)
    counter = skips(inputs, limit=2)
    for _ in range(2):
        counter.skipped(STEP, micro(inputs), FEED, MINE)
    counter.applied()
    for _ in range(2):
        counter.skipped(STEP, micro(inputs), FEED, MINE)
    with pytest.raises(
        GuardStop,
        match=r"not finite in 3 steps in a row, up to step 1, there on rank 0 \(epoch 0, samples 0 to 3\)\. Lower lr",
    ):
        counter.skipped(STEP, micro(inputs), FEED, MINE)


def test_the_count_goes_on_after_a_resume():
    inputs = torch.ones(8, 2)
    first, second = skips(inputs, limit=1), skips(inputs, limit=1)
    first.skipped(STEP, micro(inputs), FEED, MINE)
    second.restore(first.state())
    with pytest.raises(GuardStop):
        second.skipped(STEP, micro(inputs), FEED, MINE)


def test_nan_in_the_data_is_named():
    inputs = torch.ones(8, 2)
    inputs[:, 1] = float("nan")
    with pytest.raises(TaskError, match=r"sample \d of train_data holds NaN"):
        skips(inputs, limit=5).skipped(STEP, micro(inputs), FEED, MINE)


def test_a_skipped_step_is_told_with_its_samples():
    """T077."""
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=4, epochs=4)
    settings = TrainSettings(record=False, self_check=False, max_skips=99)
    model = torch.nn.Linear(2, 1)
    data = TensorDataset(torch.ones(16, 2))
    with (
        pytest.warns(HemostatWarning, match=r"HG007: step \d was skipped") as told,
        Session(model, None, data, base, settings=settings) as session,
    ):
        for number, (inputs,) in enumerate(session.steps(), start=1):
            loss = session.model(inputs).sum()
            session.backward(loss * (float("nan") if number >= 3 else 1.0), count=len(inputs))
    findings = session.outcome.findings
    assert [finding.evidence["step"] for finding in findings] == [3, 4, 5, 6, 7]  # and no more are told
    assert session.skipped_steps == 14
    assert len(told) == 5 and "Later ones are counted and not told" in findings[-1].fix
    assert findings[0].message == (
        "step 3 was skipped on all ranks: loss not finite on rank 0 (epoch 0, samples 8 to 11)."
    )
    assert findings[0].fix == "Look at hemostat.data.Order(16, seed=0).indices(0, 8, 12)."
    assert findings[0].evidence["samples"] == [[8, 12]]
    assert "(epoch 1, samples 0 to 3)" in findings[2].message
