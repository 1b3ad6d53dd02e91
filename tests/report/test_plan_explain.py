"""Plain words with this plan's own figures."""

from __future__ import annotations

from hemostat.report import plan_text
from hemostat.units import format_bytes


def test_every_figure_is_the_plans(plan):
    text = " ".join(plan_text(plan, "explain").split())
    assert "each of the 320,000,000 parameters takes 16 bytes" in text
    assert format_bytes(16 * 320e6) in text and format_bytes(plan.best.memory.allocated.num_bytes) in text
    assert "dp=8" in text and "fsdp=8 gives each device a share" in text


def test_lines_are_no_longer_than_a_terminal(plan):
    assert max(map(len, plan_text(plan, "explain").splitlines())) <= 100


def test_nothing_to_explain(nothing):
    assert "nothing to explain" in plan_text(nothing, "explain")
