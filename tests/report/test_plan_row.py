"""Cells of a row."""

from __future__ import annotations

import pytest

from hemostat.plan import Plan
from hemostat.report.plan_row import choice_cells, head_line, machines, peak_sentence, table, usd_text


def test_the_head_says_model_cluster_and_batch(plan):
    line = head_line(plan)
    assert (
        "320M parameters, 1,024 tokens a sample; 8xA100-40GB (40.0 GiB each); batch 1,024 (1.05M tokens)"
        in line
    )


def test_a_plan_without_a_length_has_neither_time_nor_money(numbers):
    made = Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", {})
    assert len(choice_cells(made, made.best)) == 6 and usd_text(made.best) == ""


def test_spot_is_a_range_from_the_cheapest_zone_on(numbers):
    told = {"num_tokens": 6.4e9, "spot": True}
    made = Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", told)
    assert choice_cells(made, made.best)[-1].count("$") == 2


def test_columns_stand_under_their_heads(plan):
    cells = choice_cells(plan, plan.best)
    head, row = table([cells], "tokens/s")
    assert head.index("step") == row.index(cells[3]) and row.startswith("best ")


@pytest.mark.parametrize("max_items", [1, 2])
def test_the_peak_names_the_largest_tensors_and_counts_the_others(plan, max_items):
    items = plan.best.memory.peak.items
    text = peak_sentence(plan.best, max_items)
    assert items[0].name in text and text.endswith(f"and {len(items) - max_items} smaller")


def test_one_machine_is_no_machines():
    assert (machines(1), machines(2_000)) == ("1 machine", "2,000 machines")
