"""HG004 and HG006: another rate in the step ends the run; one set between two steps is named."""

from hemostat.findings import Severity


def test_a_rate_that_something_sets_inside_of_the_step_stops_the_run(run):
    def hand(session, step, loss):
        if step == 1:
            session.updater.optimizer.register_step_pre_hook(
                lambda optimizer, *_: optimizer.param_groups[0].update(lr=0.5)
            )
        return loss

    session = run(hand, compare_every_steps=20, guards=("rate",))
    (finding,) = session.outcome.findings
    assert (finding.code, session.stop.status, session.last.number) == ("HG004", 4, 20)
    assert "group 0 was trained with lr=0.5 at step 20, and the schedule says" in finding.message


def test_a_rate_set_between_two_steps_is_named_once_and_stops_nothing(run):
    def hand(session, step, loss):
        for group in session.updater.optimizer.param_groups:
            group["lr"] *= 3.0
        return loss

    session = run(hand, compare_every_steps=20)
    (finding,) = session.outcome.findings
    assert (finding.code, finding.severity) == ("HG006", Severity.INFO)
    assert "It had no effect" in finding.message
    assert session.last.number == 160


def test_a_plateau_between_two_comparisons_is_no_other_rate(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def hand(session, step, loss):
        if step % 30 == 0:
            session.stopper.lr_factor *= 0.5
            session.save()
        return loss

    assert run(hand, record=True, compare_every_steps=7).outcome.findings == []
