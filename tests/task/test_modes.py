import pytest
from torch import nn

from hemostat.task import evaluation_mode


def test_each_module_gets_its_own_mode_back_also_after_an_exception():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
    with pytest.raises(ZeroDivisionError), evaluation_mode(model):
        assert not any(module.training for module in model.modules())
        1 / 0  # noqa: B018
    assert [module.training for module in model.modules()] == [True, True, False]
