"""A wrong order is refused with its first wrong action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hemostat.errors import FieldError
from hemostat.plan.pipelines import PATTERNS, Action, check, pipeline


def changed(name, edit, rank=1):
    """A pipeline of 2 ranks and 3 micro-batches after `edit(list of one rank's actions)`."""
    good = pipeline(name, 2, 3, 2 if name == "interleaved" else 1)
    orders = [list(actions) for actions in good.ranks]
    edit(orders[rank])
    return replace(good, ranks=tuple(map(tuple, orders)))


def swap(left, right):
    def edit(actions):
        actions[left], actions[right] = actions[right], actions[left]

    return edit


@pytest.mark.parametrize("name", PATTERNS)
def test_the_own_schedules_pass(name):
    for p in (1, 2, 3, 4, 7):
        for m in (1, 2, 3, 4, 6, 9):
            for v in (1, 2, 3) if name == "interleaved" else (1,):
                check(pipeline(name, p, m, v))


@pytest.mark.parametrize(
    ("name", "edit", "fault"),
    [
        # 1f1b on rank 1: 1F0 1B0 1F1 1B1 1F2 1B2
        ("1f1b", swap(2, 3), "rank 1, action 2, 1B1: 1F1 has to come before"),
        ("1f1b", lambda actions: actions.append(actions[0]), "rank 1, action 6, 1F0: it was there before"),
        ("1f1b", lambda actions: actions.pop(), "1B2 is missing on rank 1"),
        ("1f1b", lambda actions: actions.pop(0), "rank 1, action 0, 1B0: 1F0 has to come before"),
        ("gpipe", lambda actions: actions.__delitem__(slice(2, 6, 3)), "1F2 is missing on rank 1"),
        ("1f1b", lambda actions: actions.insert(0, Action(0, "forward", 0)), "0F0: stage 0 is on rank 0"),
        (
            "1f1b",
            lambda actions: actions.append(Action(2, "forward", 0)),
            "2F0: there are 2 stages and 3 micro",
        ),
        (
            "1f1b",
            lambda actions: actions.append(Action(1, "forward", 3)),
            "1F3: there are 2 stages and 3 micro",
        ),
        (
            "1f1b",
            lambda actions: actions.append(Action(1, "backward_input", 0)),
            "1I0: its gradient would be added",
        ),
        # zero_bubble on rank 1: 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
        ("zero_bubble", swap(3, 7), "rank 1, action 3, 1W1: 1I1 has to come before"),
        ("zero_bubble", lambda actions: actions.pop(), "1W2 is missing on rank 1"),
        (
            "zero_bubble",
            lambda actions: actions.append(Action(1, "backward", 0)),
            "1B0: its gradient would be added",
        ),
        ("zero_bubble", lambda actions: actions.__delitem__(slice(6, 9, 2)), "1B2 is missing on rank 1"),
    ],
)
def test_the_first_wrong_action_is_named(name, edit, fault):
    with pytest.raises(FieldError) as caught:
        check(changed(name, edit))
    assert fault in str(caught.value)


def test_a_kind_that_does_not_exist():
    strange = changed("1f1b", lambda actions: actions.append(Action(1, "forwards", 0)))
    with pytest.raises(
        FieldError, match="its kind is none of forward, backward, backward_input, backward_weight"
    ):
        check(strange)


def test_ranks_that_wait_in_a_circle():
    # each order is right by itself: rank 0 wants its first gradient before it goes on, rank 1 wants more before that
    first = changed("1f1b", swap(1, 2), rank=0).ranks[0]
    both = replace(changed("1f1b", swap(1, 2)), ranks=(first, changed("1f1b", swap(1, 2)).ranks[1]))
    with pytest.raises(
        FieldError, match="stops with rank 0 in 0B0, rank 1 in 1F1: each waits for what another does"
    ):
        check(both)


def test_stages_that_do_not_divide():
    with pytest.raises(
        FieldError, match=r"schedule.num_stages=3: is not the same number of stages on each of 2"
    ):
        check(replace(pipeline("1f1b", 2, 2), num_stages=3))
