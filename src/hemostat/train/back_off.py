"""`BackOff`: when one rank runs out of memory, all ranks take the window again in micro-batches of half the size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from hemostat.data import MicroBatch, TrainLoader
from hemostat.errors import EnvironmentFailure
from hemostat.findings import Finding, Severity
from hemostat.train.header import recipe_header
from hemostat.train.memory import REFUSALS, is_out_of_memory, release
from hemostat.train.parallel import dp
from hemostat.train.resolve import feed_of, recut
from hemostat.train.undone import Buffers
from hemostat.train.window_end import settle

if TYPE_CHECKING:
    from hemostat.train.session import Session

Result = TypeVar("Result")


class BackOff:
    """Keeps a session going where memory is short; global batch, order and steps stay what they are.

    Args:
        session: the one to keep going.

    Attributes:
        found: the micro-batch that was found to fit; None while the recipe's holds.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._buffers = Buffers(dp.unwrap(session.model))
        self.found: int | None = None

    def micro_batches(self) -> Iterator[MicroBatch]:
        """Those of the session's loader; when a smaller cut takes its place, those of the new one."""
        session = self._session
        loader: TrainLoader | None = None
        while loader is not session.loader:
            loader, begins = session.loader, True
            for micro in loader:
                if begins:
                    self._buffers.keep()
                begins = micro.last
                yield micro
                if loader is not session.loader:
                    break

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Put forward and backward of one micro-batch inside: an allocation that is refused there ends no run.

        The window is given up on all ranks, and its samples come again from `session.steps()` in smaller
        micro-batches.

        Raises:
            EnvironmentFailure: one sample at a time is too much already; on all ranks.
        """
        try:
            yield
            return
        except REFUSALS as error:
            micro = self._session.batch
            if micro is None or not is_out_of_memory(error) or self._meets_on_the_way():
                raise
            release(error)
        session = self._session
        # the others may wait for this rank's gradients: zeros let them come to the vote
        dp.complete(session.model, session.bucket_sizes, session.noise.num_reduced)
        settle(session)  # as they do before they vote
        session.control.vote(0.0, 0.0, 0.0, samples=micro.position, out_of_memory=True)
        self.give_up(micro, ran_out=True)

    def give_up(self, micro: MicroBatch, *, ran_out: bool = False) -> None:
        """Forget the window of `micro` and begin it again with half the micro-batch; on all ranks.

        Args:
            micro: one of the window.
            ran_out: this rank is why.

        Raises:
            EnvironmentFailure: the micro-batch is one sample.
        """
        session = self._session
        ranks = self._where(ran_out)
        session.window_loss.drain()
        session.updater.optimizer.zero_grad(set_to_none=True)
        session.forget_batch()
        self._buffers.put_back()
        if session.world.num_ranks > 1:  # the reducer may stand in the middle of a backward
            session.wrap(session.model, find_unused=session.model.find_unused_parameters)  # type: ignore[arg-type]
        session.noise.part_square(1.0)
        self._halve(ranks, micro.position - micro.window_samples)

    def until_it_fits(self, work: Callable[[], Result], *, searching: bool = False) -> Result:
        """Do something local on every rank, with smaller and smaller micro-batches until all of them can.

        Args:
            work: looks at `session.recipe.micro_batch`; the ranks must not meet in it.
            searching: too large a start is what one expects, so nothing is found fault with.
        """
        session = self._session
        start_samples = session.position[1]
        while True:
            session.spending.refuse_if_spent()
            result: list[Result] = []
            try:
                result.append(work())
            except REFUSALS as error:
                if not is_out_of_memory(error):
                    raise
                release(error)
            ranks = self._where(not result)
            if not ranks:
                if searching:
                    self.found = session.recipe.micro_batch
                return result[0]
            session.updater.optimizer.zero_grad(set_to_none=True)
            self._halve(ranks, start_samples, searching=searching)

    def _meets_on_the_way(self) -> bool:
        """Ranks that meet before the vote would wait there for the one that left; better to fail at once."""
        if not self._session.mesh.layout.is_dp:
            return True
        layers = dp.unwrap(self._session.model).modules()
        return self._session.world.num_ranks > 1 and any(
            isinstance(layer, torch.nn.SyncBatchNorm) for layer in layers
        )

    def _where(self, ran_out: bool) -> list[int]:
        """The ranks that ran out of memory, on all ranks."""
        return [rank for rank, told in enumerate(self._session.world.gather("x" * ran_out)) if told]

    def _halve(self, ranks: list[int], start_samples: int, *, searching: bool = False) -> None:
        session = self._session
        before, step = session.recipe.micro_batch, session.position[0] + 1
        who = "" if session.world.num_ranks == 1 else f"{_named(ranks)} "
        ran_out = f"{who}ran out of memory" if who else "memory ran out"
        if before == 1:
            raise EnvironmentFailure(
                f"micro_batch=1: {ran_out} at step {step} with one sample at a time. Use a smaller model or smaller "
                "samples, train.precision=bf16, or a device with more memory."
            )
        if self.found is None or searching:
            why = f"{before} was too much" if searching else f"{ran_out} at step {step}"
        else:
            why = f"{ran_out} again at step {step}"
        self._cut(2 * session.recipe.accumulation, why)
        self.found = session.recipe.micro_batch
        session.loader.close()
        session.loader = TrainLoader(
            session.source,
            feed_of(session.recipe, session.mesh, session.settings.seed),
            start_samples=start_samples,
            workers=session.settings.workers,
            waits=session.loader.waits,
        )
        if not searching:
            everywhere = " on all ranks" if who else ""
            session.heed(
                Finding(
                    code="HG140",
                    severity=Severity.WARNING,
                    message=f"micro_batch {before} -> {self.found}{everywhere} after {ran_out} at step {step}.",
                    fix=f"To start there: micro_batch={self.found} and global_batch={session.recipe.global_batch}.",
                    where=f"step {step}",
                    evidence={"before": before, "after": self.found, "step": step, "ranks": ranks},
                )
            )

    def _cut(self, accumulation: int, why: str) -> None:
        session = self._session
        session.recipe = recut(session.recipe, accumulation, why)
        session.record.header(lambda: recipe_header(session.recipe))

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {"found": self.found}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`: what did not fit before is not tried again, on any number of ranks."""
        self.found = state["found"]
        recipe = self._session.recipe
        if self.found is not None and self.found < recipe.micro_batch:
            share = -(-recipe.global_batch // recipe.num_ranks)
            self._session.recipe = recut(
                recipe, -(-share // self.found), "more did not fit before the resume"
            )


def _named(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
