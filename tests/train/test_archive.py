import json
import pickle
import subprocess
import sys
import zipfile

import pytest
import torch
from torch import nn

from hemostat.errors import RecordError, TaskError, UsageError
from hemostat.train.archive import make_archive, open_archive


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, ids, scale=None):
        hidden = self.layer(self.embed(ids) + 0.01 * torch.arange(ids.shape[1])[None, :, None])
        return {"logits": self.head(hidden) * scale[:, None, None]}


def inputs(rows, length=7):
    return (torch.randint(0, 50, (rows, length)),), {"scale": torch.rand(rows)}


@pytest.fixture
def archive(tmp_path):
    model = Words().eval()
    make_archive(model, inputs(2), inputs(3), tmp_path / "model.pt2")
    return model, tmp_path / "model.pt2"


def test_it_computes_what_the_model_does_on_other_sizes(archive):
    model, path = archive
    again = open_archive(path)
    for rows, length in ((2, 7), (5, 11)):
        args, kwargs = inputs(rows, length)
        torch.testing.assert_close(again(*args, **kwargs)["logits"], model(*args, **kwargs)["logits"])


def test_it_is_in_evaluation_mode_and_stays_there(archive):
    again = open_archive(archive[1])
    assert not any(part.training for part in again.modules())
    assert again.eval() is again and again.train(False) is again and not again.training
    with pytest.raises(UsageError, match="in evaluation mode only"):
        again.train()


def test_a_full_disk_is_not_said_of_the_model(tmp_path):
    code = f"""
import resource, torch
from hemostat.train.archive import make_archive
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
rows = lambda num: ((torch.ones(num, 300),), {{}})
try:
    make_archive(torch.nn.Linear(300, 300).eval(), rows(2), rows(3), Path({str(tmp_path / "m.pt2")!r}))
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "File too large", done.stderr


def test_no_rows_of_the_data_are_in_it(archive):
    with zipfile.ZipFile(archive[1]) as found:
        assert found.read("archive/data/sample_inputs/model.pt") == b""


def test_what_cannot_be_traced_is_said_and_leaves_no_file(tmp_path):
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Rows(nn.Module):
        def forward(self, x):
            return x.reshape(2, -1)  # two rows and no others

    for model in (Branching(), Rows()):
        with pytest.raises(TaskError, match=r"torch\.export cannot take this model"):
            make_archive(model, ((torch.ones(2, 3),), {}), ((torch.ones(3, 3),), {}), tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())


class Evil:
    def __reduce__(self):
        return (print, ("unpickled",))


def rewritten(path, change):
    """The archive with `change(name, data)` applied to each file; None leaves a file out."""
    target = path.with_name("changed.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
        extra = change("", b"")
        if extra:
            new.writestr(*extra)
    return target


def config(data, change):
    tree = json.loads(data)
    change(next(iter(tree["config"].values())))
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda n, d: pickle.dumps((Evil(),)) if n.endswith("sample_inputs/model.pt") else d,
            "example inputs",
        ),
        (
            lambda n, d: (
                config(d, lambda p: p.update(use_pickle=True)) if n.endswith("weights_config.json") else d
            ),
            "pickled",
        ),
        (
            lambda n, d: (
                d.replace(b"torch.ops.aten.linear.default", b"torch.hub.load") if "models/" in n else d
            ),
            "calls",
        ),
        (lambda n, d: d.replace(b"Symbol('s", b"exec('s") if "models/" in n else d, "size"),
        (lambda n, d: d if n else ("archive/data/aotinductor/model/x.so", b"x"), "x.so"),
        (lambda n, d: d if n else ("archive/data/weights/model.pt", b"x"), "model.pt"),
        (lambda n, d: d if n else ("archive/byteorder", b"little"), "two files of one name"),
        (lambda n, d: d if n else ("elsewhere/x", b"x"), "beside its folder"),
    ],
    ids=["inputs", "weights", "function", "expression", "library", "legacy", "twice", "beside"],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_could_run_code_is_refused(archive, change, said, capsys):
    with pytest.raises(RecordError, match=said):
        open_archive(rewritten(archive[1], change))
    assert "unpickled" not in capsys.readouterr().out
    open_archive(rewritten(archive[1], lambda name, data: data))  # the rewriting itself does no harm


def changed(data, **fields):
    return json.dumps(json.loads(data) | fields)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda n, d: changed(d, config=[1]) if n.endswith("weights_config.json") else d, "is not whole"),
        (lambda n, d: b"[" * 100_000 if "models/" in n else d, "is not whole"),
        (
            lambda n, d: changed(d, schema_version={"major": 999, "minor": 1}) if "models/" in n else d,
            r"cannot be opened by torch .*hemostat\.json says which torch",
        ),
    ],
    ids=["list", "nested", "torch"],
)
def test_nonsense_and_another_torch_are_one_message(archive, change, says):
    with pytest.raises(RecordError, match=says):
        open_archive(rewritten(archive[1], change))


def test_half_an_archive(archive):
    path = archive[1]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RecordError, match="not whole"):
        open_archive(path)
