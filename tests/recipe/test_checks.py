"""Each finding appears where it should, and only there."""

import pytest

from hemostat.recipe import Base, Devices, convert

LONG = {"epochs": 100, "num_train_samples": 1_000_000}


def codes(devices, **values):
    given = {"optimizer": "sgd", "lr": 0.1, "tuned_batch": 128} | LONG
    return {finding.code for finding in convert(Base(**(given | values)), devices).findings}


EIGHT = Devices(num_ranks=8, micro_batch=128)


def test_a_long_run_at_a_moderate_batch_is_clean():
    assert codes(EIGHT) == set()
    assert codes(Devices(num_ranks=8)) == set()


@pytest.mark.parametrize(
    ("code", "devices", "values"),
    [
        ("HR003", EIGHT, {"epochs": 2}),
        ("HR004", EIGHT, {"epochs": 0.5}),
        ("HR005", EIGHT, {"patience": 5, "eval_every_samples": 50_000_000}),
        ("HR006", EIGHT, {"num_train_samples": 5000, "epochs": 10_000}),
        ("HR007", EIGHT, {"critical_batch": 3000}),
        ("HR007", EIGHT, {"critical_batch": 1000, "accept_bill": True}),
        ("HR008", Devices(num_ranks=8), {"objective": "contrastive"}),
        ("HR009", Devices(num_ranks=16, micro_batch=128), {}),
        ("HR010", EIGHT, {"schedule": "step", "milestones": (50, 200)}),
        ("HR011", EIGHT, {"patience": 5}),
        ("HR012", Devices(num_ranks=3), {}),
    ],
)
def test_each_finding(code, devices, values):
    assert code in codes(devices, **values)


def test_nothing_about_the_run_is_said_of_an_unmoved_short_one():
    assert "HR004" not in codes(Devices(num_ranks=8), epochs=0.05)
    assert "HR006" not in codes(Devices(num_ranks=8), num_train_samples=500)
