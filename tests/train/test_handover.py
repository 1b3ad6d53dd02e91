import json

import pytest
import torch
from safetensors.torch import save_file

import hemostat
from hemostat.errors import FieldError, RecordError, TaskError, UnknownNameError, UsageError
from hemostat.track import create_run, update_run
from hemostat.train.handover import load

TASK = """
import torch, hemostat

class Line(hemostat.Task):
    width: int = 3
    def model(self): return torch.nn.Sequential(torch.nn.Linear(self.width, 2), torch.nn.Dropout())
    def train_data(self): return [torch.zeros(self.width)]
    def loss(self, output, target): return output.sum(), 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch, save_model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(TASK)
    path = create_run(tmp_path / ".hemostat" / "runs", "one", {})
    update_run(path, task={"spec": "line.py:Line", "values": {"width": 5}})
    model = torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.Dropout())
    save_model(path, model, 1)
    out = tmp_path / "out"
    out.mkdir()
    save_file(model.state_dict(), out / "model.safetensors")
    manifest = {
        "kind": "task",
        "task": "line.py:Line",
        "values": {"width": 5},
        "checkpoint": "best",
        "why": "It branches.",
    }
    (out / "hemostat.json").write_text(json.dumps(manifest))
    return model


def test_a_run_by_id_or_folder_is_ready_to_predict(here):
    for source in ("one", "last", ".hemostat/runs/one"):
        model = hemostat.load(source)
        assert not model.training and not model[1].training
        assert torch.equal(model[0].weight, here[0].weight)


def test_the_code_of_a_folder_runs_only_when_it_is_named(here, tmp_path):
    (tmp_path / "out" / "line.py").write_text("raise SystemExit('run without being asked')")
    with pytest.raises(TaskError, match=r"needs its task file: It branches\. Read that file"):
        load("out")
    model = load("out", task="line.py:Line")
    assert not model.training and torch.equal(model[0].weight, here[0].weight)


def test_a_module_of_ones_own_takes_the_weights(here):
    for source in ("one", "out"):
        mine = torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.Dropout())
        model = hemostat.load(source, model=mine)
        assert model is mine and not mine.training
        assert torch.equal(mine[0].weight, here[0].weight)
        with pytest.raises(TaskError, match="do not fit"):
            load(source, model=torch.nn.Linear(5, 3))
    with pytest.raises(FieldError, match=r"task='line.py:Line': is given beside model"):
        load("one", task="line.py:Line", model=mine)


def test_what_is_no_run_and_no_folder(here, tmp_path):
    with pytest.raises(UnknownNameError, match="run='two'"):
        load("two")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FieldError, match=r"neither hemostat.json nor run.json"):
        load("empty")
    with pytest.raises(UsageError, match="holds the best weights only"):
        load("out", checkpoint="last")
    with pytest.raises(UsageError, match="has no best checkpoint"):
        load("one", checkpoint="best")


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        (5, {}, r'load=5: is no run and no folder. Write hemostat.load\("last"\)'),
        (None, {}, "load=None: is no run"),
        ("one", {"model": 5}, r"model=5: is no torch\.nn\.Module"),
        ("out", {"model": torch.nn.Linear}, r"model=.*is no torch\.nn\.Module"),
        ("one", {"task": 4}, r"task=4: is no task. Write task=\"FILE.py:CLASS\""),
        ("one", {"checkpoint": 1.5}, r"checkpoint=1\.5: is no checkpoint"),
        ("out", {"checkpoint": False}, "checkpoint=False: is no checkpoint"),
    ],
)
def test_wrong_types_are_named(here, source, more, says):
    with pytest.raises(FieldError, match=says):
        load(source, **more)


def test_a_damaged_folder(here, tmp_path):
    weights = tmp_path / "out" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-8])
    with pytest.raises(RecordError, match="not whole"):
        load("out", task="line.py:Line")
    save_file({"0.weight": torch.zeros(2, 4), "0.bias": torch.zeros(2)}, weights)
    with pytest.raises(TaskError, match=r"do not fit line.py:Line"):
        load("out", task="line.py:Line")
    (tmp_path / "out" / "hemostat.json").write_text("{")
    with pytest.raises(RecordError, match=r"hemostat\.json cannot be read"):
        load("out")


def test_a_hugging_face_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=31, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path)
    manifest = {"kind": "huggingface", "class": "GPT2LMHeadModel", "task": "x.py:X"}
    (tmp_path / "hemostat.json").write_text(json.dumps(manifest))
    ids = torch.randint(0, 31, (2, 5))
    loaded = load(tmp_path)
    assert not loaded.training
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    for wrong in ("pipeline", "Nothing", "GPT2Config"):
        (tmp_path / "hemostat.json").write_text(json.dumps(manifest | {"class": wrong}))
        with pytest.raises(UsageError, match="no model class"):
            load(tmp_path)
