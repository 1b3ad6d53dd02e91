"""Evaluates every row of law_vectors.csv and patience_vectors.csv by calling the library; used by tests and bench."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

from hemostat.recipe import Base, BatchRun, Devices, convert, fit_critical_batch, scale_lr
from hemostat.recipe.advice import per_step_average, scale_beta2, scale_weight_decay
from hemostat.recipe.critical import samples_stretch
from hemostat.recipe.laws import deepseek, step_law
from hemostat.recipe.patience import convert_patience
from hemostat.recipe.scaling import saturating_ratio
from hemostat.recipe.warmup import convert_warmup, untuned_warmup_steps

HERE = Path(__file__).parent


def _goyal(x: dict[str, Any]) -> dict[str, float]:
    return {"lr": scale_lr(x["lr"], tuned_batch=x["before"], global_batch=x["after"], optimizer="sgd").lr}


def _malladi(x: dict[str, Any]) -> dict[str, float]:
    base = Base(optimizer="adam", lr=x["lr"], tuned_batch=x["before"], eps=x["eps"], apply_advice=("eps",))
    recipe = convert(base, Devices(global_batch=x["after"]))
    assert recipe.eps is not None
    return {"lr": recipe.lr, "eps": recipe.eps}


def _weight_decay(x: dict[str, Any]) -> dict[str, float]:
    lr = scale_lr(x["lr"], tuned_batch=x["before"], global_batch=x["after"], rule=x["rule"]).lr
    k = x["after"] / x["before"]
    scaled = scale_weight_decay(x["weight_decay"], batch_ratio=k, lr_factor=lr / x["lr"], decoupled=True)
    return {"weight_decay": scaled}


def _warmup(x: dict[str, Any]) -> dict[str, float]:
    recipe = convert_warmup(None, batch_ratio=2.0, adam_beta2=x["beta2"])
    return {"steps": untuned_warmup_steps(x["beta2"]), "recipe_steps": recipe.steps}


def _at_critical(x: dict[str, Any]) -> dict[str, float]:
    critical = x["critical"]
    law = [
        BatchRun(batch=b, samples=1e6 * (1 + b / critical)) for b in (critical // 5, critical, 5 * critical)
    ]
    fit = fit_critical_batch(law)
    # One percent of grid: evaluate the fitted law at its own critical batch.
    least_steps = fit.min_samples / fit.critical_batch
    return {
        "samples_over_min": fit.samples(fit.critical_batch) / fit.min_samples,
        "steps_over_min": fit.steps(fit.critical_batch) / least_steps,
    }


def _detectron2(x: dict[str, Any]) -> dict[str, float]:
    epoch_samples = x["batch"] * 1000
    base = Base(
        optimizer="sgd",
        lr=x["lr"],
        tuned_batch=x["batch"],
        num_train_samples=epoch_samples,
        epochs=x["steps"] / 1000,
        schedule="step",
        milestones=(x["milestone"] / 1000,),
        eval_every_samples=x["eval"] * x["batch"],
    )
    per_rank = x["batch"] // x["ranks_before"]
    recipe = convert(base, Devices(num_ranks=x["ranks_after"], micro_batch=per_rank))
    return {
        "batch": recipe.global_batch,
        "lr": recipe.lr,
        "steps": recipe.total_steps,
        "milestone": recipe.schedule.milestones_steps[0],
        "eval": recipe.eval_every_steps,
    }


def _adascale(x: dict[str, Any]) -> dict[str, float]:
    gain = saturating_ratio(1.0, x["k"], x["noise_over_batch"])
    return {"gain": gain, "adam_gain": math.sqrt(gain)}


CHECKS = {
    "goyal_linear": _goyal,
    "malladi_adam": _malladi,
    "beta_halflife": lambda x: {"beta2": scale_beta2(x["beta2"], x["after"] / x["before"])},
    "weight_decay": _weight_decay,
    "untuned_warmup": _warmup,
    "ema": lambda x: {"keep": per_step_average(x["keep"], x["k"])},
    "mccandlish_at_critical": _at_critical,
    "mccandlish_stretch": lambda x: {"stretch": samples_stretch(x["before"], x["after"], x["critical"])},
    "deepseek": lambda x: dict(zip(("lr", "batch_tokens"), deepseek(x["flop"]), strict=True)),
    "steplaw": lambda x: dict(zip(("lr", "batch_tokens"), step_law(x["params"], x["tokens"]), strict=True)),
    "adascale": _adascale,
    "detectron2": _detectron2,
}


def law_rows() -> list[dict[str, str]]:
    """The exact vectors."""
    with (HERE / "law_vectors.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def patience_rows() -> list[dict[str, str]]:
    """The patience vectors."""
    with (HERE / "patience_vectors.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_law(row: dict[str, str]) -> str:
    """Empty where the library agrees, else what it said."""
    got = CHECKS[row["law"]](json.loads(row["inputs"]))
    expected = json.loads(row["expected"])
    tolerance = float(row["relative_tolerance"])
    wrong = {
        name: got[name]
        for name, value in expected.items()
        if not math.isclose(got[name], value, rel_tol=tolerance, abs_tol=0.0)
    }
    return f"{row['law']} {row['inputs']}: {wrong} instead of {expected}" if wrong else ""


def check_patience(row: dict[str, str]) -> str:
    """Empty where the library agrees, else what it said."""
    critical = float(row["B_crit"]) if row["B_crit"] else None
    stretch = samples_stretch(float(row["B0"]), float(row["B"]), critical)
    before = float(row["samples_per_eval_base"])
    had = int(row["patience_evals_base"])
    after = float(row["samples_per_eval_new"])
    got = convert_patience(had, samples_before=before, samples_after=after, stretch=stretch)
    right = (
        abs(stretch - float(row["samples_stretch"])) < 6e-5
        and abs(had * before * stretch - float(row["window_samples"])) < 1.0
        and got == int(row["patience_evals_new"])
    )
    return "" if right else f"patience {row}: got {got} with stretch {stretch}"


def wrong_vectors() -> list[str]:
    """Every disagreement."""
    said = [check_law(row) for row in law_rows()] + [check_patience(row) for row in patience_rows()]
    return [text for text in said if text]


def num_vectors() -> int:
    """How many there are."""
    return len(law_rows()) + len(patience_rows())
