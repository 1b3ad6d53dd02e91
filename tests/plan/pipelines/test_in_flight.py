"""Counting what a rank holds, on orders of a few actions."""

from __future__ import annotations

import pytest

from hemostat.plan.pipelines import Action, Pipeline, in_flight, pipeline

KINDS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}


def of_one_rank(text: str) -> Pipeline:
    actions = tuple(Action(0, KINDS[word[0]], int(word[1:])) for word in text.split())
    return Pipeline(name="mine", num_stages=1, num_micro_batches=4, ranks=(actions,))


@pytest.mark.parametrize(
    ("text", "until_weight", "until_input"),
    [
        ("", 0, 0),
        ("F0 B0 F1 B1", 1, 1),
        ("F0 F1 B0 F2 B1 B2", 2, 2),
        ("F0 I0 F1 I1 F2 I2 W0 W1 W2", 3, 1),
        ("F0 F1 I0 W0 F2 I1 I2 W1 W2", 2, 2),
    ],
)
def test_the_peak_of_one_rank(text, until_weight, until_input):
    assert in_flight(of_one_rank(text)) == (until_weight,)
    assert in_flight(of_one_rank(text), until_weight=False) == (until_input,)


def test_several_stages_count_one_by_one():
    assert in_flight(pipeline("interleaved", 2, 2, 2)) == (4, 3)
