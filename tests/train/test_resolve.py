import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.process import World
from hemostat.train.resolve import find_price, new_stopper, optimizer_settings, resolve_recipe
from hemostat.train.settings import TrainSettings


def resolved(base: Base, **batch: int):
    return resolve_recipe(base, Devices(**batch), 1000, Mesh(Layout(), World()))


def test_the_data_give_the_length():
    recipe = resolved(Base(lr=0.1, tuned_batch=100, epochs=3))
    assert (recipe.total_samples, recipe.total_steps) == (3000, 30)


def test_the_world_gives_the_ranks():
    recipe = resolve_recipe(
        Base(lr=0.1, tuned_batch=100), Devices(), 1000, Mesh(Layout(), World(num_ranks=4))
    )
    assert (recipe.num_ranks, recipe.micro_batch) == (4, 25)


def test_a_recipe_for_other_ranks_is_refused():
    with pytest.raises(FieldError, match="num_ranks=8: this job has 4 processes"):
        resolve_recipe(
            Base(lr=0.1, tuned_batch=100), Devices(num_ranks=8), 1000, Mesh(Layout(), World(num_ranks=4))
        )


def test_a_size_that_the_data_do_not_have_is_refused():
    with pytest.raises(FieldError, match="num_train_samples=5: train_data has 1000"):
        resolved(Base(lr=0.1, num_train_samples=5))


def test_only_given_settings_reach_the_optimizer():
    assert optimizer_settings(resolved(Base(lr=0.1, optimizer="sgd", momentum=0.9))) == {
        "lr": 0.1,
        "momentum": 0.9,
    }


def test_the_stopper_follows_the_recipe():
    recipe = resolved(
        Base(lr=0.1, tuned_batch=100, epochs=10, schedule="constant", patience=4, metric_mode="max")
    )
    stopper = new_stopper(recipe)
    assert stopper.patience_evals == recipe.patience_evals is not None
    assert stopper.mode == "max"


def test_the_price_is_given_or_looked_up_or_unknown():
    assert find_price(TrainSettings(usd_per_hour=3.2)) == 3.2
    assert find_price(TrainSettings(instance="p4d.24xlarge")) > 1
    assert find_price(TrainSettings()) is None
    with pytest.raises(FieldError, match="usd_per_hour"):
        find_price(TrainSettings(usd_per_hour=-1.0))
    with pytest.raises(UnknownNameError):
        find_price(TrainSettings(instance="p4d.24xlarg"))
