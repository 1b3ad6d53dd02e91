"""What only several ranks can get wrong: weights and rates that differ, named on all ranks alike."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from hemostat.errors import GuardStop, HemostatWarning
from hemostat.recipe import Base
from hemostat.task import LossDoor, Task
from hemostat.track import Checkpoints
from hemostat.train import Session, TrainSettings
from hemostat.train.loop import Trainer
from hemostat.train.parallel import dp

Hand = Callable[[Session, int], None]


def run(hand: Hand, folder: str | None = None, **settings: object) -> dict[str, object]:
    torch.manual_seed(0)
    inputs = torch.randn(96, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=3)
    if folder is not None:
        os.chdir(folder)
    chosen = TrainSettings(**({"record": folder is not None, "compare_every_steps": 10} | settings))
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(model, None, data, base, settings=chosen) as session:
            for step, (x, y) in enumerate(session.steps(), start=1):
                hand(session, step)
                session.backward(((session.model(x) - y) ** 2).sum(), count=len(x))
    saved = Checkpoints(session.record.path).published() if session.record.path else []
    return {
        "findings": [(found.code, found.message) for found in session.outcome.findings],
        "stop": session.stop,
        "steps": session.last.number,
        "saved": [path.name for path in saved],
    }


def nudge(session: Session, step: int) -> None:
    if step == 5 and dist.is_initialized() and dist.get_rank() == 1:
        with torch.no_grad():
            dp.unwrap(session.model)[1].weight[0, 2] += 1e-7


def drifting(folder: str | None, settings: dict[str, object]) -> dict[str, object]:
    return run(nudge, folder, **settings)


def test_one_weight_on_one_rank_is_named_by_all(ranks, tmp_path):
    """T037: copies that drift apart."""
    first, second = ranks(2, drifting, str(tmp_path), {})
    assert first == second
    ((code, message),) = first["findings"]
    assert code == "HG003"
    assert "1.weight differs on rank 1" in message
    assert (first["stop"].status, first["steps"], first["saved"]) == (4, 10, ["step-000000010"])


def test_it_is_seen_at_a_checkpoint_too_and_stops_nothing_where_it_is_not_to(ranks, tmp_path):
    settings = {"compare_every_steps": 1000, "stop_on": ()}
    first, second = ranks(2, drifting, str(tmp_path), settings)
    assert first == second
    assert [code for code, _ in first["findings"]] == ["HG003"]
    assert (first["stop"], first["steps"]) == (None, 36)


def pulled(session: Session, step: int) -> None:
    if step == 1 and dist.get_rank() == 1:
        session.updater.optimizer.register_step_pre_hook(
            lambda optimizer, *_: optimizer.param_groups[0].update(lr=0.02)
        )


def with_another_rate() -> dict[str, object]:
    return run(pulled)


def test_another_rate_on_one_rank_is_the_reason_and_the_drift_its_consequence(ranks):
    first, second = ranks(2, with_another_rate)
    assert first == second
    assert [code for code, _ in first["findings"]] == ["HG003", "HG004"]
    assert "lr=0.02 on rank 1 at step 10" in first["stop"].reason


def halved(session: Session, step: int) -> None:
    if step == 5 and dist.get_rank() == 1:
        session.stopper.lr_factor = 0.5  # as a metric that was not pooled would do


def with_its_own_plateau() -> dict[str, object]:
    return run(halved)


def test_a_plateau_of_one_rank_alone_is_named(ranks):
    first, second = ranks(2, with_its_own_plateau)
    assert first == second
    assert "the ranks train with different rates" in first["stop"].reason
    assert "on rank 1 at step 10" in first["stop"].reason


def scheduled(session: Session, step: int) -> None:
    if dist.get_rank() == 1:
        session.updater.optimizer.param_groups[0]["lr"] = 0.7


def with_another_scheduler() -> dict[str, object]:
    return run(scheduled)


def test_a_rate_set_on_one_rank_between_steps_is_named_by_all(ranks):
    first, second = ranks(2, with_another_scheduler)
    assert first == second
    ((code, message),) = first["findings"]
    assert code == "HG006"
    assert "set lr=0.7 in group 0 on rank 1" in message
    assert first["steps"] == 36


class Line(Task):
    """Rank 1 changes a weight in the last step."""

    def model(self) -> torch.nn.Module:
        return torch.nn.Linear(4, 1)

    def loss(self, output, target):  # type: ignore[no-untyped-def]
        return ((output - target) ** 2).sum(), len(target)


def drifting_at_the_end(folder: str) -> tuple[str, int]:
    os.chdir(folder)
    torch.manual_seed(0)
    inputs = torch.randn(32, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    base, settings = Base(optimizer="sgd", lr=0.01, tuned_batch=8, epochs=1), TrainSettings(self_check=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        try:
            with Session(Line().model(), None, data, base, settings=settings) as session:
                trainer = Trainer(session, LossDoor(Line()), None)
                step = session.updater.optimizer.register_step_post_hook
                step(lambda *_: nudge_last(session))
                trainer.run()
        except GuardStop as error:
            return str(error), session.last.number
    return "no guard", session.last.number


def nudge_last(session: Session) -> None:
    if session.last and session.last.number == 3 and dist.get_rank() == 1:
        with torch.no_grad():
            dp.unwrap(session.model).bias += 1e-6


def test_what_the_last_checkpoint_finds_ends_the_command_with_its_status(ranks, tmp_path):
    (first, steps), (second, _) = ranks(2, drifting_at_the_end, str(tmp_path))
    assert first == second
    assert steps == 4
    assert "bias differs on rank 1" in first
    assert "hemostat train --resume" in first
