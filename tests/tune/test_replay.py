from __future__ import annotations

import math

import pytest

from hemostat.tune.replay import Pace, Recording, ReplayWorkers
from hemostat.tune.trial import Point
from hemostat.tune.workers import End, Order, Progress


def points(*values, step_s=10.0):
    return [Point(at=at, value=value, time_s=step_s * at) for at, value in enumerate(values, start=1)]


def order(trial=0, start=0, until=3, issued_s=0.0, **config):
    return Order(trial=trial, config=config, start=start, until=until, seed=0, issued_s=issued_s)


def events(workers):
    seen = []
    while (event := workers.wait(None)) is not None:
        seen.append((workers.now_s(), event))
    return seen


def values(seen):
    return [event.point.value for _, event in seen if isinstance(event, Progress)]


def test_a_trial_pauses_saves_and_goes_on_where_it_was():
    workers = ReplayWorkers(lambda config: Recording(points=points(3.0, 2.0, 1.0)), pace=Pace(save_s=4.0))
    workers.start(order(until=2))
    first = events(workers)
    assert values(first) == [3.0, 2.0]
    assert first[-1] == (24.0, End(trial=0, outcome="paused", time_s=24.0))
    workers.start(order(start=2, until=3, issued_s=24.0))
    assert events(workers) == [
        (34.0, Progress(trial=0, point=Point(at=3, value=1.0, time_s=30.0))),
        (34.0, End(trial=0, outcome="finished", time_s=10.0)),
    ]


def test_trials_run_side_by_side_on_one_clock():
    curves = {"fast": points(1.0, 1.0, step_s=3.0), "slow": points(2.0, 2.0, step_s=4.0)}
    workers = ReplayWorkers(lambda config: Recording(points=curves[config["kind"]]))
    workers.start(order(0, until=2, kind="slow"))
    workers.start(order(1, until=2, kind="fast"))
    assert [(at_s, event.trial) for at_s, event in events(workers)] == [
        (3.0, 1), (4.0, 0), (6.0, 1), (6.0, 1), (8.0, 0), (8.0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("recording", "until", "outcome", "time_s", "num_values"),
    [
        (Recording(points=points(3.0, math.nan, 1.0)), 3, "nan", 20.0, 1),
        (Recording(points=points(3.0, math.nan, 1.0)), 1, "paused", 10.0, 1),
        (Recording(points=points(3.0, 2.0), outcome="crash", why="CUDA", end_s=23.0), 3, "crash", 23.0, 2),
        (Recording(points=points(3.0, 2.0), outcome="crash"), 2, "paused", 20.0, 2),
        (Recording(points=[], outcome="out_of_memory", end_s=7.0), 3, "out_of_memory", 7.0, 0),
        (Recording(points=points(3.0, 2.0)), 3, "finished", 20.0, 2),  # it ended early by itself
    ],
)
def test_recorded_failures_come_back(recording, until, outcome, time_s, num_values):
    workers = ReplayWorkers(lambda config: recording)
    workers.start(order(until=until))
    seen = events(workers)
    assert (seen[-1][1].outcome, seen[-1][1].time_s, seen[-1][1].why) == (
        outcome, time_s, {"crash": "CUDA", "nan": "the objective was no number"}.get(outcome, "")
    )  # fmt: skip
    assert len(values(seen)) == num_values


def test_a_stop_saves_and_a_second_one_does_not_wait():
    for can_pause, times, outcome, at_s in (
        (True, 1, "paused", 19.0),
        (True, 2, "stopped", 15.0),
        (False, 1, "stopped", 15.0),
    ):
        recording = Recording(points=points(3.0, 2.0))
        workers = ReplayWorkers(lambda config, it=recording: it, can_pause=can_pause, pace=Pace(save_s=4.0))
        workers.start(order(until=2))
        workers.wait(None)
        assert workers.wait(15.0) is None and workers.now_s() == 15.0
        for _ in range(times):
            workers.stop(0)
        assert workers.wait(None) == End(trial=0, outcome=outcome, time_s=at_s)
        assert workers.now_s() == at_s


def test_noise_belongs_to_the_trial_and_does_not_depend_on_its_pauses():
    def run(trial, *stretches):
        workers = ReplayWorkers(lambda config: Recording(points=points(*[1.0] * 9)), pace=Pace(noise=0.5))
        seen = []
        for start, until in stretches:
            workers.start(order(trial, start, until, issued_s=workers.now_s()))
            seen += [event.point.time_s for _, event in events(workers) if isinstance(event, Progress)]
        return seen, workers.now_s()

    whole, parts = run(0, (0, 9)), run(0, (0, 2), (2, 5), (5, 9))
    assert whole[0] == parts[0] and whole[1] == pytest.approx(parts[1])
    assert whole[0] != run(1, (0, 9))[0] and whole[0] == sorted(whole[0])


def test_an_order_that_is_given_again_goes_on_at_its_old_time():
    workers = ReplayWorkers(lambda config: Recording(points=points(3.0, 2.0, 1.0)), now_s=25.0)
    workers.start(order(issued_s=3.0))
    assert [at_s for at_s, _ in events(workers)] == [25.0, 25.0, 33.0, 33.0]


def test_a_wait_without_work_is_a_wait_until_then():
    workers = ReplayWorkers(lambda config: Recording(points=[]))
    assert workers.wait(50.0) is None and workers.now_s() == 50.0
    assert workers.wait(None) is None and workers.now_s() == 50.0
