from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import time

import pytest

from hemostat.errors import FieldError
from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.journal import Ended, Journal, Judged, Measured, Ordered
from hemostat.tune.replay import Pace, Recording, ReplayWorkers
from hemostat.tune.trial import Point

CAPS = {
    "no cap": Budget(),
    "hours": Budget(max_s=900.0),
    "device-hours": Budget(max_device_s=4000.0),
    "dollars": Budget(max_usd=5.0, usd_per_device_hour=4.0, speed=("batch",)),
}
KINDS = [("asha", True), ("asha", False), ("halving", True), ("hyperband", True), ("none", True)]


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    """What a killed process has written is there without it; a disk that syncs would cost a minute here."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def lines(study_dir):
    return (study_dir / "journal.jsonl").read_bytes()


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize(("pruner", "can_pause"), KINDS[:3])
def test_a_study_that_is_killed_at_any_byte_decides_as_the_undisturbed_one(
    lab, tmp_path, pruner, can_pause, cap
):
    rng = random.Random(f"{pruner}{can_pause}{cap}")
    whole = tmp_path / "whole"
    settings = {"can_pause": can_pause, "budget": CAPS[cap]}
    with Journal(whole / "journal.jsonl") as journal:
        lab.run(lab.study(journal, pruner, limit=25, **settings), noise=0.3)
    undisturbed = lines(whole)
    begun = undisturbed.index(b"\n") + 1
    for number in range(10):
        path = tmp_path / f"cut{number}" / "journal.jsonl"
        path.parent.mkdir()
        path.write_bytes(undisturbed[: rng.randrange(begun, len(undisturbed))])
        for _ in range(2):  # going on with a study that is over changes nothing
            with Journal(path) as journal:
                lab.run(lab.study(journal, pruner, limit=25), noise=0.3)
        assert lines(path.parent) == undisturbed


def test_fifty_kills_one_after_another_lose_nothing(lab, tmp_path):
    rng = random.Random(5)
    path = tmp_path / "journal.jsonl"
    with Journal(tmp_path / "whole.jsonl") as journal:
        lab.run(lab.study(journal, limit=60), noise=0.3, save_s=2.0)
    undisturbed = (tmp_path / "whole.jsonl").read_bytes()
    num_kills = 0
    steps = len(undisturbed) // 50
    with Journal(path) as journal:
        lab.study(journal)
    while num_kills < 50:
        with Journal(path) as journal:
            size = path.stat().st_size

            def watch(study, size=size):
                if path.stat().st_size > size + rng.randrange(steps // 2, steps):
                    raise KeyboardInterrupt

            study = lab.study(journal, limit=60)
            with contextlib.suppress(KeyboardInterrupt):
                drive(study, lab.workers(study, noise=0.3, save_s=2.0), watch)
        num_kills += 1
        if num_kills < 50:
            data = path.read_bytes()
            path.write_bytes(data[: max(len(data) - rng.randrange(0, 200), data.index(b"\n") + 1)])
    with Journal(path) as journal:
        lab.run(lab.study(journal, limit=60), noise=0.3, save_s=2.0)
        entries = journal.entries
    with Journal(tmp_path / "whole.jsonl") as journal:
        wanted = journal.entries
    # a stop that was under way at a kill may save later than it would have; every decision is the same
    assert [entry for entry in entries if not isinstance(entry, Ended)] == [
        entry for entry in wanted if not isinstance(entry, Ended)
    ]
    measured = [(entry.trial, entry.at) for entry in entries if isinstance(entry, Measured)]
    assert len(measured) == len(set(measured))
    assert [entry.trial for entry in entries if isinstance(entry, Ended)] == [
        entry.trial for entry in wanted if isinstance(entry, Ended)
    ]


def _run_until_killed(lab, path):
    with Journal(path) as journal:
        study = lab.study(journal, limit=60)

        def watch(study):
            if len(journal.entries) > 100:
                os.kill(os.getpid(), 9)

        drive(study, lab.workers(study), watch)


def test_a_process_that_is_killed_is_gone_on_with(lab, tmp_path):
    path = tmp_path / "journal.jsonl"
    child = multiprocessing.get_context("fork").Process(target=_run_until_killed, args=(lab, path))
    child.start()
    child.join(60)
    assert child.exitcode == -9
    with Journal(path) as journal:
        assert 101 <= len(journal.entries) < 110
        lab.run(lab.study(journal, limit=60))
        entries = journal.entries
    with Journal(None) as undisturbed:
        lab.run(lab.study(undisturbed, limit=60))
    assert entries == undisturbed.entries


def random_curves(seed):
    rng = random.Random(seed)
    slow, noise = rng.uniform(1.0, 20.0), rng.uniform(0.0, 0.8)

    def find(config):
        mine = random.Random(f"{seed}{sorted(config.items())}")
        pace, value, time_s, points = slow * mine.lognormvariate(0.0, 0.7), mine.random(), 0.0, []
        for at in range(1, 31):
            time_s += pace
            points.append(Point(at=at, value=value + 1 / at, time_s=time_s))
        crashes = mine.random() < 0.1
        end_at = mine.randrange(31) if crashes else 30
        outcome = mine.choice(("crash", "out_of_memory", "preempted")) if crashes else "finished"
        return Recording(points=points[:end_at], outcome=outcome, why=str(value))

    return find, noise, slow


@pytest.mark.parametrize("cap", ["max_s", "max_device_s", "max_usd"])
def test_no_study_spends_more_than_its_cap(lab, cap):
    unspent = []
    for seed in range(35):
        rng = random.Random(f"{cap}{seed}")
        find, noise, slow = random_curves(seed)
        runs = rng.uniform(0.3, 40.0)
        amount = 30 * slow * runs / (5 if cap == "max_s" else 1)
        budget = Budget(**{cap: amount}, usd_per_device_hour=3600.0 if cap == "max_usd" else 0.0)
        pruner, can_pause = KINDS[seed % len(KINDS)]
        study = lab.study(None, pruner, limit=10_000, can_pause=can_pause, budget=budget, seed=seed)
        workers = ReplayWorkers(
            find, 5, can_pause=can_pause, pace=Pace(noise=noise, save_s=rng.choice((0.0, slow, 10 * slow)))
        )
        drive(study, workers)
        spent = workers.now_s() if cap == "max_s" else study.busy_s
        assert spent <= amount * (1 + 1e-9), f"seed {seed}"
        assert study.busy_s == pytest.approx(sum(trial.time_s for trial in study.history.trials))
        unspent.append(1 - spent / amount)
    assert sorted(unspent)[len(unspent) // 2] < 0.7  # the cap is used, not avoided


def test_trials_under_way_are_saved_before_the_cap(lab):
    study = lab.study(
        None, "none", limit=10_000, budget=Budget(max_device_s=2000.0, s_per_unit=5.0, save_s=9.0)
    )
    workers = lab.workers(study, save_s=4.0, noise=0.5)
    drive(study, workers)
    assert {trial.outcome for trial in study.history.trials} <= {"finished", "paused", "nan"}
    assert any(trial.outcome == "paused" for trial in study.history.trials)
    assert study.busy_s <= 2000.0


def test_what_does_not_save_in_time_is_ended_at_the_cap(lab):
    study = lab.study(None, "none", limit=10_000, budget=Budget(max_s=200.0))
    workers = lab.workers(study, save_s=1000.0)
    drive(study, workers)
    assert {trial.outcome for trial in study.history.trials} == {"stopped"}
    assert workers.now_s() == pytest.approx(200.0)


def test_free_places_are_filled_while_there_is_work(lab):
    journal = Journal(None)
    lab.run(lab.study(journal, limit=40))
    running, idle_at = set(), []
    for entry in journal.entries[1:]:
        if isinstance(entry, Ordered):
            running.add(entry.trial)
        elif isinstance(entry, Ended):
            running.discard(entry.trial)
        elif isinstance(entry, Measured) and len(running) < 5:
            idle_at.append(entry.at_s)
        elif isinstance(entry, Judged):
            break
    assert not idle_at


@pytest.mark.parametrize(
    ("num_workers", "can_pause", "said"), [(0, True, "parallel=0"), (5, False, "can_pause=False")]
)
def test_workers_that_do_not_fit_are_refused(lab, num_workers, can_pause, said):
    with pytest.raises(FieldError, match=said):
        drive(lab.study(), ReplayWorkers(lab.find, num_workers, can_pause=can_pause))


def test_a_thousand_trials_replay_in_seconds(lab):
    curves = {}

    def find(config):
        return curves.setdefault(config["lr"], lab.find(config))

    study = lab.study(limit=1000, pruner="none")
    begin_s = time.process_time()
    lab.run(study, find)
    assert len(study.history.trials) == 1000
    assert time.process_time() - begin_s < 12.0  # 2 s on two idle cores
