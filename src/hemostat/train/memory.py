"""Telling that memory ran out from other failures, letting go of what a failed pass holds, and finding what fits."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from hemostat.data import Source
from hemostat.errors import TaskError
from hemostat.task import to_device
from hemostat.train.guards import tensor_leaves
from hemostat.train.parallel import dp
from hemostat.train.undone import undone

if TYPE_CHECKING:
    from hemostat.train.session import Session

PEEK_SAMPLES: Final = 64
REFUSALS: Final = (RuntimeError, MemoryError, TaskError)  # a task's own message may be wrapped around one
_TEXTS: Final = (
    "can't allocate memory",  # torch's allocator on the CPU
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """An allocation was refused; wrapped by a message of the task, too.

    Examples:
        >>> is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory")), is_out_of_memory(RuntimeError("shapes"))
        (True, False)
        >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
        True
    """
    return any(
        isinstance(part, torch.OutOfMemoryError | MemoryError)
        or (isinstance(part, RuntimeError) and any(text in str(part) for text in _TEXTS))
        for part in _causes(error)
    )


def release(error: BaseException) -> None:
    """Let go of the tensors that the frames of a failed pass hold, and give cached blocks back to the device."""
    for part in _causes(error):
        traceback.clear_frames(part.__traceback__)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _causes(error: BaseException) -> Iterator[BaseException]:
    part: BaseException | None = error
    while part is not None:
        yield part
        part = part.__cause__


def find_micro_batch(
    session: Session, compute: Callable[[torch.nn.Module, Any], tuple[torch.Tensor, Any]]
) -> None:
    """Cut the batch into the largest micro-batches that fit on every rank: the whole share, a half, a quarter ...

    Each size is tried with two throw-away passes, the second with gradients in place as when they accumulate, on
    copies of the largest of `PEEK_SAMPLES` samples. Weights, running statistics and random numbers stay.

    Args:
        session: before its first step.
        compute: (model, batch) -> (loss sum, count).

    Raises:
        EnvironmentFailure: not even one sample fits.
    """
    model, device = dp.unwrap(session.model), session.world.device

    def passes() -> None:
        batch = largest_samples(session, session.recipe.micro_batch)
        for _ in range(2):
            with session.autocast():
                loss_sum, _ = compute(model, to_device(batch, device))
            session.precision.backward(loss_sum)

    with undone(model, session.updater.params, device):
        session.back_off.until_it_fits(passes, searching=True)


def largest_samples(session: Session, rows: int) -> Any:
    """A batch of `rows` copies of the largest sample in sight; of a stream, the first ones.

    Args:
        session: whose training data are looked at.
        rows: size of the batch.
    """
    source = session.source
    if source.stream:
        return next(iter(session.new_loader())).data
    num = min(PEEK_SAMPLES, source.num_samples)
    places = [source.num_samples * part // num for part in range(num)]
    largest = max(places, key=lambda place: _num_bytes(source, place))
    return source.reader()(torch.full((rows,), largest))


def _num_bytes(source: Source, place: int) -> int:
    leaves = tensor_leaves(source.reader()(torch.tensor([place])))
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves)
