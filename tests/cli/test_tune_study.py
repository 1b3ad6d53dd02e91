"""A study is begun once, found again by its name, and goes on as it was asked."""

from __future__ import annotations

import pytest

from hemostat.cli.tune_setup import Asked, TuneSettings, setup
from hemostat.cli.tune_study import asked_of, begin, go_on, studies_of
from hemostat.errors import FieldError, RecordError, UnknownNameError
from hemostat.tune import Budget, Space
from hemostat.tune.parameter import Real

SPACE = Space((Real("lr", 1e-4, 1e-1),), start={"lr": 0.01})


def begun(folder, **tune):
    asked = Asked(command=("t", "{lr}"), nproc=2, tune=TuneSettings(length=9, **tune))
    return begin(folder, asked, SPACE, setup(asked, SPACE.names, 1), Budget(max_s=60.0), 3)


def test_a_study_is_what_it_was_when_it_goes_on(tmp_path):
    first = begun(tmp_path / "s")
    assert [given.origin for given in first.study.settings.first_round] == [
        "recipe",
        "neighbour",
        "neighbour",
    ]
    with pytest.raises(RecordError, match="is running it"):
        go_on(tmp_path / "s", 1)
    first.journal.close()
    again = go_on(tmp_path / "s", 1)
    assert again.asked == first.asked == asked_of(tmp_path / "s")
    assert again.space == first.space
    assert again.study.settings.first_round == first.study.settings.first_round
    assert again.study.settings.budget == first.study.settings.budget
    again.journal.close()


def test_a_name_is_used_once(tmp_path):
    begun(tmp_path / "s").journal.close()
    with pytest.raises(FieldError, match="is there already"):
        begun(tmp_path / "s")


def test_a_name_of_no_study_lists_those_that_are(tmp_path):
    begun(tmp_path / "s").journal.close()
    with pytest.raises(FieldError, match=r"resume='t': is no study. Known: s"):
        asked_of(tmp_path / "t")


def test_an_unknown_sampler_leaves_no_study_behind(tmp_path):
    with pytest.raises(UnknownNameError, match="sampler='magic'"):
        begun(tmp_path / "s", sampler="magic")
    assert not (tmp_path / "s").exists()


def test_studies_lie_beside_the_runs(tmp_path):
    assert studies_of(tmp_path / "runs") == tmp_path / "studies"
