"""Pictures, whole."""

from __future__ import annotations

from textwrap import dedent

import pytest

from hemostat.errors import FieldError
from hemostat.plan.pipelines import StageTime, draw, pipeline


def picture(text: str) -> str:
    return dedent(text).strip("\n")


def test_1f1b():
    assert draw(pipeline("1f1b", 3, 4)) == picture("""
        rank 0  F0 F1 F2 .  .  .  .  B0--- F3 B1--- .  B2--- .  B3---
        rank 1  .  F0 F1 .  .  B0--- F2 B1--- F3 B2--- .  B3---
        rank 2  .  .  F0 B0--- F1 B1--- F2 B2--- F3 B3---
    """)


def test_zero_bubble():
    assert draw(pipeline("zero_bubble", 2, 3)) == picture("""
        rank 0  F0 F1 .  I0 W0 F2 I1 W1 I2 W2
        rank 1  .  F0 I0 F1 I1 W0 F2 I2 W1 W2
    """)


def test_several_stages_per_rank_have_their_number():
    assert draw(pipeline("interleaved", 2, 2, 2)) == picture("""
        rank 0  0F0 0F1 2F0 2F1 .   .   2B0---- .   2B1---- 0B0---- 0B1----
        rank 1  .   1F0 1F1 3F0 3B0---- 3F1 3B1---- 1B0---- 1B1----
    """)


def test_sending_and_uneven_stages_take_slots():
    times = [StageTime(2.0, 1.0, 1.0), StageTime(1.0, 0.5, 0.5)]
    assert draw(pipeline("gpipe", 2, 2), times, send_s=1.0) == picture("""
        rank 0  F0--- F1--- .  .  .  .  B0--- B1---
        rank 1  .  .  .  F0 .  F1 B0 B1
    """)


def test_a_finer_slot_shows_the_same_in_more_columns():
    assert draw(pipeline("1f1b", 1, 1), slot_s=0.5) == "rank 0  F0--- B0---------"
    # over before the middle of a slot
    assert draw(pipeline("1f1b", 1, 2), [StageTime(0.4, 1.0, 0.6)]) == "rank 0  B0--- B1---"


def test_rows_begin_at_the_same_column():
    rows = draw(pipeline("gpipe", 11, 12)).splitlines()
    assert rows[0].startswith("rank 0   F0  F1  ")
    assert rows[10].startswith("rank 10  .   .   ")


def test_times_of_another_pipeline_are_refused():
    with pytest.raises(FieldError, match=r"times=1: are not 2"):
        draw(pipeline("1f1b", 2, 1), [StageTime()])
