"""Values of another form are told by the names of their keys."""

import json
from pathlib import Path

import msgspec
import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import RecordError
from hemostat.recipe import Base
from hemostat.track import Checkpoints, load_run
from hemostat.track.checkpoints import digest_file
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop
from hemostat.train.state_form import check_form

FORM = {
    "step": 0,
    "name": "",
    "scaler": {"scale": 1.0},
    "guards": {"said": {}, "guards": {"spike": {"losses": []}}},
}


def found(**changes):
    return {"step": 3, "name": "x", "scaler": None, "guards": {"said": {"HG001": 2}, "guards": {}}} | changes


def test_what_depends_on_settings_is_free():
    check_form(found(), FORM, "state.json")
    check_form(found(step=2.5, guards={"said": {}, "guards": {"drift": {"any": 1}}}), FORM, "state.json")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"step": "3"}, "step of another kind"),
        ({"scaler": {}}, r"it lacks scaler\.scale"),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, "it has a, b, c, d and 1 more, which"),
        ({"guards": {"said": {}, "guards": {"spike": {}}}}, r"it lacks guards\.guards\.spike\.losses"),
        ({"guards": 3}, "guards of another kind"),
    ],
)
def test_what_differs_is_named(changes, said):
    with pytest.raises(RecordError, match=said):
        check_form(found(**changes), FORM, "state.json")


def test_nothing_at_all():
    with pytest.raises(RecordError, match="the whole of another kind"):
        check_form([], FORM, "state.json")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trained(stop_at: int | None = None, resume: str | None = None) -> None:
    rows = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
    base = Base(optimizer="adamw", lr=0.01, tuned_batch=4, epochs=4)
    settings = TrainSettings(resume=resume)
    with Session(torch.nn.Linear(4, 1), None, TensorDataset(rows), base, settings=settings) as session:
        for (inputs,) in session.steps():
            session.backward(session.model(inputs).square().sum(), count=len(inputs))
            if session.last.number == stop_at:
                session.stop = Stop("SIGTERM", 75)


def tamper(change, name: str = "state.json") -> None:
    """Change what the newest checkpoint says, and its digest with it."""
    folder = Checkpoints(load_run(Path(".hemostat/runs")).path).published()[-1]
    state = json.loads((folder / name).read_text())
    change(state)
    (folder / name).write_text(json.dumps(state))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = msgspec.to_builtins(digest_file(folder / name))
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.pop("guards"), "it lacks guards"),
        (lambda state: state.pop("permutation"), "it lacks permutation"),
        (lambda state: state["spending"]["parts"].pop("lost"), r"it lacks spending\.parts\.lost"),
        (
            lambda state: state["guards"]["guards"]["spike"].pop("losses"),
            r"it lacks guards\.guards\.spike\.losses",
        ),
        (lambda state: state["stopper"].pop("best"), r"it lacks stopper\.best"),
        (lambda state: state["last"].pop("lr"), "it lacks lr"),
        (lambda state: state["optimizer"].pop("state"), r"it lacks optimizer\.state"),
        (lambda state: state.update(ema={"decay": 0.9}), "it has ema, which this hemostat does not know"),
        (lambda state: state.update(counts=[1, 2]), "counts of another kind"),
        (
            lambda state: [state.pop(name) for name in list(state)],
            "it lacks step, samples, last, counts and 17 more",
        ),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_state_with_missing_or_unknown_keys_is_refused_by_name(change, said):
    trained(stop_at=5)
    tamper(change)
    with pytest.raises(
        RecordError, match=rf"state\.json.* is not the state that this hemostat writes: .*{said}"
    ):
        trained(resume="last")


@pytest.mark.usefixtures("here")
def test_random_numbers_that_are_missing_are_named():
    trained(stop_at=5)
    tamper(lambda own: own["rng"].pop("torch"), "rank.0.json")
    with pytest.raises(RecordError, match=r"rank\.0\.json is not the state .*it lacks rng\.torch"):
        trained(resume="last")
