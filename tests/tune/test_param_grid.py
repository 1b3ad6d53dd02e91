"""scikit-learn's grids and their cost."""

from __future__ import annotations

import itertools

import pytest

from hemostat.errors import FieldError
from hemostat.tune.param_grid import from_param_grid, grid_cost, run_config

SEVERAL = [
    {"kernel": ["linear"], "C": [1, 10, 100]},
    {"kernel": ["rbf"], "C": [1, 10, 100], "gamma": [0.001, 0.0001]},
    {"kernel": ["poly"], "C": [1, 10, 100], "degree": [2, 3]},
]


def spelled(configs):
    return sorted(sorted((name, str(value)) for name, value in config.items()) for config in configs)


def test_one_grid_has_its_configurations():
    grid = {"lr": [0.1, 0.2], "layers": [(64,), (64, 64)], "on": [True, False]}
    product = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    assert spelled(from_param_grid(grid).configs()) == spelled(product)


def test_several_grids_have_the_configurations_of_all():
    wanted = [
        dict(zip(grid, values, strict=True))
        for grid in SEVERAL
        for values in itertools.product(*grid.values())
    ]
    space = from_param_grid(SEVERAL)
    assert space.num_configs == len(wanted) == 15
    assert spelled(map(run_config, space.configs())) == spelled(wanted)


def test_the_cost_of_the_grid():
    cost = grid_cost(from_param_grid(SEVERAL), run_s=600.0, num_workers=4, usd_per_hour=3.0)
    assert (cost.num_configs, cost.run_s, cost.clock_s, cost.usd) == (15, 9000.0, 2400.0, 7.5)


@pytest.mark.parametrize(
    "grid", [[], {}, 3, [{}], {"lr": 0.1}, {"lr": "abc"}, {"lr": []}, [{"grid": [1]}, {"grid": [2]}]]
)
def test_what_is_no_grid(grid):
    with pytest.raises(FieldError):
        from_param_grid(grid)


def test_costs_that_make_no_sense():
    space = from_param_grid({"lr": [1, 2]})
    for wrong in ({"run_s": 0.0}, {"run_s": 1.0, "num_workers": 0}, {"run_s": 1.0, "usd_per_hour": -1.0}):
        with pytest.raises(FieldError):
            grid_cost(space, **wrong)
