"""Recipe: the hyper-parameters for N devices as one plain value, printable and readable back from TOML."""

from __future__ import annotations

from hemostat.config import Config, Resolved
from hemostat.errors import UsageError
from hemostat.findings import Finding
from hemostat.recipe.one_device import Base
from hemostat.recipe.schedule import Schedule


class Option(Config, frozen=True, kw_only=True):
    """One way to use the devices.

    Attributes:
        name: "hold" (the global batch stays) or "scale".
        global_batch, micro_batch, accumulation: how the batch is cut.
        lr: peak rate.
        tier: confidence in it; "given" where lr_rule forced the rule.
        sweep: rates to try.
        chosen: this is what the recipe holds.
        why: one sentence.
    """

    name: str
    global_batch: int
    micro_batch: int
    accumulation: int
    lr: float
    tier: str
    sweep: tuple[float, ...]
    chosen: bool
    why: str


class Recipe(Config, frozen=True, kw_only=True):
    """What the run uses. Lengths are 0 where the size of the run was not given.

    Attributes:
        optimizer: its name.
        lr: peak rate; where `is_sweep` only what one would try first, the middle of `rates`.
        global_batch: samples behind one update.
        micro_batch: samples per rank and pass (the largest).
        accumulation: passes per update.
        num_ranks: data-parallel ranks.
        batch_ratio: k, global batch over tuned batch.
        total_samples: length of the run.
        total_steps: the same in updates; windows never cross an epoch.
        warmup_steps: updates below the peak.
        schedule: rate of every step.
        eval_every_samples: samples between evaluations.
        eval_every_steps: the same in updates.
        checkpoint_every_samples: samples between checkpoints; None: not asked.
        checkpoint_every_steps: the same in updates.
        patience_evals: bad evaluations before the stop; None: never.
        plateau_patience: bad evaluations borne before the rate is lowered; None: never.
        plateau_factor: factor on a plateau.
        min_delta: smallest change of the metric that counts.
        metric_mode: "min" or "max".
        not_before_step: no stop and no halving before this update.
        momentum, beta1, beta2, eps, weight_decay, ema, clip_norm: as on one device unless advice was applied.
        precision: "fp32", "bf16" or "fp16".
        tier: "high", "medium" or "low"; "given" where lr_rule forced the rule.
        rule: rule that gave the rate.
        sweep: rates to try, rising; the only answer in tier low.
        critical_batch: used for the saturation and the bill; None: not known.
        samples_stretch: samples now over samples before for the same quality; 1.0 where not known.
        values: one row per value with its reason.
        advice: rows that were not applied.
        alternatives: holding the batch first, then scaling it.
        findings: what may go wrong.
        base: what was given.
    """

    optimizer: str
    lr: float
    global_batch: int
    micro_batch: int
    accumulation: int
    num_ranks: int
    batch_ratio: float
    total_samples: int = 0
    total_steps: int
    warmup_steps: int
    schedule: Schedule
    eval_every_samples: int
    eval_every_steps: int
    checkpoint_every_samples: int | None = None
    checkpoint_every_steps: int | None = None
    patience_evals: int | None = None
    plateau_patience: int | None = None
    plateau_factor: float
    min_delta: float
    metric_mode: str
    not_before_step: int
    momentum: float | None = None
    beta1: float | None = None
    beta2: float | None = None
    eps: float | None = None
    weight_decay: float | None = None
    ema: float | None = None
    clip_norm: float | None = None
    precision: str = "fp32"
    tier: str
    rule: str
    sweep: tuple[float, ...]
    critical_batch: float | None = None
    samples_stretch: float = 1.0
    values: tuple[Resolved, ...] = ()
    advice: tuple[Resolved, ...] = ()
    alternatives: tuple[Option, ...] = ()
    findings: tuple[Finding, ...] = ()
    base: Base

    @property
    def is_sweep(self) -> bool:
        """True where no rule is sure of one rate: train at each of `rates`, or force a rule with lr_rule."""
        return self.tier == "low"

    @property
    def rates(self) -> tuple[float, ...]:
        """Every peak rate that this recipe asks for: one, or where `is_sweep` the sweep, rising."""
        return self.sweep if self.is_sweep else (self.lr,)

    def settings(self) -> dict[str, object]:
        """Flat keys of `Base` and `Devices` that give this recipe again.

        The new batch is the tuned one, so that nothing moves when they are read back.
        """
        changed: dict[str, object] = {
            "lr": self.lr,
            "tuned_batch": self.global_batch,
            "start_lr": self.schedule.start_lr,
            "eta_min": self.schedule.eta_min,
            "warmup_steps": self.warmup_steps,
            "patience": self.patience_evals,
            "plateau_patience": self.plateau_patience,
            "min_delta": self.min_delta,
            "beta2": self.beta2,
            "eps": self.eps,
            "weight_decay": self.weight_decay,
            "ema": self.ema,
            "clip_norm": self.clip_norm,
            "precision": self.precision,
            "eval_every_samples": self.eval_every_samples or None,
            "checkpoint_every_samples": self.checkpoint_every_samples,
            "critical_batch": self.critical_batch,
        }
        longer = self.samples_stretch if self.base.accept_bill and self.total_samples else 1.0
        if longer != 1.0:
            changed |= {"total_samples": self.total_samples, "epochs": None, "accept_bill": False}
            changed["milestones"] = tuple(epoch * longer for epoch in self.base.milestones)
        if any(row.field == "precision" and row.confidence == "low" for row in self.values):
            del changed["precision"]  # no device was named: the one that reads the file decides
        changed |= {"apply_advice": (), "framework": None, "reduction": "mean"}
        given = {name: getattr(self.base, name) for name in self.base.__struct_fields__} | changed
        usual = {name: getattr(Base(), name) for name in self.base.__struct_fields__}
        always = ("optimizer", "lr", "tuned_batch", "schedule")
        kept = {name: value for name, value in given.items() if name in always or value != usual[name]}
        cut = {
            "num_ranks": self.num_ranks,
            "global_batch": self.global_batch,
            "micro_batch": self.micro_batch,
            "accumulation": self.accumulation,
        }
        return {name: value for name, value in (kept | cut).items() if value is not None}

    def to_toml(self) -> str:
        """TOML text with the reasons as comments; `hemostat recipe --config` and `train --config` read it.

        Raises:
            UsageError: a sweep has no one rate to write.
        """
        import tomli_w

        if self.is_sweep:
            rates = ", ".join(f"{rate:.4g}" for rate in self.sweep)
            raise UsageError(
                f"the rate is a sweep ({rates}), not one number: nothing was written. "
                "Run the sweep, then give the best rate as lr with tuned_batch "
                f"{self.global_batch}, or force a rule with lr_rule."
            )
        moved = [row for row in self.values if row.confidence != "given" or row.before != row.value]
        reasons = [f"# {row.field}: {row.why} [{row.confidence}]" for row in moved]
        return "\n".join(["# hemostat recipe", *reasons, tomli_w.dumps(self.settings())])
