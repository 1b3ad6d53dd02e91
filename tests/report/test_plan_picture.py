"""A plan as PNG, also where nothing fits."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.errors import FieldError, RecordError
from hemostat.plan import Plan
from hemostat.report import draw_plan
from hemostat.report.plan_picture import moments_of

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("sizes", [{"num_params": 320e6}, {"num_layers": 96, "hidden": 12288}])
def test_it_is_drawn_and_its_folder_is_made(sizes, tmp_path):
    plan = Plan.make(Plan.profile_of_numbers(sizes), "8xV100-16GB", {})
    path = draw_plan(plan, tmp_path / "new" / "plan.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [item.name for item in path.parent.iterdir()] == ["plan.png"]


@pytest.mark.parametrize("name", [".", "plan.jpg", "plan"])
def test_a_path_that_is_no_png_is_refused(plan, tmp_path, name):
    with pytest.raises(FieldError, match=r"Write it like --plot plan\.png"):
        draw_plan(plan, tmp_path / name)


def test_a_folder_that_cannot_be_made_is_no_full_disk(plan, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot draw .* Choose another file\."):
        draw_plan(plan, tmp_path / "file" / "plan.png")


def test_no_layout_at_all_is_said(nothing, tmp_path):
    found = msgspec.structs.replace(nothing.found, rejected=())
    with pytest.raises(FieldError, match="no layout to draw"):
        draw_plan(msgspec.structs.replace(nothing, found=found), tmp_path / "plan.png")


@pytest.mark.parametrize("layout", [{"fsdp": 8}, {"dp": 8}, {"pp": 4, "dp": 2}])
def test_the_peak_is_among_what_is_drawn_whatever_its_phase(numbers, layout):
    told = {"layout": layout, "micro_batch": 1, "global_batch": 64}
    wanted = Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", told).wanted
    moments = moments_of(wanted)
    stage = wanted.memory.peak.stage
    assert {moment.phase for moment in moments} == {
        moment.phase for moment in wanted.memory.moments if moment.stage == stage
    }
    assert max(moment.num_bytes for moment in moments) == wanted.memory.peak.num_bytes
    unheard = msgspec.structs.replace(wanted.memory.peak, phase="a phase of tomorrow")
    memory = msgspec.structs.replace(wanted.memory, peak=unheard, moments=(unheard, *wanted.memory.moments))
    assert moments_of(msgspec.structs.replace(wanted, memory=memory))[-1].phase == "a phase of tomorrow"
