import json
import textwrap

import pytest

from hemostat.errors import GuardStop, HemostatWarning, TaskError, UnknownNameError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import load_run
from hemostat.train import TrainSettings, train
from hemostat.train.weights import read_weights

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    lr: float = 0.1
    tuned_batch: int = 8
    epochs: float = 8
    noise: float = 0.0

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        return self.make(40, 1)

    def val_data(self):
        return self.make(10, 2)

    def make(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(size, 3, generator=generator)
        return TensorDataset(x, x.sum(1, keepdim=True) + self.noise * torch.randn(size, 1, generator=generator))

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)

    def metrics(self, output, target):
        return {"close": (((output - target).abs() < 0.1).sum(), len(target))}
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(textwrap.dedent(TASK))
    return "line.py:Line"


def test_checkpoints_come_between_evaluations(spec, tmp_path):
    path = tmp_path / "line.py"
    text = path.read_text().replace("import torch, hemostat", "import torch, hemostat\nCALLS = []", 1)
    head = "    def loss(self, output, target):\n"
    breaks = head + "        CALLS.append(1)\n        assert len(CALLS) < 9, 'a crash'\n"
    path.write_text(text.replace(head, breaks))
    settings = TrainSettings(self_check=False)
    for number, values in enumerate(({}, {"checkpoint_every_samples": 32})):
        loaded = load_task(spec, {"eval_every_samples": 400, **values})
        with pytest.raises(TaskError, match="a crash"):
            train(loaded, Devices(), settings)
        found = list((tmp_path / ".hemostat" / "runs").glob("*/checkpoints/step-*"))
        assert bool(found) == bool(number)  # the crash of the first run left nothing
    assert set(read_weights(load_run(tmp_path / ".hemostat" / "runs")).state) == {"weight", "bias"}


def test_a_task_is_trained_judged_saved_and_recorded(spec, tmp_path):
    outcome = train(load_task(spec, {}), Devices(), TrainSettings(usd_per_hour=36.0)).outcome
    assert (outcome.steps, outcome.samples, outcome.reason) == (40, 320, "the run reached its end")
    assert outcome.best < 0.05 and outcome.final["val_close"] > 0.3
    assert outcome.usd == pytest.approx(outcome.spent_s / 100)
    record = load_run(tmp_path / ".hemostat" / "runs")
    assert record.summary["best"] == outcome.best
    judged = record.metrics("val_loss")
    assert min(point[2] for point in judged) == outcome.best
    state = read_weights(record).state
    assert set(state) == {"weight", "bias"}
    assert record.header["task"] == {
        "spec": "line.py:Line",
        "values": {"epochs": 8, "lr": 0.1, "noise": 0.0, "optimizer": "sgd", "tuned_batch": 8},
    }
    assert record.header["data"]["tier"] == "full"


def test_the_best_weights_are_the_best(spec, tmp_path):
    loaded = load_task(spec, {"lr": 0.02})
    outcome = train(loaded, Devices(), TrainSettings()).outcome
    record = load_run(tmp_path / ".hemostat" / "runs")
    model = loaded.task.model()
    model.load_state_dict(read_weights(record, "best").state)
    inputs, targets = loaded.task.val_data().tensors
    assert ((model(inputs) - targets) ** 2).mean().item() == pytest.approx(outcome.best, rel=1e-5)


def test_early_stopping_says_where_and_why(spec):
    values = {"lr": 0.5, "noise": 3.0, "epochs": 200, "patience": 3, "schedule": "constant"}
    outcome = train(load_task(spec, values), Devices(), TrainSettings()).outcome
    assert outcome.steps < 1000
    assert outcome.reason.startswith("no improvement in")


def test_two_runs_of_one_seed_are_equal_and_of_two_are_not(spec):
    same = [
        train(load_task(spec, {"noise": 1.0}), Devices(), TrainSettings(seed=seed)).outcome.best
        for seed in (1, 1, 2)
    ]
    assert same[0] == same[1] != same[2]


def test_a_dataloader_is_taken_as_it_is_with_its_batch(spec, tmp_path):
    path = tmp_path / "line.py"
    text = path.read_text().replace("    tuned_batch: int = 8\n", "")
    path.write_text(
        text.replace("return self.make(40, 1)", "return torch.utils.data.DataLoader(self.make(40, 1), 10)")
    )
    assert train(load_task(spec, {}), Devices(), TrainSettings()).outcome.steps == 8 * 4
    with pytest.warns(HemostatWarning, match="DataLoader with batch 10"):
        train(load_task(spec, {"tuned_batch": 20}), Devices(), TrainSettings())


def test_the_tasks_own_optimizer_decides_the_rule(spec, tmp_path):
    path = tmp_path / "line.py"
    own = "\n    def optimizer(self, params):\n        return torch.optim.SGD(params, lr=self.lr)\n"
    path.write_text(path.read_text().replace('    optimizer: str = "sgd"\n', "") + own)
    train(load_task(spec, {}), Devices(global_batch=16), TrainSettings())
    rows = {row["field"]: row for row in load_run(tmp_path / ".hemostat" / "runs").header["recipe"]}
    assert rows["lr"]["value"] == 0.2  # linear, where AdamW's square root would say 0.141


def test_a_mean_in_place_of_a_sum_is_refused_before_the_first_step(spec, tmp_path):
    path = tmp_path / "line.py"
    path.write_text(path.read_text().replace("** 2).sum(), len(target)\n", "** 2).mean(), len(target)\n"))
    with pytest.raises(TaskError, match="a mean where a sum belongs"):
        train(load_task(spec, {}), Devices(), TrainSettings())


def test_nan_in_the_validation_data_is_an_error(spec, tmp_path):
    path = tmp_path / "line.py"
    path.write_text(
        path.read_text()
        .replace("return self.make(10, 2)", "return self.make(10, 2, nan=True)")
        .replace("def make(self, size, seed):", "def make(self, size, seed, nan=False):")
        .replace(
            "        return TensorDataset(x,",
            "        x[3] = float('nan') if nan else x[3]\n        return TensorDataset(x,",
        )
    )
    with pytest.raises(TaskError, match="val_data holds NaN"):
        train(load_task(spec, {}), Devices(), TrainSettings())


def test_a_run_that_never_learns_is_no_success(spec, tmp_path):
    path = tmp_path / "line.py"
    path.write_text(path.read_text().replace("** 2).sum(), len(target)\n", "** 2).sum(), 0\n"))
    with pytest.raises(GuardStop, match="none of the 40 steps was applied"):
        train(load_task(spec, {}), Devices(), TrainSettings(self_check=False))


def test_the_asked_precision_is_the_recorded_one(spec, tmp_path):
    train(load_task(spec, {}), Devices(), TrainSettings(precision="bf16"))
    record = load_run(tmp_path / ".hemostat" / "runs")
    rows = {row["field"]: row.get("value") for row in record.header["recipe"]}
    assert rows["precision"] == record.header["precision"] == "bf16"


def test_baselines_are_recorded(spec, tmp_path):
    path = tmp_path / "line.py"
    path.write_text(
        path.read_text() + "\n    def baselines(self):\n        return {'guess': torch.tensor(2.5)}\n"
    )
    train(load_task(spec, {}), Devices(), TrainSettings())
    assert load_run(tmp_path / ".hemostat" / "runs").header["baselines"] == {"guess": 2.5}


def test_another_metric_can_be_followed(spec):
    values = {"metric_mode": "max", "monitor": "val_close"}
    outcome = train(load_task(spec, values), Devices(), TrainSettings()).outcome
    assert outcome.best == outcome.final["val_close"] or outcome.best > outcome.final["val_close"]
    with pytest.raises(UnknownNameError, match="Did you mean 'val_close'"):
        train(load_task(spec, {"monitor": "close"}), Devices(), TrainSettings())


def test_a_task_without_validation_still_ends_well(spec, tmp_path):
    path = tmp_path / "line.py"
    path.write_text(path.read_text().replace("return self.make(10, 2)", "return None"))
    outcome = train(load_task(spec, {}), Devices(), TrainSettings()).outcome
    assert outcome.best is None and outcome.steps == 40
    summary = json.loads((load_run(tmp_path / ".hemostat" / "runs").path / "run.json").read_text())["summary"]
    assert "final" in summary
