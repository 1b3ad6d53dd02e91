"""`prepare`: a session around a loop over epochs and a loader, as most scripts have it."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from hemostat.data import Source
from hemostat.errors import TaskError, UnknownNameError
from hemostat.recipe import Base, Devices
from hemostat.train.loop_guard import check_given
from hemostat.train.own_optimizer import read_off
from hemostat.train.session import Session
from hemostat.train.settings import TrainSettings


class Prepared(NamedTuple):
    """What takes the place of a script's own objects.

    Attributes:
        session: call `session.backward(loss_sum, count)` once a batch, and `session.close()` at the end.
        model: what the loop calls.
        optimizer: `step` and `zero_grad` do nothing, because `session.backward` does both.
        loader: each pass over it is one epoch of this rank's micro-batches.
    """

    session: Session
    model: torch.nn.Module
    optimizer: Any
    loader: EpochLoader


def prepare(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    train_data: Any,
    devices: Devices | None = None,
    settings: TrainSettings | None = None,
    **base: Any,
) -> Prepared:
    """Open a session for a script that keeps its loops.

    The optimizer's kind and rate and the DataLoader's batch are read off; the rate stays constant unless
    `schedule` is given. The batch is the global one: ranks share it. The run ends at `session.close()`, or when
    the process does. A torch scheduler has no place in such a run: `schedule`, `warmup_steps` and `eta_min` have.

    Args:
        model: the module to train.
        optimizer: over its parameters.
        train_data: DataLoader or map-style dataset.
        devices: the batch on the devices at hand.
        settings: how the engine runs.
        base: fields of `hemostat.Base`, such as `epochs=10`, `schedule="cosine"`, `clip_norm=1.0`.

    Raises:
        UsageError: what was given cannot be meant; raised on all ranks.

    Examples:
        >>> data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 2)), batch_size=4)
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> quiet = TrainSettings(record=False)
        >>> session, model, optimizer, loader = prepare(model, optimizer, data, settings=quiet, epochs=3)
        >>> for epoch in range(3):
        ...     for (x,) in loader:
        ...         session.backward(model(x).sum(), count=len(x))
        >>> session.close()
        >>> session.last.number, session.last.lr
        (6, 0.1)
    """
    check_given(model, optimizer, Base())
    source = train_data if isinstance(train_data, Source) else Source(train_data, "train_data")
    known: dict[str, Any] = {"schedule": "constant"} | read_off(optimizer)
    if source.declared_batch is not None:
        known["tuned_batch"] = source.declared_batch
    unknown = [name for name in base if name not in Base.__struct_fields__]
    if unknown:
        raise UnknownNameError("prepare", unknown[0], Base.__struct_fields__)
    session = Session(model, optimizer, source, Base.from_text(known | base), devices, settings)
    session.__enter__()
    atexit.register(_close_at_exit, session)
    return Prepared(session, session.model, IdleOptimizer(optimizer), EpochLoader(session))


def _close_at_exit(session: Session) -> None:
    """The interpreter keeps what ended the script, if anything did, but for `sys.exit`."""
    error = getattr(sys, "last_value", None)
    session.__exit__(type(error) if error else None, error, None)


class EpochLoader:
    """The steps of a session, one epoch at a time.

    After a `break` the next pass goes on behind the last batch. Once the run is over, or told to stop, passes
    are empty, so that a loop over more epochs does no harm.

    Args:
        session: an open one; its `steps()` must not be used beside this.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps = session.steps()

    def __len__(self) -> int:
        """Micro-batches in one epoch on this rank."""
        feed, num_samples = self._session.loader.feed, self._session.loader.num_samples
        full, rest = divmod(num_samples, feed.global_batch)
        num = full * feed.num_micro_batches(feed.global_batch)
        return num + (feed.num_micro_batches(rest) if rest else 0)

    def __iter__(self) -> Iterator[Any]:
        session = self._session
        for batch in self._steps:
            yield batch
            if session.awaits_backward:
                raise TaskError(
                    "a batch came back without session.backward(loss_sum, count). Call it once a batch."
                )
            if (
                session.at_window_end
                and session.position[1]
                and session.position[1] % session.loader.num_samples == 0
            ):
                return


class IdleOptimizer:
    """The script's optimizer with `step` and `zero_grad` put to rest; everything else reaches it.

    Args:
        optimizer: the one that the session steps.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    def step(self) -> None:
        """Nothing: `session.backward` makes the step at the end of each window."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: `session.backward` clears the gradients after each window, not before."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)
