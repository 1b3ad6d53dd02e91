"""`hemostat report --confirm`: the best trials of a study run again with other seeds, under a cap of their own."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hemostat.cli.tune_places import share_out
from hemostat.cli.tune_setup import Setup, setup
from hemostat.cli.tune_study import Opened, asked_of, run
from hemostat.errors import FieldError
from hemostat.recipe import caps
from hemostat.report import tune_live
from hemostat.tune import Budget, Journal, Settings, Study, confirm, pruners, samplers, space_file
from hemostat.units import format_seconds

if TYPE_CHECKING:
    from hemostat.cli.report import StudyFiles

_SLACK = 2.0  # a repeat may take twice what the runs before it took


def run_again(found: StudyFiles, runs: Path, num_seeds: int, room: tuple[str | None, int | None]) -> None:
    """Run the best trials again; a confirmation that was interrupted goes on instead of a new one.

    Args:
        found: the study.
        runs: the folder of all runs.
        num_seeds: new runs of each of the best.
        room: hours as typed, and runs side by side; None of either is derived.

    Raises:
        FieldError: nothing to run again, a cap or a number that cannot be meant.
        RecordError: another process runs it.
    """
    asked, history = asked_of(found.folder), found.state.history
    if asked.command and not any("{seed}" in word for word in asked.command):
        rule = "needs a command that takes {seed}: without one, a repeat is the same run again"
        raise FieldError("confirm", num_seeds, rule, "Tune a command with {seed} in it.")
    slots = share_out(room[1], asked.nproc)
    space = space_file.space_from(found.about["space"])
    made = setup(asked, space.names, len(slots))
    goes_on = bool(found.repeats) and found.repeats[-1].ending is None
    settings = found.repeats[-1].settings if goes_on else _settings(found, num_seeds, room[0], len(slots))
    number = len(found.repeats) + (not goes_on)
    jobs = confirm.RepeatedJobs(made.jobs, {trial.number: trial.config for trial in history.trials})
    with Journal(found.folder / f"confirm-{number}.jsonl") as journal:
        reason = _run(found, runs, slots, made._replace(jobs=jobs), (journal, settings, not goes_on))
    print(f"the repeats ended: {reason}", file=sys.stderr)


def _settings(found: StudyFiles, num_seeds: int, max_hours: str | None, num_workers: int) -> Settings:
    first = found.state.settings
    top = confirm.contenders(found.state.history)
    space = confirm.confirm_space(top, num_seeds)
    run_s = statistics.median(trial.time_s for trial in top)  # starts included, which a repeat pays too
    forecast_s = run_s * len(top) * num_seeds / num_workers
    cap_s = caps.read_hours(max_hours, "max_hours") if max_hours else _SLACK * forecast_s + run_s
    told = f"about {format_seconds(forecast_s)}, at most {format_seconds(cap_s)}"
    print(f"confirm  {len(top) * num_seeds} runs, {told}", file=sys.stderr)
    return Settings(
        length=first.length,
        step=first.step,
        direction=first.direction,
        seed=first.seed + 1 + len(found.repeats),
        can_pause=first.can_pause,
        budget=Budget(
            max_s=cap_s,
            num_devices=first.budget.num_devices,
            usd_per_device_hour=first.budget.usd_per_device_hour,
        ),
        about={"space": space_file.space_values(space)},
    )


def _run(
    found: StudyFiles,
    runs: Path,
    slots: tuple[dict[str, str], ...],
    made: Setup,
    opened: tuple[Journal, Settings, bool],
) -> str:
    journal, settings, is_new = opened
    space = space_file.space_from(settings.about["space"])
    study = Study(
        journal, space, samplers.sampler("grid"), pruners.pruner("none"), settings if is_new else None
    )
    name = f"{found.folder.name}-{journal.path.stem if journal.path else 'confirm'}"
    whole = Opened(name, found.folder, study, journal, space, asked_of(found.folder), made)
    with tune_live.LiveStudy(made.metric) as show:
        return run(whole, runs, slots, show, sure=True)
