"""Layouts: what users write, what it makes of a number of processes, and where each process stands."""

from __future__ import annotations

import math

import pytest

from hemostat.config import decode, read_toml, to_plain
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan import Layout
from hemostat.plan.layout import AXES, Place

LAYOUTS = [
    Layout(dp=1),
    Layout(dp=4),
    Layout(fsdp=4, dp=1),
    Layout(dp=2, fsdp=3),
    Layout(dp=1, tp=4),
    Layout(dp=3, tp=2),
    Layout(dp=1, fsdp=2, tp=2),
    Layout(dp=1, pp=4, schedule="gpipe"),
    Layout(dp=2, pp=2),
    Layout(dp=1, fsdp=2, tp=2, pp=2),
    Layout(dp=3, fsdp=2, tp=4, pp=2, stages_per_rank=2),
]


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("fsdp=2,tp=2", Layout(fsdp=2, tp=2)),
        (" dp = 2 , fsdp=4,", Layout(dp=2, fsdp=4)),
        ("pp=2,schedule=1f1b", Layout(pp=2, schedule="1f1b")),
        ('pp=2,schedule="zero_bubble"', Layout(pp=2, schedule="zero_bubble")),
        ("pp=4,stages_per_rank=2", Layout(pp=4, stages_per_rank=2)),
        (
            "fsdp=2,reshard=false,recompute=full,compile=true",
            Layout(fsdp=2, reshard=False, recompute="full", compile=True),
        ),
        (
            "tp=2,sequence_parallel=false,loss_parallel=false",
            Layout(tp=2, sequence_parallel=False, loss_parallel=False),
        ),
    ],
)
def test_what_users_write(text, layout):
    assert Layout.read(text) == layout


def test_the_same_in_toml(tmp_path):
    file = tmp_path / "job.toml"
    file.write_text('[layout]\npp = 2\nfsdp = 2\nschedule = "gpipe"\n')
    written = decode(Layout, read_toml(file)["layout"], prefix="layout.")
    assert written == Layout.read("pp=2,fsdp=2,schedule=gpipe")
    assert decode(Layout, to_plain(written)) == written


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "fsd=2",
            UnknownNameError,
            "layout='fsd': is not known. Did you mean 'fsdp'? Known: compile, dp, fsdp,",
        ),
        ("pp=2,schedule=1f1", UnknownNameError, "layout.schedule='1f1': is not known. Did you mean '1f1b'?"),
        ("recompute=some", UnknownNameError, "layout.recompute='some': is not known."),
        ("fsdp=0", FieldError, "layout.fsdp=0: must be 1 or more"),
        ("dp=-2", FieldError, "layout.dp=-2: must be 1 or more"),
        ("tp=two", FieldError, "layout.tp='two': must be int, not str"),
        ("tp=1.5", FieldError, "layout.tp=1.5: must be int"),
        ("dp=true", FieldError, "layout.dp=True: must be"),
        ("compile=1", FieldError, "layout.compile=1: must be bool"),
        ("fsdp 2", FieldError, "layout='fsdp 2': is not axis=number,axis=number. Write it like --layout"),
        ("fsdp=2,fsdp=4", FieldError, "is not axis=number,axis=number"),
        ("", FieldError, "layout='': is not axis=number"),
        (",", FieldError, "layout=',': is not axis=number"),
        ("=2", FieldError, "layout='=2': is not axis=number"),
        ("fsdp.x=2", FieldError, "layout='fsdp.x=2': is not axis=number"),
        (
            "schedule=gpipe",
            FieldError,
            "layout.schedule='gpipe': orders pipeline stages, and pp=1. Give pp=2",
        ),
        ("stages_per_rank=2", FieldError, "layout.stages_per_rank=2: needs pp=2 or more"),
        (
            "pp=2,stages_per_rank=2,schedule=gpipe",
            FieldError,
            "and schedule=interleaved, not pp=2, schedule=gpipe",
        ),
        ("pp=2,schedule=interleaved", FieldError, "with one stage per rank is 1f1b. Give stages_per_rank=2"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, error, message):
    with pytest.raises(error) as caught:
        Layout.read(text)
    assert message in str(caught.value)


def test_values_stay_plain():
    assert Layout.values("fsdp=2, schedule=gpipe,compile=true") == {
        "fsdp": 2,
        "schedule": "gpipe",
        "compile": True,
    }


@pytest.mark.parametrize(
    ("text", "num_ranks", "dp", "schedule"),
    [
        ("dp=1", 1, 1, None),
        ("fsdp=2", 2, 1, None),
        ("fsdp=2", 8, 4, None),
        ("fsdp=2,dp=4", 8, 4, None),
        ("pp=2,tp=2", 8, 2, "1f1b"),
        ("pp=2,stages_per_rank=3", 2, 1, "interleaved"),
        ("pp=2,schedule=gpipe", 2, 1, "gpipe"),
    ],
)
def test_what_was_left_out_is_filled(text, num_ranks, dp, schedule):
    layout = Layout.read(text).filled(num_ranks)
    assert (layout.dp, layout.schedule, layout.num_ranks) == (dp, schedule, num_ranks)
    assert layout.filled(num_ranks) == layout


@pytest.mark.parametrize(
    ("text", "num_ranks", "message"),
    [
        (
            "fsdp=2,tp=2",
            6,
            "layout='fsdp=2,tp=2': makes 4 processes or a multiple, and there are 6. Take 4 of them,",
        ),
        ("fsdp=2,tp=2", 2, "layout='fsdp=2,tp=2': makes 4 processes or a multiple, and there are 2"),
        (
            "dp=2,pp=2",
            8,
            "layout='pp=2,dp=2': makes 4 processes, and there are 8. Take 4 of them, or another layout",
        ),
        ("dp=3,pp=2", 4, "layout='pp=2,dp=3': makes 6 processes, and there are 4"),
        ("dp=2", 1, "layout='dp=2': makes 2 processes, and there is 1."),
        ("dp=1", 2, "layout='dp=1': makes 1 process, and there are 2. Take 1 of them,"),
    ],
)
def test_a_product_that_is_another_number_is_refused(text, num_ranks, message):
    with pytest.raises(FieldError) as caught:
        Layout.read(text).filled(num_ranks)
    assert message in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_process_stands_at_a_place_of_its_own(layout):
    places = [layout.place(rank) for rank in range(layout.num_ranks)]
    assert len(set(places)) == layout.num_ranks == math.prod(layout.sizes.values())
    # the ranks count through the places, the last axis fastest
    assert places == sorted(places)
    for axis, size in layout.sizes.items():
        assert {getattr(place, axis) for place in places} == set(range(size))
    assert Place._fields == AXES


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_samples_are_shared_out_over_dp_and_fsdp_only(layout):
    shares: dict[int, list[Place]] = {}
    for rank in range(layout.num_ranks):
        shares.setdefault(layout.data_rank(rank), []).append(layout.place(rank))
    assert sorted(shares) == list(range(layout.num_data_ranks))
    for places in shares.values():
        assert len({(place.dp, place.fsdp) for place in places}) == 1
        assert len(places) == layout.tp * layout.pp


def test_places_by_hand():
    layout = Layout.read("pp=2,dp=2,fsdp=2,tp=2").filled(16)
    assert layout.place(0) == Place(pp=0, dp=0, fsdp=0, tp=0)
    assert layout.place(6) == Place(pp=0, dp=1, fsdp=1, tp=0)
    assert layout.place(13) == Place(pp=1, dp=1, fsdp=0, tp=1)
    assert [layout.data_rank(rank) for rank in range(16)] == [0, 0, 1, 1, 2, 2, 3, 3] * 2


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_axes_come_back_from_their_text(layout):
    again = Layout.read(str(layout)).filled(layout.num_ranks)
    assert again.sizes == layout.sizes
    assert str(again) == str(layout)


def test_counts():
    layout = Layout(dp=3, fsdp=2, tp=4, pp=2, stages_per_rank=2)
    assert (layout.num_ranks, layout.num_data_ranks, layout.num_stages) == (48, 6, 4)
    assert not layout.is_dp
    assert Layout(dp=8).is_dp
    assert not any(Layout(**{axis: 2}).is_dp for axis in ("fsdp", "tp", "pp"))


def test_zero_bubble_takes_no_compiled_blocks():
    with pytest.raises(FieldError, match=r"layout\.compile=True: .*zero_bubble"):
        Layout(pp=2, schedule="zero_bubble", compile=True)
