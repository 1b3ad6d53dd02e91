"""Base: the hyper-parameters that work on one device, as a user gives them; every field is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hemostat.config import Config, decode
from hemostat.errors import FieldError, UnknownNameError
from hemostat.recipe.field_checks import check_int, check_number
from hemostat.recipe.length import samples_from_steps, samples_from_tokens
from hemostat.recipe.optimizers import DEFAULTS, optimizer_name, second_moment
from hemostat.units import parse_count

SCHEDULES = ("cosine", "linear", "wsd", "constant", "step")
ANNEALED = ("cosine", "linear", "wsd")
LR_RULES = ("constant", "linear", "sqrt")
ADVICE = ("weight_decay", "beta2", "eps", "ema", "clip_norm")
OBJECTIVES = ("supervised", "contrastive", "gan", "rl")
_POSITIVE_INTS = (
    "tuned_batch",
    "total_samples",
    "num_train_samples",
    "num_val_samples",
    "sample_tokens",
    "num_params",
    "eval_every_samples",
    "checkpoint_every_samples",
)
_COUNTS = ("warmup_steps", "patience", "plateau_patience")
_POSITIVES = ("lr", "epochs", "eps", "clip_norm", "critical_batch", "noise_scale")
_NOT_NEGATIVE = ("start_lr", "eta_min", "weight_decay", "min_delta", "metric_std")
_SHARES = ("momentum", "beta1", "beta2", "ema")
_OPEN_SHARES = ("gamma", "plateau_factor", "decay_share")


class Base(Config, frozen=True, kw_only=True):
    """What works on ONE device. `None` means "derive it" or "was not used".

    Attributes:
        optimizer: name as in torch.optim ("sgd", "adamw", "lamb", ...).
        lr: peak learning rate that works.
        tuned_batch: global batch, in samples, at which that rate was tuned.
        lr_rule: forces "constant", "linear" or "sqrt" instead of the rule of the optimizer's family.
        epochs: passes over the data; 1 where neither this nor total_samples is given.
        total_samples: length of the run in samples, instead of epochs.
        num_train_samples: size of the training set.
        num_val_samples: size of the validation set; gives the noise floor of a metric.
        sample_tokens: tokens in one sample, to turn tokens into samples.
        num_params: parameters of a language model, for a sanity band around lr.
        schedule: cosine, linear (to eta_min), wsd (warm-up, stable, decay), constant or step.
        warmup_steps: at tuned_batch; None or 0: none was used.
        start_lr: where the warm-up starts; None: 0, or lr for SGD whose rate is scaled up.
        eta_min: floor of the learning rate on one device (absolute); it keeps its share of the peak.
        decay_share: share of the run that decays, for wsd.
        milestones: epochs at which a step schedule multiplies the rate by gamma.
        gamma: that factor.
        momentum, beta1, beta2, eps: of the optimizer; None: torch's default.
        weight_decay: None: the optimizer's default.
        decoupled_weight_decay: None: by optimizer (AdamW, Lion, LAMB decay apart from the gradient).
        ema: keep factor of an average of the weights, per step.
        batch_norm: the model has BatchNorm layers.
        clip_norm: threshold of the gradient norm.
        patience: evaluations without improvement before the run stopped, on one device.
        eval_every_samples: samples between two evaluations on one device.
        checkpoint_every_samples: samples between two checkpoints on one device; None: only with evaluations.
        min_delta: smallest change of the metric that counts.
        monitor: metric that patience, plateau and the best weights follow.
        metric_mode: "min" or "max".
        metric_std: noise of the metric from one evaluation to the next.
        plateau_factor: the rate is multiplied by it on a plateau.
        plateau_patience: evaluations without improvement before that.
        critical_batch: batch at which the samples to a target double, in samples, if measured.
        noise_scale: measured gradient noise scale tr(Sigma)/|G|^2, in samples.
        reduction: "mean" or "sum": how the loss joins the samples of a batch.
        framework: what scales the rate already, if anything ("mmengine", "detectron2", "yolov5", ...).
        finetune: the run starts from a trained checkpoint.
        objective: "contrastive", "gan", "rl" where the batch is part of the objective.
        accept_bill: the explicit yes to the extra samples beyond the critical batch.
        apply_advice: advice that is to be applied, of weight_decay, beta2, eps, ema, clip_norm.
        precision: "fp32", "bf16" or "fp16"; None: by device.

    Raises:
        FieldError: a value outside its range, or two values that contradict each other.

    Examples:
        >>> Base(optimizer="sgd", lr=0.1, tuned_batch=128, epochs=90, num_train_samples=50_000).lr
        0.1
        >>> Base(lr=-1)
        Traceback (most recent call last):
        hemostat.errors.FieldError: lr=-1: must be a number above 0. Write the value that works on one device.
    """

    optimizer: str = "adamw"
    lr: float = 1e-3
    tuned_batch: int = 32
    lr_rule: str | None = None
    epochs: float | None = None
    total_samples: int | None = None
    num_train_samples: int | None = None
    num_val_samples: int | None = None
    sample_tokens: int = 1
    num_params: int | None = None
    schedule: str = "cosine"
    warmup_steps: int | None = None
    start_lr: float | None = None
    eta_min: float = 0.0
    decay_share: float = 0.2
    milestones: tuple[float, ...] = ()
    gamma: float = 0.1
    momentum: float | None = None
    beta1: float | None = None
    beta2: float | None = None
    eps: float | None = None
    weight_decay: float | None = None
    decoupled_weight_decay: bool | None = None
    ema: float | None = None
    batch_norm: bool = False
    clip_norm: float | None = None
    patience: int | None = None
    eval_every_samples: int | None = None
    checkpoint_every_samples: int | None = None
    min_delta: float = 0.0
    monitor: str = "val_loss"
    metric_mode: str = "min"
    metric_std: float | None = None
    plateau_factor: float = 0.5
    plateau_patience: int | None = None
    critical_batch: float | None = None
    noise_scale: float | None = None
    reduction: str = "mean"
    framework: str | None = None
    finetune: bool = False
    objective: str | None = None
    accept_bill: bool = False
    apply_advice: tuple[str, ...] = ()
    precision: str | None = None

    @classmethod
    def from_text(cls, values: Mapping[str, Any]) -> Base:
        """Build from settings as people write them: counts may be text ("1.28M"), a single value a list.

        total_samples may also be tokens ("2Btok", by sample_tokens) or steps ("10ksteps", by tuned_batch).

        Raises:
            UnknownNameError: a name that is not a field.
            FieldError: a value outside its range or of the wrong kind.

        Examples:
            >>> Base.from_text({"total_samples": "2Btok", "sample_tokens": 2048}).total_samples
            976563
            >>> Base.from_text({"total_samples": "10ksteps", "tuned_batch": 64}).total_samples
            640000
        """
        plain = dict(values)
        length = plain.get("total_samples")
        if isinstance(length, str):
            plain["total_samples"] = _parse_length(length, plain)
        for name in _POSITIVE_INTS:
            if isinstance(plain.get(name), str):
                plain[name] = parse_count(plain[name], name)
        for name in ("milestones", "apply_advice"):
            if name in plain and not isinstance(plain[name], list | tuple):
                plain[name] = [plain[name]]
        return decode(cls, plain)

    def __post_init__(self) -> None:
        """Check each field alone, then the pairs that can contradict each other."""
        optimizer_name(self.optimizer)
        for name in _POSITIVE_INTS:
            check_int(name, getattr(self, name), minimum=1)
        for name in _COUNTS:
            check_int(name, getattr(self, name), minimum=0)
        if self.patience == 0:
            raise FieldError("patience", 0, "must be 1 or more", "Leave it out to never stop early.")
        for name in _POSITIVES:
            check_number(name, getattr(self, name), above=0.0)
        for name in _NOT_NEGATIVE:
            check_number(name, getattr(self, name))
        for name in _SHARES:
            check_number(name, getattr(self, name), below=1.0)
        for name in _OPEN_SHARES:
            check_number(name, getattr(self, name), above=0.0, below=1.0)
        self._check_names()
        self._check_pairs()

    def _check_names(self) -> None:
        choices = {
            "schedule": SCHEDULES,
            "lr_rule": LR_RULES,
            "metric_mode": ("min", "max"),
            "reduction": ("mean", "sum"),
            "objective": OBJECTIVES,
            "precision": ("fp32", "bf16", "fp16"),
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise UnknownNameError(name, str(value), known)
        for value in self.apply_advice:
            if value not in ADVICE:
                raise UnknownNameError("apply_advice", str(value), ADVICE)
            self._check_advice(value)

    def _check_advice(self, name: str) -> None:
        """There must be a value that the advice could move."""
        asked, optimizer = list(self.apply_advice), optimizer_name(self.optimizer)
        if name == "beta2":
            missing = second_moment(optimizer, self.beta2) is None
        else:
            missing = name in ("weight_decay", "eps") and name not in DEFAULTS[optimizer]
        if missing:
            rule, fix = f"the rule for {name} does not hold for {optimizer}", f"Leave {name} out."
            raise FieldError("apply_advice", asked, rule, fix)
        if name != "beta2" and getattr(self, name) is None:  # the usual beta2 is known
            rule, fix = f"{name} is not set, so nothing could move", f"Give {name}, or leave it out."
            raise FieldError("apply_advice", asked, rule, fix)

    def _check_pairs(self) -> None:
        if self.epochs is not None and self.total_samples is not None:
            raise FieldError(
                "total_samples",
                self.total_samples,
                f"cannot stand beside epochs={self.epochs:g}",
                "Give the length of the run once: epochs or total_samples.",
            )
        if self.eta_min > self.lr:
            raise FieldError(
                "eta_min",
                self.eta_min,
                f"the floor lies above the peak rate lr={self.lr:g}",
                "Write a floor between 0 and lr.",
            )
        previous = 0.0
        for milestone in self.milestones:
            check_number("milestones", milestone)
            if milestone <= previous:
                raise FieldError(
                    "milestones",
                    list(self.milestones),
                    "must rise from above 0",
                    "Sort the epochs, each once.",
                )
            previous = milestone
        if self.schedule == "step" and not self.milestones:
            raise FieldError(
                "schedule",
                self.schedule,
                "has no milestones, so the rate would never fall",
                "Give them in epochs, as in milestones=[30, 60], or set schedule=constant.",
            )
        if self.milestones and self.schedule != "step":
            raise FieldError(
                "milestones",
                list(self.milestones),
                f"mean nothing to schedule={self.schedule!r}",
                'Set schedule="step", or leave the milestones out.',
            )


def _parse_length(text: str, values: Mapping[str, Any]) -> int:
    for unit, per, usual in (("tok", "sample_tokens", 1), ("step", "tuned_batch", Base().tuned_batch)):
        number, found, _ = text.partition(unit)
        if found:
            size = _count_of(values, per, usual)
            count = parse_count(number, "total_samples")
            if unit == "tok":
                return samples_from_tokens(count, size)
            epoch = _count_of(values, "num_train_samples", None)
            return samples_from_steps(count, size, epoch)
    return parse_count(text, "total_samples")


def _count_of(values: Mapping[str, Any], name: str, usual: Any) -> Any:
    value = values.get(name, usual)
    value = parse_count(value, name) if isinstance(value, str) else value
    check_int(name, value, minimum=1)
    return value
