"""The letters of actions and the seconds of passes."""

from __future__ import annotations

import pytest

from hemostat.plan.pipelines.action import LETTERS, Action, StageTime


@pytest.mark.parametrize(
    ("kind", "text", "seconds"),
    [
        ("forward", "3F12", 1.0),
        ("backward", "3B12", 6.0),
        ("backward_input", "3I12", 2.0),
        ("backward_weight", "3W12", 4.0),
    ],
)
def test_every_kind_has_its_letter_and_its_seconds(kind, text, seconds):
    assert str(Action(3, kind, 12)) == text
    assert StageTime(1.0, 2.0, 4.0).of(kind) == seconds


def test_a_line_of_actions_is_short():
    assert " ".join(map(str, (Action(0, kind, 0) for kind in LETTERS))) == "0F0 0B0 0I0 0W0"
