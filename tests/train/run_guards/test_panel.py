"""Guards asked together: said once, stopping where they are told to, whoever trains."""

import json

from hemostat.train.run_guards.panel import Panel
from hemostat.train.run_guards.spike import SpikeGuard
from hemostat.train.update import Step


def losses(panel, *, spikes=(), start=0, num=100):
    for number in range(start, start + num):
        loss = 90.0 if number in spikes else 1.0 + 0.01 * (number % 5)
        panel.after_step(Step(number, 8 * number, loss, 0.1, 1.0 + 0.1 * (number % 3), True))


def new_panel(stop_on=()):
    found = []
    guard = SpikeGuard(8.0, lambda before, after: f"rows {before} to {after - 1}")
    return Panel({"spike": guard}, stop_on, found.append), found


def test_a_spike_names_the_batch_as_its_run_does():
    panel, found = new_panel()
    losses(panel, spikes=[70])
    assert [(finding.code, finding.severity) for finding in found] == [("HG001", 1)]
    assert found[0].fix.startswith("Look at its batch: rows 552 to 559.")


def test_it_is_an_error_where_it_stops_the_run_and_five_are_said_at_most():
    panel, found = new_panel(stop_on=("spike",))
    losses(panel, spikes=range(70, 1000, 100), num=1000)
    assert [finding.severity for finding in found] == [2] * 5


def test_the_state_goes_on_and_what_stopped_the_run_may_be_said_again():
    first, found = new_panel()
    losses(first, spikes=range(70, 600, 100), num=600)
    assert len(found) == 5
    for again, more in ((), 0), ({"HG001"}, 1):
        second, found = new_panel()
        second.restore(json.loads(json.dumps(first.state())), again)
        losses(second, spikes=[690], start=600)
        assert len(found) == more
