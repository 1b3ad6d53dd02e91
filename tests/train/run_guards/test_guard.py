"""What a guard does that looks at nothing."""

from hemostat.train.run_guards.guard import Guard
from hemostat.train.update import Step


class Silent(Guard):
    pass


def test_a_guard_that_overrides_nothing_finds_nothing_and_has_no_state():
    guard = Silent()
    step = Step(1, 8, 0.5, 0.1, 1.0, True)
    assert guard.after_step(step) is None
    assert guard.after_evaluation(step, 0.5, None) is None
    guard.restore(guard.state())
    assert guard.state() == {}
