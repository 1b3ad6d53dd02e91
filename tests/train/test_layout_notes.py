"""A pipeline with few micro-batches is told how long it stands still, by the schedule's own arithmetic."""

from types import SimpleNamespace

import pytest

from hemostat.plan import Layout
from hemostat.train.layout_notes import layout_notes


def noted(layout: str, accumulation: int) -> list[str]:
    filled = Layout.read(layout)
    return layout_notes(
        SimpleNamespace(
            parts=SimpleNamespace(notes=("a note",)),
            mesh=SimpleNamespace(layout=filled.filled(filled.num_ranks)),
            recipe=SimpleNamespace(accumulation=accumulation),
        )
    )


def test_without_stages_only_what_was_noted_before():
    assert noted("fsdp=2", 1) == ["a note"]


@pytest.mark.parametrize(("num", "share"), [(1, "75%"), (3, "50%")])
def test_fewer_micro_batches_than_stages_are_said_with_their_bubble(num, share):
    said = noted("pp=4", num)[1]
    assert f"idle for {share} of each step" in said
    assert "accumulation=16 makes it 16%" in said


def test_a_filled_pipeline_needs_no_words():
    assert noted("pp=4", 16) == ["a note"]
