"""The forms in which scripts print their metrics, and a file that grows."""

from __future__ import annotations

import math

import pytest

from hemostat.tune.metric_lines import MetricLines, position_in, value_in

FORMS = [
    ("val_loss=0.123 step=100", "val_loss", 0.123, ("step", 100)),
    ("epoch 3 of 10 | train loss 0.9 | loss: 0.5", "loss", 0.9, ("epoch", 3)),
    ("Epoch [3/10], Loss: 0.5, Acc: 91.2%", "acc", 91.2, ("epoch", 3)),
    ("Epoch 7/10 - loss: 0.25 - val_loss: 0.75", "val_loss", 0.75, ("epoch", 7)),
    ("{'eval_loss': 0.5, 'eval_runtime': 2.0, 'epoch': 1.0}", "eval_loss", 0.5, ("epoch", 1)),
    ('{"step": 20, "val/acc": 5e-1}', "val/acc", 0.5, ("step", 20)),
    ("epoch=2 global_step=800 val_loss=-.5", "val_loss", -0.5, ("global_step", 800)),
    ("iter 40: train loss 2.1, val loss 1.5", "val loss", 1.5, ("iter", 40)),
    ("final val_loss inf", "val_loss", math.inf, None),
    ("{'eval_loss': 0.5, 'epoch': 1.25}", "eval_loss", 0.5, None),
]


@pytest.mark.parametrize(("line", "metric", "value", "position"), FORMS)
def test_forms(line, metric, value, position):
    assert value_in(line, metric) == value
    assert position_in(line) == position


@pytest.mark.parametrize(
    "line", ["val_loss: 0.5", "loss_scale=2", "no loss", "loss: 0.5x", "my-loss=1", "loss: high 3"]
)
def test_another_name_is_not_the_metric(line):
    assert value_in(line, "loss") is None


def test_a_file_that_grows_is_read_once_and_by_whole_lines(tmp_path):
    path = tmp_path / "output.log"
    lines = MetricLines(path, "loss")
    assert lines.read() == []
    path.write_text("epoch 1 loss: 0.9\nepoch 2 loss: 0.")
    assert lines.read() == [(1, 0.9)]
    with path.open("a") as file:
        file.write("75 acc: 0.5\nnoise\n")
    assert lines.read() == [(1, 0.9), (2, 0.75)]
    assert list(lines.names) == ["loss", "acc"]


def test_what_an_earlier_attempt_printed_is_left_out(tmp_path):
    path = tmp_path / "output.log"
    path.write_text("epoch 1 loss: 0.9\n")
    lines = MetricLines(path, "loss", begin_bytes=path.stat().st_size)
    with path.open("a") as file:
        file.write("epoch 1 loss: 0.8\n")
    assert lines.read() == [(1, 0.8)]


def test_epochs_from_0_count_from_1_and_lines_without_a_position_are_counted(tmp_path):
    path = tmp_path / "output.log"
    path.write_text("epoch 0 loss: 0.9\nepoch 1 loss: 0.8\nepoch 1 loss: 0.7\n")
    assert MetricLines(path, "loss").read() == [(1, 0.9), (2, 0.8)]
    path.write_text("step 0 loss: 0.9\nstep 5 loss: 0.8\n")
    assert MetricLines(path, "loss").read() == [(0, 0.9), (5, 0.8)]
    path.write_text("loss: 0.9\r\x1b[32mloss: 0.8\x1b[0m\nloss: nan\n")
    points = MetricLines(path, "loss").read()
    assert [at for at, _ in points] == [1, 2, 3]
    assert math.isnan(points[-1][1])
