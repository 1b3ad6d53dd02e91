"""The learning-rate range test on all ranks: a sweep over real steps that leaves no trace in the run."""

from __future__ import annotations

import copy
import math
import operator
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from hemostat.config import Resolved, to_plain
from hemostat.data import TrainLoader, Workers
from hemostat.recipe import lr_range
from hemostat.task import to_device
from hemostat.train.parallel import dp
from hemostat.train.self_check import Compute
from hemostat.train.undone import undone

if TYPE_CHECKING:
    from hemostat.train.session import Session

NUM_STEPS = 100


def find_range(session: Session, compute: Compute) -> lr_range.RangeVerdict:
    """Sweep the rate over about 100 steps and read the losses; the verdict is in the recipe and the record.

    Weights, optimizer, scaler, buffers, random numbers and the position in the data are afterwards as they were.
    What is judged is the loss over all ranks, so that every rank stops at one step and comes to one verdict.

    Args:
        session: opened, before its first step.
        compute: (model, batch) -> (loss sum, count).

    Raises:
        BudgetStop: a cap leaves no time for the next step of the sweep; on all ranks.
    """
    rates = lr_range.sweep(session.recipe.lr, NUM_STEPS)
    losses: list[float] = []
    with _restored(session):
        for loss in _losses(session, compute, rates):
            losses.append(loss)
            if lr_range.exploded(losses):
                break
    verdict = lr_range.read_range(rates, losses)
    row = Resolved(
        field="lr_range",
        value=verdict.lr,
        before=session.recipe.lr,
        why=f"{verdict.why} Tested at a global batch of {session.recipe.global_batch}; the run does not use it.",
        source=lr_range.SOURCE,
        confidence="medium" if verdict.lr is not None else "low",
    )
    session.recipe = msgspec.structs.replace(session.recipe, values=(*session.recipe.values, row))
    session.record.header(
        lambda: {
            "recipe": [to_plain(value) for value in session.recipe.values],
            "lr_range": {
                **to_plain(verdict),
                "rates": rates[: len(losses)],
                "losses": list(map(_plain, losses)),
            },
        }
    )
    return verdict


def said(verdict: lr_range.RangeVerdict, session: Session) -> str:
    """The verdict as a line, with what to paste."""
    if verdict.lr is None:
        return f"range test: no verdict: {verdict.why} A larger batch is less noisy."
    return (
        f"range test: lr {verdict.lr:.3g}: {verdict.why} This run keeps {session.recipe.lr:.3g}; to use it: "
        f"--set lr={verdict.lr:.3g} --set tuned_batch={session.recipe.global_batch}"
    )


def _losses(session: Session, compute: Compute, rates: list[float]) -> Iterator[float]:
    """Mean loss of each step over all ranks, before its update."""
    world = session.world
    steps_per_epoch = -(-session.loader.num_samples // session.recipe.global_batch)
    total = -(-len(rates) // steps_per_epoch) * session.loader.num_samples
    feed = msgspec.structs.replace(session.loader.feed, total_samples=total)
    loader = TrainLoader(session.source, feed, workers=Workers(mode="none"))
    ahead = iter(rates)
    begun_s = [time.perf_counter()]
    for micro in loader:
        with dp.accumulating(session.model, micro.last):
            with session.autocast():
                loss_sum, count = compute(session.model, to_device(micro.data, world.device))
            session.accumulate(loss_sum, count, micro)
        if not micro.last:
            continue
        begun_s.append(time.perf_counter())
        session.spending.refuse_if_spent(max(map(operator.sub, begun_s[1:], begun_s)))
        summed, items = world.sum(session.window_loss.drain())
        rate = next(ahead, None)
        if rate is None:
            return
        session.updater.apply(micro.window_samples / items if items else 0.0, rate)
        session.noise.part_square(1.0)  # what its hook saw belongs to no step
        if items:
            yield summed / items


@contextmanager
def _restored(session: Session) -> Iterator[None]:
    """Put back all that steps change."""
    optimizer, precision, updater = session.updater.optimizer, session.precision, session.updater
    params = list(dp.unwrap(session.model).parameters())
    weights = [param.detach().clone() for param in params]
    state = {param: copy.deepcopy(values) for param, values in optimizer.state.items()}
    groups: list[dict[str, Any]] = [
        {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
    scaler = copy.deepcopy(precision.scaler.state_dict()) if precision.scaler else None
    counted = dict(vars(updater))
    try:
        with undone(dp.unwrap(session.model), updater.params, session.world.device):
            yield
    finally:
        with torch.no_grad():
            for param, before in zip(params, weights, strict=True):
                param.copy_(before)
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, values in zip(optimizer.param_groups, groups, strict=True):
            group.update(values)
        if precision.scaler and scaler is not None:
            precision.scaler.load_state_dict(scaler)
        vars(updater).update(counted)


def _plain(loss: float) -> float | str:
    return loss if math.isfinite(loss) else str(loss)
