"""HG005 is said at the evaluation at which the metric has turned."""

import json

from hemostat.train.run_guards.overfitting import OverfittingGuard
from hemostat.train.update import Step

TURN = [1.0, 0.8, 0.7, 0.66, 0.63, 0.65, 0.7, 0.76, 0.84, 0.93, 1.03]


def evaluated(guard, numbers, error=None):
    found = []
    for number in numbers:
        step = Step(number + 1, 100 * number, 1 / (number + 1), 0.1, 1.0, True)
        guard.after_step(step._replace(loss=step.loss + 0.01))
        guard.after_step(step._replace(loss=step.loss - 0.01))
        guard.after_step(step._replace(loss=99.0, applied=False))
        found.append(guard.after_evaluation(step, TURN[number], error))
    return found


def new_guard():
    return OverfittingGuard("val_loss", "min")


def test_the_turn_is_named_with_its_noise():
    *before, finding = evaluated(new_guard(), range(11))
    assert before == [None] * 10
    assert (finding.code, finding.severity) == ("HG005", 1)
    assert "begun at about 400 samples: val_loss went from 0.65 to 0.93" in finding.message
    assert "the training loss fell from 0.2 to 0.09091" in finding.message
    assert evaluated(new_guard(), range(11), error=0.3) == [None] * 11


def test_without_a_step_between_there_is_nothing_to_compare():
    assert new_guard().after_evaluation(Step(1, 1, 1.0, 0.1, 1.0, True), 1.0, None) is None


def test_it_goes_on_after_a_resume():
    first, second = new_guard(), new_guard()
    evaluated(first, range(10))
    second.restore(json.loads(json.dumps(first.state())))
    assert evaluated(first, [10]) == evaluated(second, [10]) != [None]
