import json
import subprocess
import sys
import textwrap

import pytest
import torch

from hemostat.errors import FieldError, MissingExtraError, RecordError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import Checkpoints, load_run
from hemostat.train import TrainSettings, export_run, load, train

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Net(torch.nn.Module):
    def __init__(self, width, branch):
        super().__init__()
        self.a, self.b, self.branch = torch.nn.Linear(3, width), torch.nn.Linear(width, 1), branch
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(torch.relu(self.a(x)))
        return self.b(x) if not self.branch or x.sum() > 0 else self.b(-x)

class Line(hemostat.Task):
    optimizer: str = "sgd"
    tuned_batch: int = 8
    epochs: float = 2
    width: int = 4
    branch: bool = False

    def model(self):
        return Net(self.width, self.branch)

    def train_data(self):
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True))

    val_data = train_data

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)
"""


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(textwrap.dedent(TASK))

    def make(**values):
        train(load_task("line.py:Line", values), Devices(), TrainSettings())
        return load_run(tmp_path / ".hemostat" / "runs")

    return make


def test_a_folder_is_loaded_without_the_training_code(make_run, tmp_path):
    record = make_run(width=6)
    written = export_run(record, tmp_path / "out")
    assert written["kind"] == "archive" and written["checkpoint"] == "best"
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["README.md", "hemostat.json", "model.pt2", "model.safetensors"]
    inputs = torch.randn(5, 3)
    expected = load("last")(inputs)
    (tmp_path / "line.py").unlink()
    code = (
        "import hemostat, torch, sys\n"
        "model = hemostat.load('out')\n"
        f"print(model(torch.tensor({inputs.tolist()})).tolist())\n"
        "sys.exit('line' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.tensor(json.loads(done.stdout)), expected)


def test_a_model_that_cannot_be_traced_says_that_its_task_is_needed(make_run, tmp_path):
    written = export_run(make_run(branch=True), tmp_path / "out", checkpoint="last")
    assert written["kind"] == "task" and "torch.export cannot take this model" in written["why"]
    assert (tmp_path / "out" / "line.py").read_text() == (tmp_path / "line.py").read_text()
    assert not (tmp_path / "out" / "model.pt2").exists()
    inputs = torch.randn(5, 3)
    loaded = load(tmp_path / "out", task=f"{tmp_path}/out/line.py:Line")
    torch.testing.assert_close(loaded(inputs), load("last", checkpoint="last")(inputs))


def test_a_folder_in_use_is_left_alone(make_run, tmp_path):
    record = make_run()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(FieldError, match="not empty"):
        export_run(record, tmp_path / "out")
    (tmp_path / "out" / "mine.txt").unlink()
    assert export_run(record, tmp_path / "out")["kind"] == "archive"  # empty is fine


def test_half_a_checkpoint_leaves_nothing_behind(make_run, tmp_path):
    record = make_run()
    (path,) = Checkpoints(record.path).best().glob("*.distcp")
    path.write_bytes(path.read_bytes()[:700])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RecordError, match="not whole"):
        export_run(record, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written(make_run, tmp_path):
    record = make_run()
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RecordError, match="cannot be written"):
        export_run(record, tmp_path / "taken" / "out")


@pytest.mark.parametrize("limit", [8_192, 250_000])
def test_a_full_disk_is_one_message_and_leaves_nothing(make_run, tmp_path, limit):
    make_run(width=15_000)  # 240 kB of weights; the archive has 2 kB more
    before = sorted(tmp_path.iterdir())
    code = f"""
import resource, sys
from hemostat.cli.main import run
import torch, safetensors.torch
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
sys.exit(run(["export", "last", "out"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(
        "error: dir='out': cannot be written, the file-size limit is reached. Raise"
    )
    assert [path.name for path in sorted(tmp_path.iterdir())] == [path.name for path in before]


def test_by_its_step(make_run, tmp_path):
    record = make_run()
    step = Checkpoints(record.path).published()[0]
    written = export_run(record, tmp_path / "out", checkpoint=int(step.name[-3:]))
    assert written["checkpoint"] == f"step-{written['step']}"
    for name in (written["step"], f"step-{written['step']}", None):
        assert not load(tmp_path / "out", checkpoint=name).training


def test_the_extra_is_named(make_run, tmp_path, monkeypatch):
    record = make_run()
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(MissingExtraError, match=r"hemostat\[export\]"):
        export_run(record, tmp_path / "out")


HUGGING_FACE = """
import torch, hemostat, transformers

class Own(transformers.GPT2LMHeadModel):
    pass

class Lm(hemostat.Task):
    tuned_batch: int = 8
    own: bool = False

    def model(self):
        config = transformers.GPT2Config(
            vocab_size=31, n_positions=16, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
        )
        return (Own if self.own else transformers.GPT2LMHeadModel)(config)

    def train_data(self):
        ids = torch.randint(0, 31, (16, 8), generator=torch.Generator().manual_seed(1))
        return [{"input_ids": row, "labels": row} for row in ids]

    def step(self, model, batch):
        return model(**batch)
"""


@pytest.mark.parametrize("own", [False, True])
def test_a_hugging_face_model_becomes_a_hugging_face_folder(tmp_path, monkeypatch, own):
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm.py").write_text(HUGGING_FACE)
    train(load_task("lm.py:Lm", {"own": own}), Devices(), TrainSettings())
    written = export_run(load_run(tmp_path / ".hemostat" / "runs"), tmp_path / "out")
    assert written["kind"] == ("task" if own else "huggingface") and written["checkpoint"] == "last"
    ids = torch.randint(0, 31, (2, 5))
    expected = load("last")(ids).logits
    torch.testing.assert_close(
        transformers.GPT2LMHeadModel.from_pretrained("out").eval()(ids).logits, expected
    )
    loaded = load("out", task="lm.py:Lm") if own else load("out")
    torch.testing.assert_close(loaded(ids).logits, expected)
