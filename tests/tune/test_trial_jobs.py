"""Placeholders of a script, settings of a task, and where a trial is told to pause."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.tune.positions import on_scale
from hemostat.tune.trial_jobs import ScriptJobs, TaskJobs, asks_control
from hemostat.tune.workers import Order

RUN = Path("runs/s-t000")


def order(until: int = 10, **config) -> Order:
    return Order(trial=0, config=config, start=0, until=until, seed=7)


def script(*words: str, names=("lr",)) -> ScriptJobs:
    return ScriptJobs(words, names, 1, "loss", can_pause=False)


def test_values_stand_where_their_names_were():
    jobs = script("train", "--lr={lr}", "{seed}", '{"plain": 1}', "--out", "{run_dir}/x")
    assert jobs.command(order(lr=1e-05), RUN) == (
        "train",
        "--lr=1e-05",
        "7",
        '{"plain": 1}',
        "--out",
        "runs/s-t000/x",
    )


def test_a_parameter_that_does_not_exist_takes_its_flag_along():
    jobs = script(
        "train",
        "--opt",
        "{opt}",
        "--momentum",
        "{momentum}",
        "-m={momentum}",
        "end",
        names=("opt", "momentum"),
    )
    assert jobs.command(order(opt="adam"), RUN) == ("train", "--opt", "adam", "end")
    assert jobs.command(order(opt="sgd", momentum=0.9), RUN)[3:] == ("--momentum", "0.9", "-m=0.9", "end")


def test_names_that_do_not_meet_are_refused():
    with pytest.raises(UnknownNameError, match=r"placeholder='rate'.*lr"):
        script("train", "{rate}", "{lr}")
    with pytest.raises(FieldError, match=r"space='lr': is not used by the command. Write \{lr\} where"):
        script("train", "--lr", "0.1")
    with pytest.raises(FieldError, match="command=''"):
        script()


def task(rhythm=(32, 4)) -> TaskJobs:
    return TaskJobs(
        "line.py:Line", 2, "val_loss", lambda config: {**config, "train": {"keep": 1}}, lambda config: rhythm
    )


def test_a_task_gets_its_settings_as_a_file_and_goes_on_by_its_own_id():
    fresh = task().job(order(lr=0.1), RUN, resumes=False)
    given = tomllib.loads(fresh.files["given.toml"])
    assert given["lr"] == 0.1
    assert given["train"] == {"keep": 1, "seed": 7}
    assert given["launch"] == {"task": "line.py:Line", "num_ranks": 2}
    assert fresh.num_ranks == 2
    again = task().job(order(lr=0.1), RUN, resumes=True)
    assert tomllib.loads(again.files["given.toml"])["train"]["resume"] == "s-t000"


@pytest.mark.parametrize(("batch", "steps"), [(32, 4), (31, 4), (48, 3), (8, 16), (100, 1)])
@pytest.mark.parametrize("until", [128, 256, 384, 1280])
def test_a_pause_comes_with_the_evaluation_that_counts_for_its_place(batch, steps, until):
    at = task((batch, steps)).pause_at(order(until=until))
    paused_step = next(step for step in range(1, 10_000) if step * batch >= at)
    assert paused_step % steps == 0, "the trainer evaluates there, so the pause costs no step"
    seen = [(step * batch, 0.5) for step in range(steps, paused_step + 1, steps)]
    assert on_scale(seen, 100_000, 128)[-1][0] >= until


def test_a_script_says_in_its_own_file_that_it_can_pause(tmp_path):
    plain, asking = tmp_path / "plain.py", tmp_path / "asking.py"
    plain.write_text("print('hemostat')\n")
    asking.write_text("from hemostat.track import control\nif control().due(3): pass\n")
    assert not asks_control(["python", str(plain), "--lr", "1"])
    assert asks_control(["python", str(asking)])
