"""`hemostat recipe` as a user types it."""

import json
import tomllib

import pytest

from hemostat.cli.main import run

STORY = ["--set", "optimizer=sgd", "--set", "lr=0.1", "--set", "tuned_batch=128", "--num-ranks", "8"]


def test_the_story_of_the_divided_rate(capsys):
    assert run(["recipe", *STORY, "--micro-batch", "16"]) == 0
    out = capsys.readouterr().out
    assert "the learning rate must not move" in out
    assert len(out.splitlines()) <= 12


def test_the_story_of_the_large_batch(capsys):
    assert run(["recipe", *STORY, "--micro-batch", "128"]) == 0
    out = capsys.readouterr().out
    assert "0.1 -> 0.8" in out
    assert "0 -> 500" in out
    assert len(out.splitlines()) <= 12


def test_file_then_set_then_flags(tmp_path, capsys):
    config = tmp_path / "one.toml"
    config.write_text('optimizer = "sgd"\nlr = 0.5\ntuned_batch = 64\nnum_ranks = 2\nmicro_batch = 64\n')
    assert run(["recipe", "--config", str(config), "--set", "lr=0.1", "--num-ranks", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_ranks"], found["global_batch"]) == (4, 256)
    assert found["lr"] == pytest.approx(0.4)


def test_one_file_serves_recipe_and_train(tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text("lr = 0.1\ntuned_batch = 64\n[train]\nseed = 3\n")
    out = tmp_path / "new.toml"
    assert run(["recipe", "--config", str(config), "--json", "--output", str(out)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["lr"] == 0.1
    assert "wrote" in captured.err


def test_what_it_writes_it_reads(tmp_path, capsys):
    path = tmp_path / "eight.toml"
    assert run(["recipe", *STORY, "--micro-batch", "128", "--output", str(path)]) == 0
    assert tomllib.loads(path.read_text())["tuned_batch"] == 1024
    capsys.readouterr()
    assert run(["recipe", "--config", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lr"], found["warmup_steps"], found["batch_ratio"]) == (pytest.approx(0.8), 500, 1.0)


def test_why(capsys):
    assert run(["recipe", *STORY, "--micro-batch", "128", "--why"]) == 0
    assert "arXiv 1706.02677" in capsys.readouterr().out


def test_runs_give_the_bill(capsys):
    args = ["recipe", *STORY, "--runs", "128:1.2M 256:1.3M 512:1.6M"]
    assert run(args) == 0
    assert "critical batch 1004" in capsys.readouterr().out
    assert run([*args, "--micro-batch", "128"]) == 2
    assert "Set accept_bill=true" in capsys.readouterr().err


def test_runs_in_epochs_keep_their_fractions(capsys):
    assert run(["recipe", *STORY, "--runs", "128:12.4 256:13.1 512:14.9"]) == 0
    in_epochs = capsys.readouterr().out
    assert run(["recipe", *STORY, "--runs", "128:12.4M 256:13.1M 512:14.9M"]) == 0
    assert capsys.readouterr().out == in_epochs


def test_what_was_not_given_is_said(capsys):
    assert run(["recipe", "--num-ranks", "2"]) == 0
    assert "lr=0.001 and tuned_batch=32 assumed" in capsys.readouterr().err
    assert run(["recipe", *STORY]) == 0
    assert capsys.readouterr().err == ""


def test_counts_may_be_written_short(capsys):
    args = [*STORY, "--set", "num_train_samples=50k", "--set", "total_samples=4.5M", "--json"]
    assert run(["recipe", *args]) == 0
    assert json.loads(capsys.readouterr().out)["total_samples"] == 4_500_000


def test_double_scaling_is_a_finding(capsys):
    assert run(["recipe", *STORY, "--micro-batch", "128", "--set", "framework=mmengine"]) == 1
    assert "HR002" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "lr=-1"], "lr=-1.0: must be a number above 0."),
        (["--set", "lr=fast"], "lr='fast': must be float, not str."),
        (["--set", "learning_rate=1"], "setting='learning_rate': is not known."),
        (["--set", "total_samples=0"], "total_samples=0: must be a whole number"),
        (["--set", "schedule=cosin"], "schedule='cosin': is not known. Did you mean 'cosine'?"),
        (["--set", "schedule=step", "--set", "milestones=[60, 30]"], "milestones=[60.0, 30.0]: must rise"),
        (["--set", "eta_min=1"], "eta_min=1.0: the floor lies above the peak rate"),
        (["--set", "warmup_steps=9", "--set", "total_samples=320"], "warmup_steps=9: is more than half"),
        (["--micro-batch", "4", "--accumulation", "2", "--global-batch", "100"], "contradicts micro_batch=4"),
        (["--num-ranks", "0"], "num_ranks=0: must be a whole number, 1 or more."),
        (["--num-ranks", "64"], "global_batch=32: leaves some of num_ranks=64 without a sample."),
        (["--runs", "128:1M"], "a critical batch needs runs at three or more distinct batches."),
        (["--runs", "128"], "runs='128': is not batch:samples."),
        (["--config", "absent.toml"], "config='absent.toml': no such file."),
        (["--global-batch", "1024", "--output", "x.toml"], "the rate is a sweep"),
    ],
)
def test_bad_input_is_one_line_and_status_2(args, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["recipe", *args]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "x.toml").exists()


def test_the_repair_in_the_refusal_of_a_sweep_works(capsys, tmp_path):
    path = tmp_path / "x.toml"
    args = ["recipe", "--global-batch", "1024", "--output", str(path)]
    assert run(args) == 2
    assert "force a rule with lr_rule" in capsys.readouterr().err
    assert run([*args, "--set", "lr_rule=linear"]) == 0
    assert tomllib.loads(path.read_text())["lr"] == pytest.approx(0.032)


def test_a_place_that_cannot_be_written(capsys, tmp_path):
    assert run(["recipe", "--output", str(tmp_path / "absent" / "x.toml")]) == 3
    assert "cannot write" in capsys.readouterr().err


def test_a_task_file_gives_the_values(tmp_path, capsys):
    path = tmp_path / "digits.py"
    path.write_text(
        "import hemostat\n"
        "class Digits(hemostat.Task):\n"
        "    optimizer: str = 'sgd'\n"
        "    lr: float = 0.1\n"
        "    tuned_batch: int = 128\n"
        "    def model(self): ...\n"
        "    def train_data(self): return list(range(5000))\n"
        "    def loss(self, output, target): ...\n"
    )
    args = ["recipe", f"{path}:Digits", "--num-ranks", "8", "--micro-batch", "128", "--set", "lr=0.2"]
    assert run([*args, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lr"] == pytest.approx(1.6)
