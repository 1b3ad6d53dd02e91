"""Which page of a plan is meant."""

from __future__ import annotations

import pytest

from hemostat.errors import UnknownNameError
from hemostat.report import plan_text


def test_another_page_is_refused(plan):
    with pytest.raises(UnknownNameError, match="explain"):
        plan_text(plan, "explian")


def test_a_plan_without_a_fit_has_pages_too(nothing):
    assert "nothing fits: " in plan_text(nothing) and "nothing fits: " in plan_text(nothing, "why")
