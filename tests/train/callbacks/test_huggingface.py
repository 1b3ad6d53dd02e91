"""The callback in a real `transformers.Trainer`: recorded, guarded, stopped, and the same weights."""

# ruff: noqa: E402 - what needs the library comes after it was asked for

import json
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install 'hemostat[hf]'")
pytest.importorskip("accelerate", reason="pip install 'hemostat[hf]'")

from hemostat.cli.main import run as command
from hemostat.errors import FieldError, HemostatWarning
from hemostat.track import load_run
from hemostat.train import TrainSettings
from hemostat.train.callbacks import HuggingFaceCallback
from hemostat.train.record import DEFAULT_ROOT


def bert():
    transformers.set_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=32, max_position_embeddings=16, **sizes)
    return transformers.BertForSequenceClassification(config)  # with dropout


class Jumps(torch.nn.Module):
    """A line whose loss is lifted from a step on."""

    def __init__(self, at=10**9):
        super().__init__()
        self.line, self.at, self.steps = torch.nn.Linear(8, 1), at, 0

    def forward(self, input_ids, labels):
        loss = (self.line(input_ids.float() / 32) - labels[:, None]).square().mean()
        self.steps += self.training
        return {"loss": loss + 50.0 * (self.steps > self.at)}


def fit(model, callbacks, **given):
    draw = torch.Generator().manual_seed(1)
    rows = [
        {"input_ids": torch.randint(0, 32, (8,), generator=draw), "labels": number % 2}
        for number in range(64)
    ]
    quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "per_device_train_batch_size": 4}
    given = {"max_steps": 12, "logging_steps": 1, "save_strategy": "no"} | quiet | given
    args = transformers.TrainingArguments("out", **given)
    trainer = transformers.Trainer(
        model=model, args=args, train_dataset=rows, eval_dataset=rows[:16], callbacks=callbacks
    )
    trainer.train()
    return trainer


def test_the_weights_are_those_without_it_and_the_run_is_in_the_records(capsys):
    given = {"eval_strategy": "steps", "eval_steps": 4, "gradient_accumulation_steps": 2, "warmup_steps": 3}
    bare = fit(bert(), [], **given)
    callback = HuggingFaceCallback(TrainSettings(max_hours="1h", usd_per_hour=3.0))
    followed = fit(bert(), [callback], **given)
    pairs = zip(bare.model.state_dict().values(), followed.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    logged = [entry["loss"] for entry in bare.state.log_history if "loss" in entry]

    record = load_run(DEFAULT_ROOT, "last")
    assert record.metrics("loss") == [
        (number + 1, 8 * number + 8, loss) for number, loss in enumerate(logged)
    ]
    assert [step for step, _, _ in record.metrics("eval_loss")] == [4, 8, 12]
    values = record.header["hyper_parameters"]
    assert (values["lr"], values["global_batch"], values["accumulation"], values["warmup_steps"]) == (
        5e-5,
        8,
        2,
        3,
    )
    assert (record.summary["steps"], record.summary["monitor"], record.state) == (12, "eval_loss", "done")
    assert record.summary["usd"] == pytest.approx(record.summary["spent_s"] * 3 / 3600)
    capsys.readouterr()
    assert command(["runs", "show", "last"]) == 0
    assert "best     eval_loss" in capsys.readouterr().out
    fit(Jumps(), [HuggingFaceCallback()], max_steps=2)
    assert command(["runs", "compare", record.id, "last"]) == 0
    assert "accumulation" in capsys.readouterr().out
    assert command(["runs", "budget"]) == 0
    assert "2 runs in" in capsys.readouterr().out


def test_a_divergence_stops_the_trainer_at_that_step():
    callback = HuggingFaceCallback()
    with pytest.warns(HemostatWarning):
        trainer = fit(Jumps(at=40), [callback], max_steps=200)
    assert trainer.state.global_step == callback.run.last.number == 90  # five blocks of ten behind step 40
    assert [finding.code for finding in callback.run.outcome.findings] == ["HG001", "HG002"]
    assert load_run(DEFAULT_ROOT, "last").state == "guard"


def test_losses_told_every_few_steps_are_looked_at_as_they_come():
    callback = HuggingFaceCallback()
    fit(Jumps(), [callback], logging_steps=5, max_steps=12)
    assert [step for step, _, _ in load_run(DEFAULT_ROOT, "last").metrics("loss")] == [5, 10]
    assert callback.run.last.number == 12


def test_it_saves_and_stops_before_its_hours_are_passed():
    callback = HuggingFaceCallback(TrainSettings(max_hours="3s"))
    trainer = fit(Jumps(), [callback], max_steps=10**6, save_strategy="steps", save_steps=10**6)
    record = load_run(DEFAULT_ROOT, "last")
    assert (record.state, json.loads((record.path / "exit.0.json").read_text())["status"]) == ("budget", 5)
    assert record.summary["spent_s"] <= 3.0
    assert Path(f"out/checkpoint-{trainer.state.global_step}").is_dir()


def test_another_metric_where_more_is_better():
    callback = HuggingFaceCallback(monitor="steps_per_second", mode="max")
    fit(Jumps(), [callback], eval_strategy="steps", eval_steps=4)
    values = [value for _, _, value in load_run(DEFAULT_ROOT, "last").metrics("eval_steps_per_second")]
    assert callback.run.outcome.best == max(values)


def test_a_setting_of_the_trainer_is_refused_at_once():
    with pytest.raises(FieldError, match=r"train\.seed=3: belongs to the trainer here"):
        HuggingFaceCallback(TrainSettings(seed=3))


SCRIPT = """
import json, torch, transformers
from hemostat.train import TrainSettings
from hemostat.train.callbacks import HuggingFaceCallback

class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 1)
    def forward(self, x, labels):
        return {"loss": (self.line(x) - labels[:, None]).square().mean()}

transformers.set_seed(0)
rows = [{"x": torch.randn(8), "labels": 0.5} for _ in range(64)]
callback = HuggingFaceCallback(TrainSettings(max_hours="3s"))
args = transformers.TrainingArguments("out", max_steps=10**6, logging_steps=3, save_strategy="no", report_to=[],
                                      use_cpu=True, disable_tqdm=True, per_device_train_batch_size=4)
trainer = transformers.Trainer(model=Line(), args=args, train_dataset=rows, callbacks=[callback])
trainer.train()
print("TOLD", json.dumps([args.process_index, trainer.state.global_step, callback.run.stop.status]))
"""


def test_two_processes_stop_at_the_same_step_by_the_clock_of_the_first(two_processes):
    first, second = two_processes(SCRIPT)
    assert (first[0], second[0]) == (0, 1)
    assert first[1:] == second[1:]
    assert first[2] == 5
