import pytest

from hemostat.config import decode
from hemostat.errors import FieldError, UnknownNameError
from hemostat.train.settings import TrainSettings


def test_an_unknown_key_lists_the_known():
    with pytest.raises(UnknownNameError, match="Did you mean 'seed'"):
        decode(TrainSettings, {"sed": 3}, prefix="train.")


def test_a_wrong_kind_is_named():
    with pytest.raises(FieldError, match=r"train\.seed='x'"):
        decode(TrainSettings, {"seed": "x"}, prefix="train.")
