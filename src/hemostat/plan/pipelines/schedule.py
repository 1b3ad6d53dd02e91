"""`Pipeline`: which actions each rank takes, in order; `Pattern`: what the file of a schedule holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hemostat.plan.pipelines.action import Action, StageTime


class Size(NamedTuple):
    """How large a pipeline is.

    Attributes:
        num_ranks: processes that a sample passes.
        num_micro_batches: parts that the samples of one optimizer step come in.
        stages_per_rank: pieces of the model on each process; stage s is on rank s % num_ranks.
    """

    num_ranks: int
    num_micro_batches: int
    stages_per_rank: int = 1


class Pattern(Protocol):
    """One schedule for every size: its order, and what the literature says of its idle time and its memory."""

    def order(self, rank: int, size: Size) -> list[Action]:
        """The actions of one rank."""

    def bubble(self, size: Size, time: StageTime) -> float:
        """Idle over busy time, where all stages take equally long and sending takes no time."""

    def in_flight(self, rank: int, size: Size) -> int:
        """The most (stage, micro-batch) pairs on a rank that have begun and whose backward is not complete."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The order of all passes of one optimizer step, as plain data.

    Attributes:
        name: of the schedule.
        num_stages: pieces of the model; stage s is on rank s % num_ranks
            (Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2).
        num_micro_batches: parts of the samples.
        ranks: the actions of each rank, first one first; a rank begins its next action as soon as what the
            action needs has arrived.
    """

    name: str
    num_stages: int
    num_micro_batches: int
    ranks: tuple[tuple[Action, ...], ...]

    @property
    def num_ranks(self) -> int:
        """Processes that a sample passes."""
        return len(self.ranks)

    def rank_of(self, stage: int) -> int:
        """The process that holds a stage."""
        return stage % self.num_ranks
