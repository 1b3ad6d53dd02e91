import math

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import FieldError, GuardStop, TaskError, UnknownNameError
from hemostat.recipe import Base, Devices
from hemostat.track import load_run
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop
from hemostat.train.weights import read_weights

QUIET = TrainSettings(record=False)


def make_data(num_samples: int = 20) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(num_samples, 3, generator=generator, dtype=torch.float64)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 1).double()


def trained(base: Base, devices: Devices | None = None, settings: TrainSettings = QUIET) -> Session:
    with Session(make_model(), None, make_data(), base, devices, settings) as session:
        session.lrs = []
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if session.at_window_end:
                session.lrs.append(session.last.lr)
    return session


def weights(session: Session) -> torch.Tensor:
    return torch.cat([param.detach().flatten() for param in session.model.parameters()])


@pytest.mark.parametrize("accumulation", [2, 3, 8])
def test_accumulation_equals_the_large_batch_also_in_the_last_window(accumulation):
    """T019, T022: 20 samples in windows of 8, so that the last window holds 4."""
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=8, epochs=3, momentum=0.9, clip_norm=0.5)
    whole, parts = trained(base), trained(base, Devices(accumulation=accumulation))
    torch.testing.assert_close(weights(parts), weights(whole), rtol=0, atol=1e-12)


def test_the_rate_is_the_closed_form_of_the_applied_step():
    """T003, T013, T015."""
    session = trained(Base(optimizer="sgd", lr=0.05, tuned_batch=5, epochs=5, warmup_steps=4))
    assert session.lrs == [session.recipe.schedule.lr(step) for step in range(20)]
    assert session.lrs[0] > 0 and session.lrs[-1] == 0.0


def test_sgd_by_hand():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=20, epochs=1, schedule="constant", warmup_steps=0)
    model = make_model()
    inputs, targets = make_data().tensors
    expected = [param.detach().clone() for param in model.parameters()]
    loss = ((model(inputs) - targets) ** 2).mean()
    for value, grad in zip(expected, torch.autograd.grad(loss, list(model.parameters())), strict=True):
        value -= trained(base).lrs[0] * grad
    torch.testing.assert_close(weights(trained(base)), torch.cat([value.flatten() for value in expected]))


def test_a_batch_without_backward_is_an_error():
    base = Base(lr=0.1, tuned_batch=5)
    with (
        Session(make_model(), None, make_data(), base, settings=QUIET) as session,
        pytest.raises(TaskError, match="Call it once a batch"),
    ):
        for _ in session.steps():
            pass


def test_backward_without_a_batch_is_an_error():
    with (
        Session(make_model(), None, make_data(), Base(lr=0.1, tuned_batch=5), settings=QUIET) as session,
        pytest.raises(TaskError, match="without a batch"),
    ):
        session.backward(torch.zeros((), requires_grad=True), 1)


def test_a_window_with_nothing_to_learn_is_a_counted_skip():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=10, epochs=1)
    with Session(make_model(), None, make_data(), base, settings=QUIET) as session:
        before = weights(session)
        for inputs, _ in session.steps():
            session.backward((session.model(inputs) * 0.0).sum(), count=0)
        assert (session.skipped_steps, session.applied_steps) == (2, 0)
        assert torch.equal(weights(session), before)


@pytest.mark.filterwarnings("ignore:HG007")
def test_a_loss_that_stays_infinite_stops_the_run():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=2, epochs=5)
    settings = TrainSettings(record=False, max_skips=3)
    with (
        Session(make_model(), None, make_data(), base, settings=settings) as session,
        pytest.raises(GuardStop, match="4 steps in a row"),
    ):
        for inputs, _ in session.steps():
            session.backward(session.model(inputs).sum() * math.inf, count=2)


def test_plateau_halving_multiplies_the_schedule():
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=5, epochs=5, schedule="constant", plateau_patience=1)
    with Session(make_model(), None, make_data(), base, settings=QUIET) as session:
        rates = []
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            session.judge(1.0)
            rates.append(session.last.lr)
    assert rates[0] == pytest.approx(0.1) and min(rates) < 0.06


@pytest.mark.parametrize("status", [4, 5, 75])
def test_early_stopping_at_the_same_step_hides_no_guard_no_cap_and_no_signal(status):
    base = Base(
        optimizer="sgd", lr=0.1, tuned_batch=5, epochs=20, patience=3, schedule="constant", warmup_steps=0
    )
    other = Stop("something stronger", status)
    with Session(make_model(), None, make_data(), base, settings=QUIET) as session:
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            session.stop = other
            verdict = session.judge(1.0)
            session.stop = session.stop if verdict.stop else None
    assert verdict.stop and session.stop == other


def test_everything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = trained(Base(optimizer="sgd", lr=0.1, tuned_batch=10, epochs=2), settings=TrainSettings())
    record = load_run(tmp_path / ".hemostat" / "runs")
    assert record.id == session.record.path.name
    assert [point[:2] for point in record.metrics("loss")] == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert [point[2] for point in record.metrics("lr")] == session.lrs
    rows = {row["field"]: row for row in record.header["recipe"]}
    assert rows["lr"]["value"] == 0.1 and rows["lr"]["why"]
    assert record.header["provenance"] and record.header["seed"] == 0


def test_save_keeps_the_weights_of_a_loop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=10, epochs=2)
    with Session(make_model(), None, make_data(), base, settings=TrainSettings()) as session:
        for inputs, targets in session.steps():
            session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))
            if session.last.number == 1:
                session.save("best")
                early = weights(session).clone()
        session.save()
        with pytest.raises(UnknownNameError, match="best, last"):
            session.save("worst")
    record = load_run(tmp_path / ".hemostat" / "runs")
    saved = {
        name: torch.cat([*map(torch.flatten, read_weights(record, name).state.values())])
        for name in ("best", "last")
    }
    assert torch.equal(saved["best"], early)
    assert torch.equal(saved["last"], weights(session))
    for settings in (QUIET, TrainSettings(save=False)):
        silent = trained(base, settings=settings)
        silent.save()
        assert not silent.saves and not (silent.record.path and [*silent.record.path.rglob("*.pt")])


@pytest.mark.parametrize(
    ("base", "data", "error", "text"),
    [
        (Base(lr=0.1), TensorDataset(torch.zeros(0, 3), torch.zeros(0, 1)), TaskError, "0 samples"),
        (Base(lr=0.1, num_train_samples=7), make_data(), FieldError, "train_data has 20"),
        (Base(lr=0.1, optimizer="lamb"), make_data(), TaskError, "optimizer"),
    ],
)
def test_bad_input(base, data, error, text):
    with pytest.raises(error, match=text):
        Session(make_model(), None, data, base, settings=QUIET)


def test_a_model_that_is_wrapped_already_is_refused():
    """T033: static_graph and accumulation go together badly, and the session wraps by itself."""
    with pytest.raises(TaskError, match=r"wrapped in DataParallel already\. Give the module inside"):
        Session(torch.nn.DataParallel(torch.nn.Linear(3, 1)), None, make_data(), Base(lr=0.1), settings=QUIET)


def test_a_frozen_model_is_refused():
    model = make_model().requires_grad_(False)
    with pytest.raises(TaskError, match="no parameter that requires a gradient"):
        Session(model, None, make_data(), Base(lr=0.1), settings=QUIET)
