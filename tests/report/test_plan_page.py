"""The page of `hemostat plan`: what it must say, in how many lines."""

from __future__ import annotations

import re

from hemostat.report import plan_text


def test_the_short_page_says_peak_change_price_and_twice_the_devices(plan):
    text = plan_text(plan)
    for start in ("plan ", "best ", "peak ", "wanted ", "change ", "double ", "price "):
        assert re.search(f"^{start}", text, re.MULTILINE), start
    assert len(text.splitlines()) <= 12


def test_reasons_have_every_moment_and_tell_allocated_from_reserved(plan):
    text = plan_text(plan, "why")
    assert {"loss", "end of forward", "optimizer step", "initialisation", "checkpoint load"} <= set(
        re.findall(r"^memory   stage \d, ([^:]+):", text, re.MULTILINE)
    )
    assert "allocated" in text and "reserved" in text and "on the device" in text
    assert len(text) > len(plan_text(plan))


def test_a_rate_per_thousand_dollars_is_that_of_the_price(plan, numbers):
    text = plan_text(plan.with_largest(numbers), "fit")
    assert text.count("fits ") == 3
    per_day = plan.goal.price.usd(86400)
    expected = plan.best.step.tokens_per_s * 86400 / per_day * 1000
    assert f"{expected / 1e9:.3g}B" in re.search(r"\$1,000 +(\S+)", text)[1]
