"""A plan as PNG, also where nothing fits."""

from __future__ import annotations

import pytest

from hemostat.errors import RecordError
from hemostat.plan import Plan
from hemostat.report import draw_plan

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("sizes", [{"num_params": 320e6}, {"num_layers": 96, "hidden": 12288}])
def test_it_is_drawn(sizes, tmp_path):
    plan = Plan.make(Plan.profile_of_numbers(sizes), "8xV100-16GB", {})
    path = draw_plan(plan, tmp_path / "plan.png")
    assert path.read_bytes().startswith(b"\x89PNG") and [item.name for item in tmp_path.iterdir()] == [
        "plan.png"
    ]


def test_a_folder_that_is_not_there(tmp_path):
    plan = Plan.make(Plan.profile_of_numbers({}), "8xV100-16GB", {})
    with pytest.raises(RecordError, match="cannot draw"):
        draw_plan(plan, tmp_path / "gone" / "plan.png")
