"""TOML to a space and back."""

from __future__ import annotations

import pytest
import tomli_w

from hemostat.errors import FieldError, UnknownNameError
from hemostat.tune.space import Choice, Integer, Real
from hemostat.tune.space_file import read_space, space_from, space_values

TEXT = """
optimizer = ["adamw", "sgd"]
[lr]
low = 1e-4
high = 1e-1
[train.layers]
low = 1
high = 8
[batch]
values = [16, 32, 64]
[momentum]
low = 0.0
high = 0.99
log = false
when = "optimizer == 'sgd'"
[start]
lr = 0.01
[[constraints]]
holds = "batch * train.layers <= 256"
"""


@pytest.mark.filterwarnings("ignore:momentum is searched")
def test_what_is_read_is_written_and_read_again(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(TEXT, encoding="utf-8")
    space = read_space(path)
    kinds = {parameter.name: type(parameter) for parameter in space.parameters}
    assert kinds == {
        "optimizer": Choice,
        "lr": Real,
        "train.layers": Integer,
        "batch": Choice,
        "momentum": Real,
    }
    assert space.constraints == ("batch * train.layers <= 256",)
    assert space.start["lr"] == 0.01
    path.write_text(tomli_w.dumps(space_values(space)))
    again = read_space(path)
    assert again.parameters == space.parameters
    assert (again.constraints, again.start) == (space.constraints, space.start)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"lr": 1},
        {"lr": {"low": 1}},
        {"lr": {"low": 1, "values": [1]}},
        {"lr": {"values": 3}},
        {"lr": {"low": 1, "high": 2, "log": "yes"}},
        {"lr": {"low": 1, "high": 2, "when": 3}},
        {"lr": {"low": 2, "high": 1}},
        {"lr": [1], "constraints": "lr < 2"},
        {"lr": [1], "constraints": [3]},
    ],
)
def test_what_has_no_meaning(form):
    with pytest.raises(FieldError):
        space_from(form)


def test_an_unknown_key_is_told():
    with pytest.raises(UnknownNameError, match="Known: high, log, low"):
        space_from({"lr": {"lo": 1, "high": 2}})
