"""HG001 names the batch: the command in the sentence gives the samples of that step."""

import re

import torch

from hemostat.data import Order


def test_the_batch_of_the_step_is_named(run):
    seen = {}

    def hand(session, step, loss):
        if step == 100:
            seen["rows"] = session.batch.data[0].clone()
        return loss * (50.0 if step == 100 else 1.0)

    session = run(hand)
    (finding,) = session.outcome.findings
    assert (finding.code, finding.severity) == ("HG001", 1)
    assert finding.where == "step 100, samples 990 to 999"
    assert "at step 100" in finding.message
    assert "gradient norm by" in finding.message
    num, seed, epoch, start, stop = (int(n) for n in re.findall(r"\d+", finding.fix)[:5])
    torch.manual_seed(0)
    inputs = torch.randn(400, 4)
    rows = torch.as_tensor(Order(num, seed=seed).indices(epoch, start, stop))
    assert torch.equal(inputs[rows], seen["rows"])
    assert session.last.number == 160


def test_each_spike_is_said_once_and_five_of_them_at_most(run):
    session = run(lambda _, step, loss: loss * (80.0 if step % 100 in (50, 51) else 1.0), epochs=20)
    assert [finding.evidence["samples"][0] for finding in session.outcome.findings] == [
        490 + 1000 * number for number in range(5)
    ]


def test_it_stops_where_it_is_told_to(run):
    hand = lambda _, step, loss: loss * (50.0 if step == 100 else 1.0)  # noqa: E731
    session = run(hand, stop_on=("spike",))
    assert (session.last.number, session.stop.status) == (100, 4)
    assert not run(hand, guards=("divergence",)).outcome.findings


def test_a_calm_run_says_nothing(run):
    assert run(lambda _, step, loss: loss).outcome.findings == []
