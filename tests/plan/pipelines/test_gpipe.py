"""GPipe: all forward, then all backward."""

from __future__ import annotations

from hemostat.plan.pipelines import Size, StageTime, gpipe


def test_every_rank_has_the_same_order_on_its_own_stage():
    assert " ".join(map(str, gpipe.order(2, Size(4, 2)))) == "2F0 2F1 2B0 2B1"


def test_bubble_and_memory():
    # Huang et al. 2019, section 2.3: no longer felt from m = 4 p on, where it is under a fifth of the whole time
    bubble = gpipe.bubble(Size(8, 32), StageTime())
    assert bubble == 7 / 32
    assert bubble / (1 + bubble) == 7 / 39
    assert [gpipe.in_flight(rank, Size(4, 64)) for rank in range(4)] == [64] * 4
