"""Going on from the last whole checkpoint of a run: on all ranks alike, with every difference said or refused."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hemostat.config import to_plain
from hemostat.data import Order
from hemostat.errors import HemostatWarning, RecordError, UsageError
from hemostat.plan import Layout
from hemostat.track import Checkpoints, RunRecord, control, fingerprint
from hemostat.train.checkpoint import SHARED_FILE, own_file
from hemostat.train.data_watch import CACHE
from hemostat.train.header import data_parts
from hemostat.train.optimizer_state import split_state
from hemostat.train.recorded_task import task_changes, value_changes
from hemostat.train.rng import RNG_FORM
from hemostat.train.state import check_shared, fit_to_batch, put_back
from hemostat.train.state_form import check_form
from hemostat.train.together import Failure, together

if TYPE_CHECKING:
    from hemostat.task import LoadedTask
    from hemostat.train.session import Session

MAX_CHANGES = 5
READ_AGAIN_BYTES = 1 << 30  # of larger data a sample is compared; the rest is hashed while the run goes on


def resume(session: Session) -> None:
    """Set a fresh session to the newest whole checkpoint of its run.

    Under the same number of ranks the run goes on bit for bit. Under another one every sample still comes once,
    the rate and the patience follow the samples, and random numbers start anew.

    Raises:
        RecordError: there is no whole checkpoint, or it is of another model; raised on all ranks.
        UsageError: the data or the optimizer are other ones, and `train.resume_anyway` does not name them.
    """
    world, run_dir = session.world, session.record.path
    if run_dir is None:
        return
    found, failure = together(world, lambda: _choose(run_dir) if world.rank == 0 else None)
    _raise(failure, f"run {run_dir.name}")
    name, troubles = found[0]
    for trouble in troubles:
        _say(f"a checkpoint of run {run_dir.name} is not whole and was passed over: {trouble}")
    if not name:
        if (
            session.settings.resume is None
        ):  # the launcher restarts ranks that died before the first checkpoint
            session.spending.start_anew(RunRecord(run_dir).seconds_after(None))
            return
        raise RecordError(
            f"run {run_dir.name} has no whole checkpoint{'' if troubles else ' yet'}. Start it anew: "
            "leave out --resume."
        )
    folder = Path(name)
    looked, failure = together(world, lambda: _other_bytes(session) if world.rank == 0 else None)
    _raise(failure, str(folder))
    gone_on, failure = together(world, lambda: _go_on(session, folder, looked[0]))
    _raise(failure, str(folder))
    changes = gone_on[world.rank]
    session.spending.refuse_if_spent()
    if session.last is not None and world.rank == 0:
        _end_pause(run_dir, session.last.samples)
        _say(
            f"run {run_dir.name} goes on at step {session.last.number} ({session.last.samples:,} samples)"
            f"{': ' + _listed(changes) if changes else ''}"
        )


def say_changed_task(session: Session, loaded: LoadedTask) -> None:
    """Warn of what is not as the run has recorded it: the task file, the commit, fields of the task."""
    run_dir = session.record.path
    if not session.attempts or run_dir is None or session.world.rank != 0:
        return
    record = RunRecord(run_dir)
    changes = [*value_changes(record, loaded), *task_changes(record, loaded)]
    if changes:
        _say(f"run {run_dir.name} goes on with changes: {_listed(changes)}")


def _listed(changes: list[str]) -> str:
    return "; ".join(changes[:MAX_CHANGES]) + (" ..." if len(changes) > MAX_CHANGES else "")


def _raise(failure: Failure | None, where: str) -> None:
    if failure is not None:
        raise failure.own or RecordError(f"another rank could not go on from {where}: {failure.text}")


def _choose(run_dir: Path) -> tuple[str, list[str]]:
    path, troubles = Checkpoints(run_dir).last_whole()
    return str(path or ""), troubles


def _end_pause(run_dir: Path, samples: int) -> None:
    """A pause that was taken is over; one that lies ahead stands."""
    asked = control(run_dir)
    if asked.action == "pause" and asked.due(samples):
        RunRecord(run_dir).ask("go", why="the pause is over")


def _say(text: str) -> None:
    warnings.warn(text, HemostatWarning, stacklevel=3)


def _go_on(session: Session, folder: Path, other_bytes: str) -> list[str]:
    shared = _read(folder / SHARED_FILE)
    check_shared(session, shared, str(folder / SHARED_FILE))
    if shared["permutation"] != Order.permutation:
        raise RecordError(
            f"{folder} has the order {shared['permutation']}, this hemostat makes {Order.permutation}: samples would "
            "come twice. Resume with the version that wrote it."
        )
    same_ranks = shared["layout"] == str(session.mesh.layout)
    own = _read(folder / own_file(session.world.rank)) if same_ranks else None
    if own is not None:
        check_form(own, {"rng": RNG_FORM}, str(folder / own_file(session.world.rank)))
    changes = [*_keep_seed(session, shared), *_refuse_other_data(session, shared, other_bytes)]
    changes += _refuse_other_optimizer(session, shared)
    fitted = fit_to_batch(shared, session)
    put_back(session, folder, fitted, own)
    changes += _differences(shared, session)
    # those too that died before they saved
    before = RunRecord(session.record.path or folder).header.get("attempts", shared["attempts"])
    session.attempts = [*before, _attempt(session, folder)]
    return changes


def _attempt(session: Session, folder: Path) -> dict[str, Any]:
    return {"time": time.time(), "from": folder.name, "num_ranks": session.world.num_ranks}


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise RecordError(f"{path} is no state of a run")
    return value


def _keep_seed(session: Session, shared: dict[str, Any]) -> list[str]:
    """Under another seed the rest of the epoch would be another order, with samples doubled and lost."""
    then, now = shared["feed"]["seed"], session.settings.seed
    if then == now:
        return []
    session.settings = msgspec.structs.replace(session.settings, seed=then)
    return [f"the order keeps train.seed={then}, though {now} was given"]


def _refuse_other_data(session: Session, shared: dict[str, Any], other_bytes: str) -> list[str]:
    before, now = shared["num_samples"], session.loader.num_samples
    if before != now:
        what = f"train_data has {now:,} samples now and had {before:,}"
        return _unless_told(session, "data", what, "the order of the samples changes")
    if not other_bytes:
        return []
    return _unless_told(session, "data", other_bytes, "the run goes on with other samples")


def _other_bytes(session: Session) -> str:
    """Which part of the training data is not what the run has recorded; "" where nothing tells it."""
    run_dir = session.record.path
    parts, _ = data_parts(session.described_by, session.source)
    if run_dir is None or parts is None:
        return ""
    record = RunRecord(run_dir)
    for tier in ("full", "sample"):
        before = record.fingerprint(tier)
        if before is None or (before.num_bytes > READ_AGAIN_BYTES and tier == "full"):
            continue
        now = fingerprint(parts, tier, cache=run_dir.parent / CACHE)
        if now.digest == before.digest:
            return ""
        files = now.changes(before.files) if before.files and now.files else []
        return f"train_data has changed{': ' + '; '.join(files[:3]) if files else ''}"
    return ""


def _refuse_other_optimizer(session: Session, shared: dict[str, Any]) -> list[str]:
    optimizer = session.updater.optimizer
    before, now = shared["optimizer"]["class"], type(optimizer).__name__
    if before == now:
        return []
    told = _unless_told(
        session, "optimizer", f"the optimizer is {now} now and was {before}", "its state starts anew"
    )
    _, shared["optimizer"] = split_state(
        optimizer, session.parts.param_names(optimizer), session.updater.written
    )
    return told


def _unless_told(session: Session, name: str, what: str, consequence: str) -> list[str]:
    if name in session.settings.resume_anyway:
        return [f"{what}, so {consequence}"]
    raise UsageError(
        f"{what}. Give what the run was trained with, or --set train.resume_anyway='[\"{name}\"]' ({consequence})."
    )


def _differences(shared: dict[str, Any], session: Session) -> list[str]:
    """Settings that differ from those of the checkpoint, `name: before -> now`."""
    before = {**shared["recipe"], **{name: shared["feed"][name] for name in ("num_ranks", "global_batch")}}
    feed = to_plain(session.loader.feed)
    now = {
        **to_plain(session.recipe.settings()),
        **{name: feed[name] for name in ("num_ranks", "global_batch")},
    }
    del before["tuned_batch"], now["tuned_batch"]  # in a recipe that is settled, the global batch once more
    if not (session.mesh.layout.is_dp and Layout.read(shared["layout"]).is_dp):
        before["layout"], now["layout"] = shared["layout"], str(session.mesh.layout)
        del before["num_ranks"], now["num_ranks"]  # it would read like a number of processes
    names = [*before, *(name for name in now if name not in before)]
    return [
        f"{name}: {before.get(name)} -> {now.get(name)}"
        for name in names
        if before.get(name) != now.get(name)
    ]
