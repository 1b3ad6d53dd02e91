"""Translating a state to another batch, and telling another model apart."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import Feed
from hemostat.errors import GuardStop, RecordError
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.checkpoint import Shape
from hemostat.train.control import Stop
from hemostat.train.state import check_names, fit_to_batch


def shared(**changes):
    known = {
        "step": 15,
        "samples": 240,
        "last": {"number": 15, "samples": 240},
        "counts": {"applied": 14, "skipped": 1},
        "judged_step": 15,
        "stopper": {"best": 0.5, "best_step": 10, "bad_evals": 5, "plateau_evals": 2, "lr_factor": 0.5},
        "outcome": {"best_step": 10},
        "feed": {"global_batch": 16},
        "eval_every_steps": 5,
    }
    return known | changes


def session(global_batch: int, eval_every_steps: int):
    feed = Feed(seed=0, global_batch=global_batch, total_samples=1000)
    return SimpleNamespace(
        loader=SimpleNamespace(feed=feed, num_samples=100),
        recipe=SimpleNamespace(eval_every_steps=eval_every_steps),
    )


def test_the_same_batch_and_rhythm_change_nothing():
    state = shared()
    assert fit_to_batch(state, session(16, 5)) is state


def test_twice_the_batch_is_half_the_steps_and_the_same_patience_in_samples():
    fitted = fit_to_batch(shared(), session(32, 5))
    # epochs of 100 samples have 4 windows of 32; 240 samples are two epochs and two windows more
    assert (fitted["step"], fitted["last"]["number"], fitted["counts"]["applied"]) == (10, 10, 9)
    assert fitted["stopper"]["bad_evals"] == 2  # 5 evaluations of 80 samples are 2.5 of 160
    assert fitted["stopper"]["best_step"] == fitted["outcome"]["best_step"] == 7
    assert fitted["judged_step"] == 10
    assert fitted["samples"] == 240


def test_another_rhythm_alone_moves_the_patience_only():
    fitted = fit_to_batch(shared(judged_step=10), session(16, 10))
    assert (fitted["step"], fitted["stopper"]["bad_evals"]) == (17, 2)
    assert fitted["judged_step"] == 0


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        (
            {"model/w": Shape(torch.Size([2, 2]), torch.float32)},
            r"w has shape \(2, 2\) there and \(3, 2\) here",
        ),
        ({"model/v": Shape(torch.Size([3, 2]), torch.float32)}, "it lacks w and it has v beside"),
        ({f"model/{n}": Shape(torch.Size([1]), torch.float32) for n in "abcde"}, "a, b, c and 2 more beside"),
    ],
)
def test_another_model_is_told_by_its_names_and_shapes(saved, said):
    """T085."""
    with pytest.raises(RecordError, match=said):
        check_names({"w": torch.zeros(3, 2)}, saved)


def counted(stop_at: int | None, resume: str | None = None, more_nan: tuple[int, ...] = ()) -> Session:
    """Steps 4 and 5 are not finite, and two micro-batches a window show the noise scale."""
    rows = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=2)
    settings = TrainSettings(resume=resume, max_skips=2)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    with Session(model, None, TensorDataset(rows), base, Devices(accumulation=2), settings) as session:
        for (inputs,) in session.steps():
            number = session.last.number + 1 if session.last else 1
            factor = float("nan") if number in (4, 5, *more_nan) else 1.0
            session.backward(session.model(inputs).square().sum() * factor, count=len(inputs))
            if session.at_window_end and session.last.number == stop_at:
                session.stop = Stop("SIGTERM", 75)
    return session


@pytest.mark.filterwarnings("ignore:HG007", "ignore:run .* goes on at step")
def test_skips_and_noise_scale_go_on_after_a_resume(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = counted(stop_at=5)
    assert before.skips.state() == {"in_a_row": 2, "said": 2}
    assert before.noise.state()["num_updates"] == 3
    with pytest.raises(GuardStop, match="not finite in 3 steps in a row, up to step 6"):
        counted(stop_at=None, resume="last", more_nan=(6,))


@pytest.mark.filterwarnings("ignore:HG007", "ignore:run .* goes on at step")
def test_the_noise_scale_of_a_resumed_run_is_that_of_the_undisturbed_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = counted(stop_at=9).noise.state()
    counted(stop_at=3)
    assert counted(stop_at=9, resume="last").noise.state() == whole
    assert whole["num_updates"] == 7
