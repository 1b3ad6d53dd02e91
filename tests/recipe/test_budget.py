import datetime

import pytest

from hemostat.config import decode
from hemostat.errors import FieldError, UnknownNameError
from hemostat.recipe.budget import ProjectBudget, Spent, burn_down, end_of, marks_passed

DAY = 86400.0


def spent(name, day, hours, usd=None):
    return Spent(run=name, started=day * DAY, ended=day * DAY + 3600 * hours, seconds=3600 * hours, usd=usd)


def test_the_sections_values_are_texts_or_numbers():
    budget = decode(
        ProjectBudget, {"usd": "$1,200", "hours": "40h", "until": datetime.date(2027, 1, 31)}, "budget."
    )
    assert budget.limits == {"usd": 1200.0, "hours": 40.0}
    assert decode(ProjectBudget, {"hours": 40}, "budget.").limits == {"hours": 40.0}


def test_what_cannot_be_meant_is_named():
    with pytest.raises(UnknownNameError, match="budget='dollars'"):
        decode(ProjectBudget, {"dollars": 3}, "budget.")
    with pytest.raises(FieldError, match=r"budget\.usd"):
        ProjectBudget(usd=-1)
    with pytest.raises(FieldError, match=r"budget\.until"):
        decode(ProjectBudget, {"until": "soon"}, "budget.")


def test_each_limit_has_its_line():
    lines = burn_down(
        ProjectBudget(usd=100, hours=50), [spent("a", 0, 10, 30.0), spent("b", 1, 5)], now=2 * DAY
    )
    assert [(line.name, line.spent, line.share) for line in lines] == [
        ("usd", 30.0, 0.3),
        ("hours", 15.0, 0.3),
    ]


def test_the_rate_is_that_of_the_last_seven_days():
    runs = [spent("old", 0, 20, 900.0), spent("new", 97, 10, 70.0)]
    (line,) = burn_down(ProjectBudget(usd=1000, until=datetime.date(1970, 4, 14)), runs, now=100 * DAY)
    assert line.per_day == pytest.approx(10.0)
    assert line.lasts_until == pytest.approx(103 * DAY)  # 30 dollars are left
    assert line.at_end == pytest.approx(970.0 + 10.0 * 4)  # the 14th of April is day 103, its end 4 days away


def test_of_a_long_run_the_rate_counts_its_last_days_only():
    """It spends 100 dollars a day over 20 days."""
    (line,) = burn_down(ProjectBudget(usd=5000), [spent("long", 0, 480, 2000.0)], now=20 * DAY)
    assert line.per_day == pytest.approx(100.0)
    assert line.lasts_until == pytest.approx(50 * DAY)
    (line,) = burn_down(ProjectBudget(hours=1000), [spent("long", 0, 480, 2000.0)], now=24 * DAY)
    assert line.per_day == pytest.approx(24.0 * 3 / 7)  # three of its days lie in the last seven


def test_a_run_whose_clock_was_set_back_counts_where_it_began():
    back = Spent(run="back", started=9 * DAY, ended=8 * DAY, seconds=100.0, usd=7.0)
    assert [back.share_between(start * DAY, (start + 1) * DAY) for start in (8, 9, 10)] == [0.0, 1.0, 0.0]


def test_nothing_spent_lasts_for_ever_and_all_spent_lasts_until_now():
    (line,) = burn_down(ProjectBudget(usd=10), [], now=5 * DAY)
    assert (line.share, line.lasts_until, line.at_end) == (0.0, None, None)
    (line,) = burn_down(ProjectBudget(usd=10), [spent("a", 4, 1, 25.0)], now=5 * DAY)
    assert line.share == 2.5 and line.lasts_until == 5 * DAY


def test_the_last_day_counts_whole():
    assert end_of(datetime.date(1970, 1, 2)) == 2 * DAY


def test_marks():
    assert [marks_passed(share) for share in (0, 0.5, 0.799, 0.8, 1.0)] == [
        (),
        (50,),
        (50,),
        (50, 80),
        (50, 80, 100),
    ]
