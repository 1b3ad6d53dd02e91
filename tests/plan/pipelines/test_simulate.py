"""Playing pipelines: by hand on small ones, and what must hold on all."""

from __future__ import annotations

import math

import pytest

from hemostat.errors import FieldError
from hemostat.plan.pipelines import PATTERNS, Action, Pipeline, StageTime, pipeline, simulate


def test_two_ranks_by_hand():
    times = [StageTime(1.0, 1.0, 1.0), StageTime(2.0, 1.5, 0.5)]
    line = simulate(pipeline("1f1b", 2, 2), times, send_s=0.5)
    # rank 0: F0 F1 B0 B1; rank 1: F0 B0 F1 B1
    assert line.begin_s == ((0.0, 1.0, 6.0, 10.0), (1.5, 3.5, 5.5, 7.5))
    assert line.end_s == ((1.0, 2.0, 8.0, 12.0), (3.5, 5.5, 7.5, 9.5))
    assert line.makespan_s == 12.0
    assert line.busy_s == (6.0, 8.0)
    assert line.bubble == pytest.approx(10.0 / 14.0)


def test_a_weight_part_lets_the_stage_before_go_on():
    whole = simulate(pipeline("1f1b", 2, 1)).makespan_s
    split = simulate(pipeline("zero_bubble", 2, 1)).makespan_s
    assert (whole, split) == (6.0, 5.0)


def test_nothing_is_sent_within_a_rank():
    alone = pipeline("interleaved", 1, 3, 2)
    assert simulate(alone, send_s=7.0).makespan_s == simulate(alone).makespan_s == 18.0


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("send_s", [0.0, 0.3])
def test_nothing_begins_before_what_it_needs(name, send_s, draw_times):
    v = 2 if name == "interleaved" else 1
    played = pipeline(name, 4, 6, v)
    times = draw_times[: played.num_stages]
    line = simulate(played, times, send_s)
    ends = {
        action: end_s
        for actions, row in zip(played.ranks, line.end_s, strict=True)
        for action, end_s in zip(actions, row, strict=True)
    }
    num_checked = 0
    for actions, begins, row in zip(played.ranks, line.begin_s, line.end_s, strict=True):
        free_s = 0.0
        for action, begin_s, end_s in zip(actions, begins, row, strict=True):
            stage, kind, number = action
            assert end_s == pytest.approx(begin_s + times[stage].of(kind))
            needs = [free_s]
            if kind == "forward" and stage:
                needs.append(ends[Action(stage - 1, "forward", number)] + send_s)
            if kind in ("backward", "backward_input"):
                last = stage == played.num_stages - 1
                behind = Action(stage, "forward", number) if last else Action(stage + 1, kind, number)
                needs.append(ends[behind] + (0.0 if last else send_s))
            # neither before nor later than it could
            assert begin_s == pytest.approx(max(needs))
            free_s = end_s
            num_checked += 1
    assert num_checked == sum(map(len, played.ranks))


def test_ranks_that_wait_for_each_other_are_named():
    orders = [
        (Action(0, "backward", 0), Action(0, "forward", 0)),
        (Action(1, "forward", 0), Action(1, "backward", 0)),
    ]
    crossed = Pipeline(name="mine", num_stages=2, num_micro_batches=1, ranks=tuple(orders))
    with pytest.raises(
        FieldError, match=r"schedule='mine': stops with rank 0 in 0B0, rank 1 in 1F0: each waits"
    ):
        simulate(crossed)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_time_must_be_a_time(bad):
    for arguments in ([StageTime(), StageTime(1.0, bad, 1.0)], 0.0), (None, bad):
        with pytest.raises(FieldError, match="must be finite and not negative"):
            simulate(pipeline("1f1b", 2, 2), *arguments)
    with pytest.raises(FieldError, match="times=3: are not 2"):
        simulate(pipeline("1f1b", 2, 2), [StageTime()] * 3)


def test_no_time_at_all_has_no_bubble():
    assert simulate(pipeline("1f1b", 2, 2), [StageTime(0.0, 0.0, 0.0)] * 2).bubble == 0.0
