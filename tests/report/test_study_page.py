"""A study as a person reads it."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from hemostat.errors import RecordError
from hemostat.report.study_page import StudyPage
from hemostat.tune import Budget, Journal, Settings, Space, Study, answer, drive
from hemostat.tune.pruners import pruner
from hemostat.tune.replay import Recording, ReplayWorkers
from hemostat.tune.space import Choice, Real
from hemostat.tune.state import State
from hemostat.tune.trial import History, Point, Trial

SPACE = Space((Real("lr", 1e-4, 1.0), Choice("act", ("relu", "gelu")), Real("dropout", 0.0, 0.5)))


class Drawn:
    name = "random"

    def propose(self, space, history, rng: random.Random):
        return space.sample(rng) if len(history.trials) < 30 else None


def curve(config) -> Recording:
    far = abs(math.log10(config["lr"]) + 2)
    if far > 1.8:
        return Recording(points=[], outcome="out_of_memory", why="asked for 90 GiB <of 80>", end_s=2.0)
    points = [Point(at=at, value=far + 1 / at, time_s=60.0 * at) for at in range(1, 10)]
    return Recording(points=points)


@pytest.fixture(scope="module")
def page() -> StudyPage:
    journal = Journal(None)
    settings = Settings(length=9, step=1, budget=Budget(max_usd=50.0, usd_per_device_hour=2.0))
    study = Study(journal, SPACE, Drawn(), pruner("asha"), settings)
    drive(study, ReplayWorkers(curve, num_workers=3))
    state = State.of(journal.entries)
    return StudyPage(
        name="digits",
        metric="val_loss",
        unit="samples",
        answer=answer(SPACE, state, grid_size=54),
        space=SPACE,
        history=state.history,
    )


def test_the_text_fits_a_screen_and_says_what_is_known(page) -> None:
    lines = page.lines()
    assert len(lines) <= 12 and max(map(len, lines)) < 200
    text = "\n".join(lines)
    best = min(point.value for trial in page.history.trials for point in trial.points if point.at == 9)
    assert f"val_loss {best:.4g}" in text
    assert "unknown: no parameters ran twice" in text
    assert "lr" in next(line for line in lines if line.startswith("matters"))
    assert "of 54 runs" in text and "unspent $" in text
    assert "out_of_memory" in lines[0]


def test_why_lists_every_trial_with_its_failure(page) -> None:
    rows = [line for line in page.lines(why=True) if line.startswith("trial ")]
    assert len(rows) == len(page.history.trials)
    assert any("asked for 90 GiB" in row for row in rows)


def test_the_html_page_needs_no_other_file(page, tmp_path) -> None:
    path = page.write(tmp_path / "deep" / "digits")
    text = path.read_text()
    assert text.count("data:image/png;base64,") == 3
    assert "&lt;of 80&gt;" in text and "<of 80>" not in text
    assert "://" not in text


def test_repeats_give_a_chance_and_name_the_rival(page) -> None:
    finished = [trial for trial in page.history.trials if trial.outcome == "finished"][:2]
    repeats = tuple(
        Trial(
            number=number,
            config={"trial": trial.number, "seed": number},
            origin="grid",
            points=(Point(at=9, value=0.2 + 0.1 * (number % 2), time_s=1.0),),
            outcome="finished",
        )
        for number, trial in enumerate(finished * 2)
    )
    journal = Journal(None)
    study = Study(journal, SPACE, Drawn(), pruner("asha"), Settings(length=9, step=1))
    drive(study, ReplayWorkers(curve, num_workers=3))
    summed = answer(SPACE, State.of(journal.entries), [History(trials=repeats, sign=1, rungs=(9,))])
    (line,) = [
        line for line in msgspec.structs.replace(page, answer=summed).lines() if line.startswith("sure")
    ]
    assert "% that none of the others is better" in line and "seeds differ by" in line


def test_repeats_that_are_one_run_are_no_proof(page) -> None:
    same = msgspec.structs.replace(page.answer, noise=0.0, standings=())
    (line,) = [line for line in msgspec.structs.replace(page, answer=same).lines() if line.startswith("sure")]
    assert "the very same values" in line and "%" not in line


def test_a_study_without_a_value_says_so_and_draws_nothing(tmp_path) -> None:
    journal = Journal(None)
    Study(journal, SPACE, Drawn(), pruner("none"), Settings(length=9, step=1)).next(0.0)
    state = State.of(journal.entries)
    page = StudyPage(
        name="empty",
        metric="val_loss",
        unit="steps",
        answer=answer(SPACE, state),
        space=SPACE,
        history=state.history,
    )
    assert page.lines()[1] == "best     no trial has a value yet"
    assert "data:image" not in page.write(tmp_path).read_text()


def test_a_folder_that_cannot_be_made_is_told(page, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError):
        page.write(tmp_path / "file" / "digits")
