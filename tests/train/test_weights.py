import pickle
import shutil

import pytest
import torch

from hemostat.errors import FieldError, RecordError, TaskError, UnknownNameError, UsageError
from hemostat.track import RunRecord, create_run, load_run, update_run, write_exit
from hemostat.train.tensor_files import METADATA
from hemostat.train.weights import Weights, fit_weights, read_weights


@pytest.fixture
def run(tmp_path, save_model):
    path = tmp_path / "run"
    path.mkdir()
    torch.manual_seed(0)
    save_model(path, torch.nn.Linear(3, 2), 7, best=True)
    save_model(path, torch.nn.Linear(3, 2), 9)
    update_run(path, summary={"best": 0.5, "best_step": 7, "steps": 9})
    write_exit(path, 0, 0, "")
    return load_run(tmp_path, "run")


def folder(run, step):
    return run.path / "checkpoints" / f"step-{step:09d}"


def test_best_and_last(run):
    best, last = read_weights(run), read_weights(run, "last")
    assert (best.name, best.step, last.name, last.step) == ("best", 7, "last", 9)
    assert not torch.equal(best.state["weight"], last.state["weight"])
    model = torch.nn.Linear(3, 2)
    fit_weights(model, best, "it")
    assert torch.equal(model.weight, best.state["weight"])
    with pytest.raises(UnknownNameError, match="best, last, step-7, step-9"):
        read_weights(run, "worst")


@pytest.mark.parametrize("name", [9, "9", "step-9", "step-000000009"])
def test_any_checkpoint_that_is_there(run, name):
    found = read_weights(run, name)
    assert (found.name, found.step, str(found)) == ("step-9", 9, "weights of step 9")
    assert torch.equal(found.state["weight"], read_weights(run, "last").state["weight"])
    with pytest.raises(UnknownNameError, match=r"checkpoint='step-8': .*Known: best, last, step-7, step-9"):
        read_weights(run, 8)
    with pytest.raises(FieldError, match=r"checkpoint=True: .*a step such as 40"):
        read_weights(run, True)


def test_a_garbled_pointer_to_the_best_is_said_with_the_step_of_the_record(run):
    (run.path / "checkpoints" / "best.json").write_text("{")
    for name in (None, "best"):
        with pytest.raises(
            RecordError, match=r"best\.json is garbled.*step 7 as the best.*--checkpoint step-7"
        ):
            read_weights(run, name)
    assert read_weights(run, "step-7").step == 7
    shutil.rmtree(folder(run, 7))
    with pytest.raises(RecordError, match=r"--checkpoint last\."):
        read_weights(run)


def test_a_run_never_judged_gives_its_last(run):
    shutil.rmtree(folder(run, 7))
    with pytest.raises(UsageError, match=r"has no best checkpoint.*--checkpoint last"):
        read_weights(run)  # its summary has a best value, so a folder is missing
    unjudged = RunRecord(run.path, {"summary": {"steps": 9}})
    assert read_weights(unjudged).name == "last"
    with pytest.raises(UsageError, match="never judged"):
        read_weights(unjudged, "best")


def test_half_a_checkpoint_is_not_taken(run):
    path = folder(run, 7) / "__0_0.distcp"
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(RecordError, match=r"step-000000007 is not whole: __0_0\.distcp has"):
            read_weights(run)
    for step in (7, 9):
        folder(run, step).rename(run.path / "checkpoints" / f".step-{step:09d}.tmp")
    with pytest.raises(RecordError, match=r"\.step-000000009\.tmp was being written when the run ended"):
        read_weights(run)


def test_one_wrong_bit_is_seen(run):
    path = folder(run, 7) / "__0_0.distcp"
    data = bytearray(path.read_bytes())
    data[data.find(read_weights(run).state["weight"].numpy().tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordError, match="its digest differs"):
        read_weights(run)


class Evil:
    def __reduce__(self):
        return (print, ("unpickled",))


def test_nothing_but_tensors_is_unpickled(run, capsys, monkeypatch):
    monkeypatch.setattr(
        "hemostat.track.Checkpoints.trouble", lambda *_: ""
    )  # whoever forges has the digests too
    for content, said in [(Evil(), "names builtins.print"), ({"weight": 3}, "no index of tensors")]:
        (folder(run, 7) / METADATA).write_bytes(pickle.dumps(content))
        with pytest.raises(RecordError, match=said):
            read_weights(run)
    assert "unpickled" not in capsys.readouterr().out


def test_without_checkpoints_it_says_why(run):
    shutil.rmtree(run.path / "checkpoints")
    with pytest.raises(UsageError, match=r"\(done\) came from a loop of your own.*save=False"):
        read_weights(run)
    run.header["kind"] = "train"
    with pytest.raises(
        UsageError, match=r"\(done\) has no checkpoints. Train again without train.save=false"
    ):
        read_weights(run)
    fresh = load_run(create_run(run.path.parent, "fresh", {"kind": "train"}).parent, "fresh")
    with pytest.raises(UsageError, match="still running"):
        read_weights(fresh)


def test_weights_that_do_not_fit(run):
    with pytest.raises(TaskError, match="do not fit the task's model: size mismatch for weight"):
        fit_weights(torch.nn.Linear(4, 2), read_weights(run), "run x")
    with pytest.raises(TaskError, match="Missing key"):
        fit_weights(torch.nn.Linear(3, 2), Weights({}, "best", 0), "run x")
