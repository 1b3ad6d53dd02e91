"""The small language of conditions."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError
from hemostat.tune.condition import Condition


@pytest.mark.parametrize(
    ("text", "config", "holds"),
    [
        ("optimizer == 'sgd'", {"optimizer": "sgd"}, True),
        ("optimizer != 'sgd'", {"optimizer": "sgd"}, False),
        ("optimizer in ('sgd', 'lars')", {"optimizer": "lars"}, True),
        ("optimizer not in ['sgd']", {"optimizer": "sgd"}, False),
        ("16 <= batch < 64", {"batch": 64}, False),
        ("16 <= batch < 64", {"batch": 16}, True),
        ("micro * steps + 1 <= 9 and not nesterov", {"micro": 2, "steps": 4, "nesterov": False}, True),
        ("micro // 2 == 1 or micro % 2 == 1", {"micro": 5}, True),
        ("lr / 2 > -1", {"lr": 0.5}, True),
        ("train.lr < 1 - 0.5", {"train.lr": 0.4}, True),
    ],
)
def test_what_holds(text, config, holds):
    condition = Condition(text)
    assert condition.holds(config) is holds
    assert condition.names == set(config)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a ==",
        "a",
        "a + 1",
        "1 < 2",
        "__import__('os').system('x') == 0",
        "a[0] == 1",
        "(lambda: 1)() == a",
        "a is None",
        "a ** 9 < 1",
        "f'{a}' == 'x'",
        "[a for a in b] == 1",
        "a == b'x'",
        "a and b" + "(" * 300,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(FieldError, match="Write names, numbers"):
        Condition(text)


@pytest.mark.parametrize("text", ["a < 'x'", "1 / a > 0"])
def test_what_has_no_meaning_is_an_error(text):
    with pytest.raises(FieldError, match="has no meaning"):
        Condition(text).holds({"a": 0})
