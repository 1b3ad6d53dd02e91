from __future__ import annotations

import msgspec
import pytest

from hemostat.errors import FieldError
from hemostat.tune.budget import Budget
from hemostat.tune.settings import Given, Settings


@pytest.mark.parametrize(
    ("change", "said"), [({"step": 0}, "step=0"), ({"length": 3, "step": 4}, "at least one step")]
)
def test_a_run_without_an_evaluation_is_refused(change, said):
    with pytest.raises(FieldError, match=said):
        Settings(**{"length": 10, "step": 1, **change})


def test_the_sign_follows_the_direction():
    assert Settings(length=1, step=1).sign == 1
    assert Settings(length=1, step=1, direction="max").sign == -1


def test_settings_survive_the_journal():
    settings = Settings(
        length=10,
        step=1,
        budget=Budget(max_s=5.0, speed=("batch",)),
        first_round=(Given(origin="recipe", config={"lr": 0.1}),),
        about={"sampler": "kde"},
    )
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings
