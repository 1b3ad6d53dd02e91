"""Start-up self-check: one window at N ranks against one process must give the same gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from hemostat.data import Source
from hemostat.errors import GuardStop, TaskError
from hemostat.task import evaluation_mode, to_device
from hemostat.train.guards import same_leaves
from hemostat.train.parallel import dp
from hemostat.train.precision import Precision
from hemostat.train.repeats import random_reads, reader, seeded
from hemostat.train.rng import generators_kept
from hemostat.train.session import Session
from hemostat.train.undone import Buffers
from hemostat.train.update import total_norm

TOLERANCE = 1e-2
Compute = Callable[[torch.nn.Module, Any], tuple[torch.Tensor, Any]]


class SelfCheck(NamedTuple):
    """What the check saw.

    Attributes:
        ratio: gradient norm at N ranks over that of one process; 1 when the loss is shared out rightly. NaN where
            nothing could be compared: the gradient is not finite, or the data stay random when the global
            generators are seeded before each sample.
        difference: 2-norm of the difference of the two gradients, over that of one process.
        unused: parameters that got no gradient.
    """

    ratio: float
    difference: float
    unused: tuple[str, ...]


def self_check(session: Session, compute: Compute, *, random_data: bool | None = None) -> SelfCheck:
    """Compare the gradient of one small, unevenly shared window with that of one process.

    The window has 2 N + 1 samples, so that ranks and micro-batches hold unlike numbers: a mean of means, a loss
    multiplied by the number of processes, or a loss that depends on the composition of the batch shows up. It
    runs in float32 and evaluation mode, changes no weight and restores the random state.

    Args:
        session: freshly opened.
        compute: (model, batch) -> (loss sum, count).
        random_data: what `random_reads` saw; None asks it. Such a window is read one sample at a time, with the
            global generators seeded from its index, so that both sides see the same data.

    Raises:
        GuardStop: the gradients differ by more than 1 %.
    """
    if random_data is None:
        random_data = bool(random_reads(session))
    source = seeded(session.loader.source) if random_data else session.loader.source
    buffers = Buffers(dp.unwrap(session.model))
    # a resumed rank has running statistics of its own, and one process has none of the others'
    session.mesh.average_(list(dp.unwrap(session.model).buffers()))
    try:
        with generators_kept(session.world.device), _plain(session):
            repeats = not random_data or _repeats(session, source)
            expected, unused = _one_process(session, compute, source)
            if unused:
                session.wrap(session.model, find_unused=True)
            seen = _all_ranks(session, compute, source)
    except TaskError as error:
        raise TaskError(
            f"self-check, in evaluation mode: {error} "
            "If it is right in training, skip the check: --set train.self_check=false."
        ) from error
    finally:
        buffers.put_back()
    _clear(session)
    norm = total_norm(list(expected.values()))
    if norm == 0.0:
        return SelfCheck(1.0, 0.0, unused)
    if not repeats or not math.isfinite(norm):
        return SelfCheck(
            math.nan, math.nan, unused
        )  # what is not finite is said by the first step, and where
    apart = [seen[name] - grad if name in seen else grad for name, grad in expected.items()]
    check = SelfCheck(total_norm(list(seen.values())) / norm, total_norm(apart) / norm, unused)
    if not check.difference <= TOLERANCE:
        raise GuardStop(
            f"self-check: the gradient of {session.world.num_ranks} process(es) is {check.ratio:.4g} times that of "
            f"one on the same samples (they differ by {check.difference:.2g}). The loss depends on how the batch "
            "is cut. Return (sum, count) from loss, or skip with --set train.self_check=false."
        )
    return check


def _repeats(session: Session, source: Source) -> bool:
    """On no rank do two reads of its share differ."""
    world = session.world
    share = reader(session, source, num=_window(session), rank=world.rank, num_ranks=world.num_ranks)
    first, second = (next(iter(share)).data for _ in range(2))
    return not world.sum([float(not same_leaves(first, second))])[0]


def _one_process(
    session: Session, compute: Compute, source: Source
) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    model = dp.unwrap(session.model)
    samples = _window(session)
    items = 0.0
    passes = -(-samples // session.recipe.micro_batch)  # one, unless memory is short
    if passes > 1 and passes == session.world.num_ranks * _accumulation(session):
        passes += 1  # another cut than that of the ranks, else a mean of means would agree with itself
    for micro in reader(session, source, num=samples, accumulation=passes):
        loss_sum, count = compute(model, to_device(micro.data, session.world.device))
        (loss_sum / samples).backward()  # type: ignore[no-untyped-call]
        items += float(count)
    factor = samples / items if items else 0.0
    named = [(name, param) for name, param in model.named_parameters() if param.requires_grad]
    grads = {name: param.grad * factor for name, param in named if param.grad is not None}
    _clear(session)
    return grads, tuple(name for name, _ in named if name not in grads)


def _all_ranks(session: Session, compute: Compute, source: Source) -> dict[str, torch.Tensor]:
    world = session.world
    share = {"rank": world.rank, "num_ranks": world.num_ranks, "accumulation": _accumulation(session)}
    for micro in reader(session, source, num=_window(session), **share):
        with dp.accumulating(session.model, micro.last):
            loss_sum, count = compute(session.model, to_device(micro.data, world.device))
            session.accumulate(loss_sum, count, micro)
    _, count = world.sum(session.window_loss.drain())
    factor = _window(session) / count if count else 0.0
    model = dp.unwrap(session.model)
    return {name: param.grad * factor for name, param in model.named_parameters() if param.grad is not None}


def _accumulation(session: Session) -> int:
    """Micro-batches of a rank in the check: two where the run accumulates, more where memory asks for it."""
    share = -(-_window(session) // session.world.num_ranks)
    return max(min(2, session.recipe.accumulation), -(-share // session.recipe.micro_batch))


def _window(session: Session) -> int:
    return min(2 * session.world.num_ranks + 1, session.loader.num_samples)


def _clear(session: Session) -> None:
    for param in session.model.parameters():
        param.grad = None
    session.noise.part_square(1.0)  # what the hook saw here belongs to no step


@contextmanager
def _plain(session: Session) -> Iterator[None]:
    precision = session.precision
    session.precision = Precision("fp32", session.world.device)
    try:
        with evaluation_mode(dp.unwrap(session.model)):
            yield
    finally:
        session.precision = precision
