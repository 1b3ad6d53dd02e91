"""`check`: is a pipeline complete, in order, and free of ranks that wait for each other."""

from __future__ import annotations

from hemostat.errors import FieldError
from hemostat.plan.pipelines.action import LETTERS, Action, Kind
from hemostat.plan.pipelines.schedule import Pipeline
from hemostat.plan.pipelines.simulate import simulate

# what has to come before, on the same rank; one of them is enough
_BEFORE: dict[Kind, Kind] = {
    "backward": "forward",
    "backward_input": "forward",
    "backward_weight": "backward_input",
}


def check(pipeline: Pipeline) -> None:
    """Refuse a pipeline that cannot run or leaves something out; a schedule of one's own needs this first.

    Every micro-batch passes every stage forward once and backward once (whole, or its input and then its weight
    part), on the rank that holds the stage, and the ranks do not wait for each other in a circle.

    Raises:
        FieldError: the first wrong action, by rank and place; or the ones that all ranks wait in.

    Examples:
        >>> from hemostat.plan.pipelines import pipeline
        >>> check(pipeline("1f1b", num_ranks=2, num_micro_batches=4))
    """
    if pipeline.num_ranks < 1 or pipeline.num_stages % pipeline.num_ranks:
        raise FieldError(
            "schedule.num_stages",
            pipeline.num_stages,
            f"is not the same number of stages on each of {pipeline.num_ranks} ranks",
            "Give every rank as many stages.",
        )
    done: set[Action] = set()
    for rank, actions in enumerate(pipeline.ranks):
        for place, action in enumerate(actions):
            fault = _fault(pipeline, rank, action, done)
            if fault:
                raise _wrong(pipeline, f"rank {rank}, action {place}, {action}: {fault}")
            done.add(action)
    missing = _first_missing(pipeline, done)
    if missing:
        raise _wrong(pipeline, missing)
    simulate(pipeline)


def _fault(pipeline: Pipeline, rank: int, action: Action, done: set[Action]) -> str:
    stage, kind, micro_batch = action
    if kind not in LETTERS:
        return f"its kind is none of {', '.join(LETTERS)}"
    if not 0 <= stage < pipeline.num_stages or not 0 <= micro_batch < pipeline.num_micro_batches:
        return f"there are {pipeline.num_stages} stages and {pipeline.num_micro_batches} micro-batches"
    if pipeline.rank_of(stage) != rank:
        return f"stage {stage} is on rank {pipeline.rank_of(stage)}"
    if action in done:
        return "it was there before"
    before = _BEFORE.get(kind)
    if before and Action(stage, before, micro_batch) not in done:
        return f"{Action(stage, before, micro_batch)} has to come before"
    whole, part = Action(stage, "backward", micro_batch), Action(stage, "backward_input", micro_batch)
    if (kind == "backward" and part in done) or (kind == "backward_input" and whole in done):
        return "its gradient would be added twice"
    return ""


def _first_missing(pipeline: Pipeline, done: set[Action]) -> str:
    for stage in range(pipeline.num_stages):
        for number in range(pipeline.num_micro_batches):
            rank = pipeline.rank_of(stage)
            if Action(stage, "forward", number) not in done:
                return f"{Action(stage, 'forward', number)} is missing on rank {rank}"
            if Action(stage, "backward", number) in done:
                continue
            if Action(stage, "backward_weight", number) not in done:
                split = Action(stage, "backward_input", number) in done
                lacking = Action(stage, "backward_weight" if split else "backward", number)
                return f"{lacking} is missing on rank {rank}"
    return ""


def _wrong(pipeline: Pipeline, fault: str) -> FieldError:
    return FieldError("schedule", pipeline.name, fault, "Mend the order of that rank.")
