"""A session as a checkpoint holds it, and a session put back to where a checkpoint was."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
import torch

from hemostat.config import to_plain
from hemostat.data import Order
from hemostat.errors import RecordError, TaskError
from hemostat.findings import Finding
from hemostat.train.checkpoint import MODEL, Shape, State
from hemostat.train.optimizer_state import PREFIX, join_state, joined_trees, part_of, split_state
from hemostat.train.parallel import dp
from hemostat.train.rng import rng_state, set_rng_state
from hemostat.train.state_form import check_form
from hemostat.train.update import Step

if TYPE_CHECKING:
    from hemostat.train.session import Session


class _Judged(TypedDict):
    """What of an outcome outlives the process."""

    best: float | None
    best_step: int
    final: dict[str, float]
    num_evaluations: int
    findings: list[Finding]


def capture(session: Session) -> State:
    """Everything that the rest of the run depends on, as it stands at the end of a window.

    Running statistics (buffers) differ between ranks: the model's entry is their mean, for whoever takes the weights
    away, and each rank keeps its own beside it, so that saving changes nothing.
    """
    model, optimizer = dp.unwrap(session.model), session.updater.optimizer
    tensors = {MODEL + name: value for name, value in model_tensors(model).items()}
    if session.mesh.num_data_ranks > 1:
        own = {name: value for name, value in model.named_buffers() if MODEL + name in tensors}
        for name, value in own.items():
            tensors[_own(session.world.rank) + name] = value
        means = [tensor.clone() for tensor in own.values()]
        session.mesh.average_(means)
        tensors |= {MODEL + name: mean for name, mean in zip(own, means, strict=True)}
    split, tree = split_state(optimizer, session.parts.param_names(optimizer), session.updater.written)
    if session.mesh.layout.pp > 1:
        tree = joined_trees([json.loads(text) for text in session.world.gather(json.dumps(tree))])
    return State(
        tensors | split, _shared(session) | {"optimizer": tree}, {"rng": rng_state(session.world.device)}
    )


def _own(rank: int) -> str:
    return f"rank.{rank}/"


def model_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state dict of a model, which must be of tensors only.

    Raises:
        TaskError: it holds something else.
    """
    state = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise TaskError(
                f"the model's state {name!r} is a {type(value).__name__}. A checkpoint holds tensors only: "
                "register it as a buffer, or set train.save=false."
            )
    return state


def _shared(session: Session) -> dict[str, Any]:
    outcome, last = session.outcome, session.last
    return {
        "step": last.number if last else 0,
        "samples": last.samples if last else 0,
        "last": last._asdict() if last else None,
        "counts": {"applied": session.applied_steps, "skipped": session.skipped_steps},
        "judged_step": session.judged_step,
        "stopper": session.stopper.state(),
        "noise": session.noise.state(),
        "scaler": session.precision.scaler.state_dict() if session.precision.scaler else None,
        "skips": session.skips.state(),
        "guards": session.guards.state(),
        "back_off": session.back_off.state(),
        "spending": session.spending.state(),
        "outcome": {
            "best": outcome.best,
            "best_step": outcome.best_step,
            "final": outcome.final,
            "num_evaluations": outcome.num_evaluations,
            "findings": to_plain(outcome.findings),
        },
        "train_s": session.spending.trained_s(),
        "recipe": to_plain(session.recipe.settings()),
        "layout": str(session.mesh.layout),
        "feed": to_plain(session.loader.feed),
        "num_samples": session.loader.num_samples,
        "permutation": Order.permutation,
        "eval_every_steps": session.recipe.eval_every_steps,
        "attempts": session.attempts,
    }


def check_shared(session: Session, shared: dict[str, Any], where: str) -> None:
    """Refuse plain values of a checkpoint that are not of this version's form.

    Args:
        session: fresh; its own state is the form.
        shared: as read.
        where: the file.

    Raises:
        RecordError: with the keys that are missing or not known.
    """
    optimizer = dict.fromkeys(("class", "params", "written", "state", "groups"))
    check_form(shared, _shared(session) | {"optimizer": optimizer}, where)
    if shared["last"] is not None:
        check_form(shared["last"], dict.fromkeys(Step._fields), f"{where}, under last,")


def put_back(session: Session, folder: Path, shared: dict[str, Any], own: dict[str, Any] | None) -> None:
    """Set a fresh session to a checkpoint.

    Args:
        session: built, not yet iterated.
        folder: the checkpoint.
        shared: its `State.shared`, already fitted to this session's batch.
        own: its `State.own` of this rank; None when another number of ranks wrote it.

    Raises:
        RecordError: the tensors do not fit the model or the optimizer.
    """
    from hemostat.train.tensor_files import tensor_shapes

    shapes = tensor_shapes(folder)
    _put_back_model(session, folder, shapes, same_ranks=own is not None)
    _put_back_optimizer(session, folder, shapes, shared["optimizer"])
    last, outcome = shared["last"], session.outcome
    session.last = Step(**last) if last else None
    session.applied_steps, session.skipped_steps = shared["counts"]["applied"], shared["counts"]["skipped"]
    session.judged_step = shared["judged_step"]
    session.stopper.restore(shared["stopper"])
    session.noise.restore(shared["noise"])
    session.skips.restore(shared["skips"])
    session.back_off.restore(shared["back_off"])
    if session.precision.scaler and shared["scaler"]:
        session.precision.scaler.load_state_dict(shared["scaler"])
    for name, value in msgspec.convert(shared["outcome"], _Judged).items():
        setattr(outcome, name, value)
    session.guards.restore(shared["guards"])
    session.spending.trained_before_s = max(
        shared["train_s"], session.record.spent_s(shared["samples"], shared["train_s"])
    )
    session.spending.restore(shared["spending"], session.spending.trained_before_s - shared["train_s"])
    session.loader = session.new_loader(shared["samples"])
    if own is not None:
        set_rng_state(own["rng"], session.world.device)


def _put_back_model(session: Session, folder: Path, shapes: dict[str, Shape], same_ranks: bool) -> None:
    from hemostat.train.tensor_files import read_tensors

    model = dp.unwrap(session.model)
    state = model_tensors(model)
    elsewhere = {name for names in session.parts.names_by_rank for name in names}
    check_names(state, shapes, elsewhere)
    read_tensors({MODEL + name: value for name, value in state.items()}, folder)
    own = _own(session.world.rank)
    if same_ranks:
        mine = {own + name: value for name, value in model.named_buffers() if own + name in shapes}
        read_tensors(mine, folder)


def check_names(
    state: dict[str, torch.Tensor], shapes: dict[str, Shape], elsewhere: Collection[str] = ()
) -> None:
    """Compare a model with a checkpoint.

    Args:
        state: the model's.
        shapes: of all tensors in the checkpoint.
        elsewhere: names that the stages of other ranks have.

    Raises:
        RecordError: names or shapes differ; the first ones are named.
    """
    saved = {name.removeprefix(MODEL): shape for name, shape in shapes.items() if name.startswith(MODEL)}
    lacking = sorted(state.keys() - saved.keys())
    strange = sorted(saved.keys() - state.keys() - set(elsewhere))
    if lacking or strange:
        parts = [f"it lacks {_few(lacking)}"] * bool(lacking) + [f"it has {_few(strange)} beside"] * bool(
            strange
        )
        raise RecordError(
            f"the checkpoint is of another model: {' and '.join(parts)}. Is this the same task?"
        )
    for name, tensor in state.items():
        if tensor.shape != saved[name].size:
            raise RecordError(
                f"the checkpoint is of another model: {name} has shape {tuple(saved[name].size)} there and "
                f"{tuple(tensor.shape)} here. Give the values that the run was trained with."
            )


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _put_back_optimizer(
    session: Session, folder: Path, shapes: dict[str, Shape], tree: dict[str, Any]
) -> None:
    from hemostat.train.tensor_files import read_tensors

    names = session.parts.param_names(session.updater.optimizer)
    params = dict(zip(names, session.updater.params, strict=True))
    part = session.mesh.layout.pp > 1
    owners = {name: name.removeprefix(PREFIX).rsplit("/", 1)[0] for name in shapes if name.startswith(PREFIX)}
    tensors = {
        name: _blank(shapes[name], params.get(owner))
        for name, owner in owners.items()
        if owner in params or not part
    }
    read_tensors(tensors, folder)
    join_state(session.updater.optimizer, names, tensors, part_of(tree, names) if part else tree)


def _blank(shape: Shape, param: torch.Tensor | None) -> torch.Tensor:
    """A tensor to read into; one of the size of its parameter is laid out like it, sharded or not."""
    if param is not None and param.shape == shape.size:
        return torch.zeros_like(param, dtype=shape.dtype, requires_grad=False)
    return torch.zeros(shape.size, dtype=shape.dtype)


def fit_to_batch(shared: dict[str, Any], session: Session) -> dict[str, Any]:
    """Translate what is counted in steps or evaluations when the batch or the rhythm has changed.

    Samples stay what they are. Steps become those that the new batch would have taken to the same sample, and bad
    evaluations those that cover the same samples, rounded down.
    """
    feed, num_samples = session.loader.feed, session.loader.num_samples
    before, after = shared["feed"]["global_batch"], feed.global_batch
    if before == after and shared["eval_every_steps"] == session.recipe.eval_every_steps:
        return shared
    epochs, rest = divmod(shared["samples"], num_samples)
    step = epochs * math.ceil(num_samples / after) + math.ceil(rest / after)
    ratio = step / shared["step"] if shared["step"] else 1.0
    evals = shared["eval_every_steps"] * before / (session.recipe.eval_every_steps * after)
    stopper = dict(shared["stopper"])
    stopper["best_step"] = round(stopper["best_step"] * ratio) if stopper["best_step"] >= 0 else -1
    for name in ("bad_evals", "plateau_evals"):
        stopper[name] = math.floor(stopper[name] * evals)
    last = shared["last"] and {**shared["last"], "number": step}
    counts = {**shared["counts"], "applied": max(0, step - shared["counts"]["skipped"])}
    judged = step if shared["judged_step"] == shared["step"] else 0
    outcome = {**shared["outcome"], "best_step": round(shared["outcome"]["best_step"] * ratio)}
    return {
        **shared,
        "step": step,
        "last": last,
        "counts": counts,
        "stopper": stopper,
        "judged_step": judged,
        "outcome": outcome,
    }
