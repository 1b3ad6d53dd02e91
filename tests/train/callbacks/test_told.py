"""Settings that a callback cannot heed are refused, not passed over."""

import pytest

from hemostat.errors import FieldError
from hemostat.train import TrainSettings
from hemostat.train.callbacks.told import GUARDS, HEEDED, check_settings
from hemostat.train.settings import GUARDS as ALL_GUARDS


def test_what_is_heeded_exists():
    assert set(HEEDED) <= set(TrainSettings.__struct_fields__)
    assert set(GUARDS) < set(ALL_GUARDS)
    good = TrainSettings(max_hours="4h", guards=("spike",), stop_on=("spike",), max_usd=3, usd_per_hour=2.0)
    assert check_settings(good) is good
    check_settings(TrainSettings())


@pytest.mark.parametrize("given", [{"seed": 3}, {"resume": "last"}, {"precision": "bf16"}, {"keep": 5}])
def test_what_belongs_to_the_trainer_is_refused(given):
    (name,) = given
    with pytest.raises(FieldError, match=rf"train\.{name}=.*belongs to the trainer here.*max_hours"):
        check_settings(TrainSettings(**given))


@pytest.mark.parametrize("field", ["guards", "stop_on"])
def test_a_guard_that_needs_the_engine_is_refused_where_it_is_named(field):
    with pytest.raises(FieldError, match=rf"train\.{field}='drift': needs hemostat's own engine"):
        check_settings(TrainSettings(**{field: ("spike", "drift")}))
