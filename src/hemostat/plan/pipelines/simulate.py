"""When each action of a pipeline begins and ends, and how long its ranks stand idle, by playing it through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import sub
from typing import NamedTuple

from hemostat.errors import FieldError
from hemostat.plan.pipelines.action import LETTERS, Action, Kind, StageTime
from hemostat.plan.pipelines.schedule import Pipeline

_NEVER = math.inf
_Spans = tuple[list[float], list[float]]  # begins and ends of the actions of one rank
_Wait = tuple[list[float], int]  # where the time of an arrival will stand


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """When each action runs.

    Attributes:
        pipeline: what was played.
        begin_s: per rank, seconds from the start of the step to the begin of each of its actions.
        end_s: the same to their ends.
    """

    pipeline: Pipeline = field(repr=False)
    begin_s: tuple[tuple[float, ...], ...]
    end_s: tuple[tuple[float, ...], ...]

    @cached_property
    def makespan_s(self) -> float:
        """Seconds from the first begin to the last end on any rank."""
        return max((ends[-1] for ends in self.end_s if ends), default=0.0)

    @cached_property
    def busy_s(self) -> tuple[float, ...]:
        """Seconds that each rank computes."""
        return tuple(sum(map(sub, *spans)) for spans in zip(self.end_s, self.begin_s, strict=True))

    @property
    def bubble(self) -> float:
        """Idle time over busy time of all ranks together, from the first begin to the last end.

        With b of this, b / (1 + b) is the idle part of the whole time, which is what some papers call bubble.

        Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1: time in the bubble over ideal time.
        """
        busy_s = sum(self.busy_s)
        return self.makespan_s * self.pipeline.num_ranks / busy_s - 1 if busy_s else 0.0


def simulate(pipeline: Pipeline, times: Sequence[StageTime] | None = None, send_s: float = 0.0) -> Timeline:
    """Play a pipeline: every rank begins its next action as soon as what that needs has arrived.

    A forward pass needs the output of the stage before; a backward pass or its input part the gradient of the
    stage behind, or on the last stage the forward pass; a weight part nothing but its turn.

    Args:
        pipeline: a schedule whose actions are complete and in order on each rank (`check` says whether).
        times: per stage, seconds of its passes; None: one second each.
        send_s: seconds from the end of a pass until another rank can use its result. Sending does not stop the
            rank that sends, and no two messages hinder each other.

    Raises:
        FieldError: the ranks wait for each other, or a time is missing, negative or not finite.

    Examples:
        >>> from hemostat.plan.pipelines import pipeline
        >>> line = simulate(pipeline("1f1b", num_ranks=2, num_micro_batches=4))
        >>> line.makespan_s, line.bubble
        (15.0, 0.25)
    """
    if times is None:
        times = (StageTime(),) * pipeline.num_stages
    _check_times(pipeline, times, send_s)
    arrivals = _Arrivals.of(pipeline, send_s)
    durations = {kind: [time.of(kind) for time in times] for kind in LETTERS}
    played: list[_Spans] = [([], []) for _ in pipeline.ranks]
    waits: dict[int, _Wait] = {rank: ([0.0], 0) for rank in range(pipeline.num_ranks)}
    moved = True
    while moved:
        moved = False
        for rank in sorted(waits):
            known, cell = waits[rank]
            if known[cell] != _NEVER:
                moved = True
                now_waits = _advance(pipeline.ranks[rank], played[rank], arrivals, durations)
                if now_waits:
                    waits[rank] = now_waits
                else:
                    del waits[rank]
    waiting = [f"rank {rank} in {pipeline.ranks[rank][len(played[rank][1])]}" for rank in sorted(waits)]
    if waiting:
        raise FieldError(
            "schedule",
            pipeline.name,
            f"stops with {', '.join(waiting)}: each waits for what another does later",
            "Move what they wait for forward.",
        )
    return Timeline(
        pipeline=pipeline,
        begin_s=tuple(tuple(begin_s) for begin_s, _ in played),
        end_s=tuple(tuple(end_s) for _, end_s in played),
    )


class _Arrivals(NamedTuple):
    """When what a pass needs is there, by stage * num_micro_batches + micro-batch; `_NEVER` before it is known."""

    forward_s: list[float]
    backward_s: list[float]
    num_micro_batches: int
    travel_s: float

    @classmethod
    def of(cls, pipeline: Pipeline, send_s: float) -> _Arrivals:
        num = pipeline.num_micro_batches
        never = [_NEVER] * (pipeline.num_stages * num)
        # a gradient for the stage before the first one is kept too, beyond the end, so that nobody has to ask
        beyond = [_NEVER] * num
        return cls([0.0] * num + never, never + beyond, num, send_s if pipeline.num_ranks > 1 else 0.0)


def _advance(
    actions: tuple[Action, ...], spans: _Spans, arrivals: _Arrivals, durations: dict[Kind, list[float]]
) -> _Wait | None:
    """Play one rank until it has to wait, and return what for; one flat loop, since some have 10 000 actions."""
    forward_s, backward_s, num, travel_s = arrivals
    begins, ends = spans
    now = ends[-1] if ends else 0.0
    num_last = len(forward_s) - 2 * num
    for index in range(len(ends), len(actions)):
        stage, kind, micro_batch = actions[index]
        cell = stage * num + micro_batch
        if kind == "backward_weight":
            begin = now
            now = begin + durations[kind][stage]
        else:
            known = forward_s if kind == "forward" else backward_s
            begin = known[cell]
            if begin == _NEVER:
                return known, cell
            if begin < now:
                begin = now
            now = begin + durations[kind][stage]
            if kind == "forward":
                forward_s[cell + num] = now + travel_s
                if cell >= num_last:
                    backward_s[cell] = now
            else:
                backward_s[cell - num] = now + travel_s
        begins.append(begin)
        ends.append(now)
    return None


def _check_times(pipeline: Pipeline, times: Sequence[StageTime], send_s: float) -> None:
    if len(times) != pipeline.num_stages:
        raise FieldError("times", len(times), f"are not {pipeline.num_stages}", "Give one for each stage.")
    for seconds in (send_s, *(part for time in times for part in time)):
        if not 0 <= seconds < _NEVER:
            raise FieldError("times", seconds, "must be finite and not negative", "Give seconds.")
