"""--layout: read, checked against the number of processes, and put in the place of an older one."""

import pytest

from hemostat.cli.layout import check_layout, processes_of, read_layout, with_layout
from hemostat.errors import FieldError


def test_it_names_its_processes():
    assert processes_of(read_layout("fsdp=2,tp=2")) == 4


def test_auto_says_what_is_missing():
    with pytest.raises(FieldError, match=r"layout='auto': needs `hemostat plan`"):
        read_layout("auto")


def test_axes_of_two_layouts_are_not_mixed():
    values = {"lr": 1.0, "train": {"seed": 3, "layout": {"fsdp": 2}}}
    assert with_layout(values, {"pp": 2}) == {"lr": 1.0, "train": {"seed": 3, "layout": {"pp": 2}}}
    assert with_layout(values, None) == values


@pytest.mark.parametrize("axes", [{"fsdp": 2}, {"fsdp": 2, "dp": 2}])
def test_another_number_of_processes_is_refused(axes):
    with pytest.raises(FieldError, match="and there are 3"):
        check_layout(3, axes)


def test_a_value_in_place_of_the_section_is_refused():
    with pytest.raises(FieldError, match="is a section, not a value"):
        check_layout(2, "fsdp")
