"""`TrainSettings`: how the engine runs, as opposed to what is learnt."""

from __future__ import annotations

from hemostat.config import Config
from hemostat.data import Workers
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan import Layout
from hemostat.recipe import caps
from hemostat.train.process import CONTROL_TIMEOUT_S
from hemostat.train.spot import check_spot

DIFFERENCES = ("data", "optimizer")
LEAST = (("spike_deviations", 3), ("compare_every_steps", 1), ("grace_s", 0))
GUARDS = ("spike", "divergence", "drift", "rate", "overfitting")


class TrainSettings(Config, frozen=True, kw_only=True):
    """Settings under `[train]` in TOML and `--set train.NAME=VALUE`; `None` is derived.

    Attributes:
        layout: how the processes share the model and its data.
        seed: of the weights and of the order.
        device: "cpu" or "cuda"; None takes an accelerator where there is one.
        precision: "fp32", "bf16" or "fp16"; None asks the recipe.
        lr_range: sweep the rate before the first step and say what it shows; the run keeps its own.
        self_check: compare one step at N ranks with one process before training.
        deterministic: ask torch for deterministic kernels.
        num_threads: torch threads of one rank; None keeps what the launcher set.
        find_micro_batch: look for the largest micro-batch that fits before training; `micro_batch=auto` sets it.
        max_skips: consecutive non-finite steps that are skipped before the run stops.
        usd_per_hour: price of all devices together; None looks at `instance`.
        instance: a name of the price table, such as "p4d.24xlarge".
        max_hours: hard cap of all attempts together, start-up included; a bare number is hours, "90min" a text.
        max_usd: the same in dollars, 40 or "$40"; it needs a price.
        over_budget: start although the project's budget is spent.
        record: keep the run in `.hemostat/runs`.
        workers: who reads the data: the training thread, threads or processes; measured where left out.
        save: write checkpoints.
        save_every_s: longest time between two checkpoints, beside those of evaluations; None leaves it to those.
        keep: newest checkpoints that are left on disk, beside the best one.
        resume: a run to go on with: its id, the start of it, or "last".
        guards: those that are on: "spike", "divergence", "drift", "rate", "overfitting".
        stall_s: a rank that stays in one phase for so long while the others wait for it hangs, and is named.
        grace_s: how long a wait for data may go on after SIGTERM or SIGINT.
        spot: who is asked whether this machine is to be taken away: "aws", "gcp" or an address; None asks nobody.
        stop_on: guards that stop the run, saved and with status 4; the others only say what they found.
        spike_deviations: standard deviations above the median that make a loss a spike.
        compare_every_steps: steps between two comparisons of weights and rates over the ranks.
        lag_steps: how late the host reads what came of a step: 0 at once, 1 when the next one is ready to be made;
            None reads late on an accelerator whose optimizer can skip a step there.
        resume_anyway: differences that do not keep a run from going on: "data", "optimizer".
    """

    layout: Layout = Layout()
    seed: int = 0
    device: str | None = None
    precision: str | None = None
    lr_range: bool = False
    self_check: bool = True
    deterministic: bool = False
    num_threads: int | None = None
    find_micro_batch: bool = False
    max_skips: int = 10
    usd_per_hour: float | None = None
    instance: str | None = None
    max_hours: float | str | None = None
    max_usd: float | str | None = None
    over_budget: bool = False
    record: bool = True
    workers: Workers = Workers()
    save: bool = True
    save_every_s: float | None = 600.0
    keep: int = 2
    resume: str | None = None
    resume_anyway: tuple[str, ...] = ()
    guards: tuple[str, ...] = GUARDS
    stall_s: float = 120.0
    grace_s: float = 20.0
    spot: str | None = None
    stop_on: tuple[str, ...] = ("divergence", "drift", "rate")
    spike_deviations: float = 8.0
    compare_every_steps: int = 200
    lag_steps: int | None = None

    def __post_init__(self) -> None:
        """Counts are counts."""
        for name, least in (("num_threads", 1), ("max_skips", 0), ("keep", 1), ("save_every_s", 0), *LEAST):
            value = getattr(self, name)
            if value is not None and value < least:
                raise FieldError(
                    f"train.{name}", value, f"must be {least} or more", "Leave it out for the default."
                )
        if not 0 < self.stall_s < CONTROL_TIMEOUT_S:
            raise FieldError(
                "train.stall_s",
                self.stall_s,
                f"must be above 0 and below {CONTROL_TIMEOUT_S:g}, when the ranks stop waiting",
                "Leave it out for 120.",
            )
        if self.lag_steps not in (None, 0, 1):
            raise FieldError("train.lag_steps", self.lag_steps, "must be 0 or 1", "Leave it out.")
        check_spot(self.spot)
        is_priced = self.usd_per_hour is not None or self.instance is not None
        caps.Caps.read(self.max_hours, self.max_usd, 1.0 if is_priced else None)
        for field, known in (("resume_anyway", DIFFERENCES), ("guards", GUARDS), ("stop_on", GUARDS)):
            for name in getattr(self, field):
                if name not in known:
                    raise UnknownNameError(f"train.{field}", name, known)
