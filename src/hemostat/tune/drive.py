"""Drive: the loop between a study and its workers, whether they train or replay recorded curves."""

from __future__ import annotations

from collections.abc import Callable

from hemostat.errors import FieldError
from hemostat.tune.study import Study
from hemostat.tune.workers import Workers


def drive(study: Study, workers: Workers, watch: Callable[[Study], None] | None = None) -> str:
    """Run a study until it ends; a study that was interrupted goes on where its journal stops.

    Args:
        study: a new one, or one that was read from its journal.
        workers: their clock begins at `study.clock_s`.
        watch: called after everything that happens, for a live table; it may raise to interrupt the study.

    Returns:
        Why it ended.

    Raises:
        FieldError: the workers cannot pause as the study was told, or have no place.
    """
    if workers.num_workers < 1:
        raise FieldError(
            "parallel", workers.num_workers, "must be at least 1", "Give the trials side by side."
        )
    if workers.can_pause != study.settings.can_pause:
        fix = "Run the study with the same kind of workers as before."
        raise FieldError("can_pause", workers.can_pause, "is not what the study was begun with", fix)
    for order in study.running:
        workers.start(order)
    for trial in study.stopping:
        workers.stop(trial)
    while True:
        _stop(study, workers)
        _fill(study, workers)
        _stop(study, workers)  # what was running when the study ended in `_fill`
        if not study.running:
            return study.ending or "nothing is left to do"
        now_s = workers.now_s()
        event = workers.wait(study.deadline_s(now_s))
        if event is not None:
            study.record(event, workers.now_s())
        if watch is not None:
            watch(study)


def _stop(study: Study, workers: Workers) -> None:
    for trial in study.stops(workers.now_s()):
        workers.stop(trial)


def _fill(study: Study, workers: Workers) -> None:
    while len(study.running) < workers.num_workers:
        order = study.next(workers.now_s())
        if order is None:
            return
        workers.start(order)
