"""A step whose figures are read one step late is the same step; what they say comes one step late, on all ranks."""

from __future__ import annotations

import copy
import os
import signal
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

from hemostat.errors import GuardStop, HemostatWarning
from hemostat.findings import Finding, Severity
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop
from hemostat.train.parallel import dp

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, fused=True),
    "adam": lambda params: torch.optim.Adam(params, lr=0.02, fused=True),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.02, fused=True),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=0.05, fused=True),
}


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def open_session(
    lag_steps: int,
    *,
    optimizer: str = "adamw",
    accumulation: int = 1,
    schedule: str = "cosine",
    **settings: Any,
) -> Session:
    """Two epochs of seven windows, the last of them ragged."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1))
    inputs = torch.randn(53, 4, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    base = Base(
        optimizer=optimizer,
        lr=0.02,
        tuned_batch=8,
        epochs=2,
        schedule=schedule,
        clip_norm=0.5,
        warmup_steps=2,
        patience=4,
    )
    told = TrainSettings(**({"record": False, "lag_steps": lag_steps} | settings))
    given = OPTIMIZERS[optimizer](model.parameters())
    session = Session(model, given, data, base, Devices(accumulation=accumulation), told)
    session.seen = []
    after = session.guards.after_step

    def noted() -> None:
        session.seen.append((*session.last, session.applied_steps, session.precision.loss_scale))
        after()

    session.guards.after_step = noted
    return session


def loss_of(session: Session, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with session.autocast():
        return ((session.model(batch[0]) - batch[1]) ** 2).float().sum()


def state_of(session: Session) -> list[torch.Tensor]:
    """Weights and all that the optimizer keeps of them."""
    optimizer = session.updater.optimizer
    found = [param.detach().clone() for param in dp.unwrap(session.model).parameters()]
    for values in optimizer.state.values():
        found += [value.clone() for value in values.values() if isinstance(value, torch.Tensor)]
    return found


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(torch.equal(*pair) for pair in zip(first, second, strict=True))


def poisoned(loss: torch.Tensor, how: str) -> torch.Tensor:
    if how == "loss":
        return loss + float("inf")  # its gradient stays finite
    if how == "gradient":
        loss.register_hook(lambda grad: grad * float("nan"))
    return loss


def trained(lag_steps: int, bad: dict[int, str], choices: dict[str, Any]) -> dict[str, Any]:
    """All steps; at those in `bad` the last rank's loss or gradient is not finite, or nobody counts anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(lag_steps, **choices) as session:
            mine = rank() == session.world.num_ranks - 1
            for batch in session.steps():
                how = bad.get(session.position[0] + 1, "")
                empty = how == "empty"
                loss = loss_of(session, batch) * (0.0 if empty else 1.0)
                count = torch.tensor(0.0 if empty else 3.0 * len(batch[0]) + 1)
                session.backward(poisoned(loss, how if mine else ""), count=count)
        noise = session.noise.state()
        found = [(finding.code, finding.where, finding.message) for finding in session.outcome.findings]
        counts = (session.applied_steps, session.skipped_steps, session.outcome.skipped_steps)
        return {
            "seen": session.seen,
            "state": state_of(session),
            "noise": noise,
            "found": found,
            "counts": counts,
        }


def assert_same_run(late: dict[str, Any], at_once: dict[str, Any]) -> None:
    assert repr(late["seen"]) == repr(at_once["seen"])  # NaN is not itself
    assert same(late["state"], at_once["state"])
    assert [late[key] for key in ("noise", "found", "counts")] == [
        at_once[key] for key in ("noise", "found", "counts")
    ]


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize(
    "choices",
    [
        {"optimizer": "sgd"},
        {"optimizer": "adam", "accumulation": 3},
        {"optimizer": "adamw", "precision": "bf16"},
        {"optimizer": "adagrad"},
        {"optimizer": "adamw", "precision": "fp16"},
    ],
)
def test_a_run_that_is_read_late_is_bitwise_the_one_that_is_read_at_once(ranks, num_ranks, choices):
    for late, at_once in zip(
        ranks(num_ranks, trained, 1, {}, choices), ranks(num_ranks, trained, 0, {}, choices), strict=True
    ):
        assert_same_run(late, at_once)
        skipped = late["counts"][1]
        assert sum(late["counts"][:2]) == 14
        assert (
            0 < skipped < 4 if choices.get("precision") == "fp16" else skipped == 0
        )  # fp16 looks for its scale


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("choices", [{"optimizer": "sgd"}, {"optimizer": "adamw", "precision": "fp16"}])
def test_skipped_steps_are_those_of_a_run_that_is_read_at_once(ranks, num_ranks, choices):
    """The first step, one of a bad loss, one of a bad gradient, one without items, and the last."""
    bad = {1: "gradient", 4: "loss", 6: "gradient", 9: "empty", 14: "gradient"}
    for late, at_once in zip(
        ranks(num_ranks, trained, 1, bad, choices), ranks(num_ranks, trained, 0, bad, choices), strict=True
    ):
        assert_same_run(late, at_once)
        skipped = [number for number, *_, applied, _, _ in late["seen"] if not applied]
        if "precision" in choices:  # fp16 looks for its scale
            assert set(skipped) > set(bad) and late["counts"][1:] == (len(skipped), len(skipped))
        else:
            assert skipped == list(bad) and late["counts"] == (9, 5, 5)


class HostReads(TorchDispatchMode):
    """Counts how often a tensor's value is asked for."""

    num = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.num += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


class Lists(TorchFunctionMode):
    """Counts `tolist`, which no dispatch sees."""

    num = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.num += function is torch.Tensor.tolist
        return function(*args, **(kwargs or {}))


def reads_of_each_step(lag_steps: int, choices: dict[str, Any]) -> list[tuple[int, int]]:
    """How often values are read in `backward`, and in lists."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(lag_steps, guards=(), **choices) as session:
            session.guards.after_step = lambda: None
            for batch in session.steps():
                loss = loss_of(session, batch)
                with HostReads() as reads, Lists() as lists:
                    session.backward(loss, count=torch.tensor(float(len(batch[0]))))
                if session.at_window_end:
                    found.append((reads.num, lists.num))
    return found


@pytest.mark.parametrize("choices", [{}, {"precision": "fp16"}, {"accumulation": 2}])
def test_a_late_step_reads_nothing_but_the_figures_of_the_one_before(ranks, choices):
    (late,) = ranks(1, reads_of_each_step, 1, choices)
    (at_once,) = ranks(1, reads_of_each_step, 0, choices)
    assert late[0][0] > 0  # the first one sets up the optimizer
    assert late[-8:] == [(0, 1)] * 8
    assert all(num > 0 for num, _ in at_once)


def unread(how: str) -> dict[str, Any]:
    """What is known right after the bad step, and after the next one."""
    notes: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with open_session(1, optimizer="adam") as session:
            for batch in session.steps():
                number = session.position[0] + 1
                before = state_of(session)
                loss = loss_of(session, batch)
                session.backward(
                    poisoned(loss, how if number == 5 and rank() == 1 else ""), count=len(batch[0])
                )
                if number in (5, 6):
                    said = [finding.message for finding in session.outcome.findings]
                    notes[str(number)] = (same(before, state_of(session)), session.skipped_steps, said)
                if number == 5:
                    notes["asked"] = (session.last.number, session.last.applied, session.made is not None)
    return notes


@pytest.mark.parametrize("how", ["gradient", "loss"])
def test_a_bad_step_changes_nothing_and_is_told_one_step_late_by_its_number(ranks, how):
    first, second = ranks(2, unread, how)
    assert first == second
    said = f"step 5 was skipped on all ranks: {how} not finite on rank 1 (epoch 0, samples 36 to 39)."
    assert first["5"] == (True, 0, [])
    assert first["6"] == (False, 1, [said])
    assert first["asked"] == (5, False, True)  # whoever asks is told, and acts on nothing


def stopped(lag_steps: int, why: str) -> tuple[int, str, list[tuple[float, ...]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(lag_steps, max_skips=1, schedule="constant") as session:
            panel = session.guards.after_step

            def guard() -> None:
                panel()
                if why == "guard" and session.last.number == 6:
                    session.heed(Finding(code="HG002", severity=Severity.ERROR, message="it diverges."))

            session.guards.after_step = guard
            try:
                for batch in session.steps():
                    number = session.position[0] + 1
                    if why == "signal" and rank() == 1 and number == 6:
                        os.kill(os.getpid(), signal.SIGTERM)
                    bad = "gradient" if why == "skips" and number in (5, 6) else ""
                    session.backward(poisoned(loss_of(session, batch), bad), count=len(batch[0]))
                    if why == "early":
                        session.judge(1.0)
            except GuardStop as error:
                return session.position[0], str(error), state_of(session)
            return session.position[0], session.stop_reason, state_of(session)


@pytest.mark.parametrize(("why", "late_by"), [("signal", 0), ("early", 0), ("guard", 1), ("skips", 0)])
def test_all_ranks_stop_at_the_same_step(ranks, why, late_by):
    """Wishes of the hosts are in time. A guard that reads the loss ends the run after one more step; a run of
    skips ends in that step, before its update."""
    at_once, late = ranks(2, stopped, 0, why), ranks(2, stopped, 1, why)
    for first, second in (at_once, late):
        assert first[:2] == second[:2]
        assert same(first[2], second[2])
    assert late[0][0] == at_once[0][0] + late_by
    assert late[0][1] == at_once[0][1] != ""
    if not late_by:
        assert same(late[0][2], at_once[0][2])


def attempt(folder: str, lag_steps: int, stop_at: int | None, resume: bool) -> dict[str, Any]:
    os.chdir(folder)
    settings = {"record": True, "resume": "last" if resume else None}
    saved = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(lag_steps, **settings) as session:
            for batch in session.steps():
                number = session.position[0] + 1
                bad = "gradient" if number == 5 else ""
                session.backward(poisoned(loss_of(session, batch), bad), count=len(batch[0]))
                if number == stop_at:
                    session.stop = Stop("SIGTERM", 75)
                elif number % 4 == 0:
                    assert session.made is not None or not lag_steps
                    session.save()
                    saved.append((session.made is None, len(session.seen) and session.seen[-1][0] == number))
        return {
            "seen": session.seen,
            "state": state_of(session),
            "saved": saved,
            "counts": (session.applied_steps, session.skipped_steps),
            "in_a_row": session.skips.state(),
            "groups": copy.deepcopy([group["lr"] for group in session.updater.optimizer.param_groups]),
        }


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("stop_at", [5, 8])
def test_a_checkpoint_holds_no_unread_step_and_a_resume_is_bitwise(ranks, tmp_path, num_ranks, stop_at):
    """Step 5 is a skip that nobody has read when the run is told to end there."""
    for name in ("whole", "cut", "at_once"):
        (tmp_path / name).mkdir()
    whole = ranks(num_ranks, attempt, str(tmp_path / "whole"), 1, None, False)
    first = ranks(num_ranks, attempt, str(tmp_path / "cut"), 1, stop_at, False)
    second = ranks(num_ranks, attempt, str(tmp_path / "cut"), 1, None, True)
    at_once = ranks(num_ranks, attempt, str(tmp_path / "at_once"), 0, None, False)
    for mine in range(num_ranks):
        assert whole[mine]["saved"] == [(True, True)] * 3
        assert repr(first[mine]["seen"] + second[mine]["seen"]) == repr(whole[mine]["seen"])
        for other in (second[mine], at_once[mine]):
            assert same(other["state"], whole[mine]["state"])
            for key in ("counts", "in_a_row", "groups"):
                assert other[key] == whole[mine][key]


def short_of_memory(lag_steps: int) -> dict[str, Any]:
    """Rank 1 runs out of memory in forward of step 6, after a bad step that nobody has read."""
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(lag_steps) as session:
            for batch in session.steps():
                number = session.position[0] + 1
                with session.back_off.guard():
                    loss = loss_of(session, batch)
                    if rank() == 1 and number == 6 and not refused:
                        refused += 1
                        raise torch.OutOfMemoryError("made up")
                    session.backward(poisoned(loss, "gradient" if number == 5 else ""), count=len(batch[0]))
        found = [finding.code for finding in session.outcome.findings]
        return {
            "seen": session.seen,
            "found": found,
            "state": state_of(session),
            "cut": session.recipe.accumulation,
        }


def test_ranks_back_off_together_with_a_step_unread(ranks):
    late, at_once = ranks(2, short_of_memory, 1), ranks(2, short_of_memory, 0)
    assert late[0]["found"] == late[1]["found"] == ["HG007", "HG140"]
    assert late[0]["cut"] == late[1]["cut"] == 2
    for mine in range(2):
        assert repr(late[mine]["seen"]) == repr(at_once[mine]["seen"])
        assert same(late[mine]["state"], at_once[mine]["state"])
