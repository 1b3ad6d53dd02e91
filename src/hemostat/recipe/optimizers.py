"""Which family an optimizer belongs to; the family, not the name, decides every scaling rule."""

from __future__ import annotations

from hemostat.errors import UnknownNameError

# Nesterov and heavy-ball momentum belong to SGD: the linear rule is about the gradient, not the buffer.
FAMILIES = {
    "sgd": "sgd",
    "nesterov": "sgd",
    "adam": "adam",
    "adamw": "adam",
    "adamax": "adam",
    "nadam": "adam",
    "radam": "adam",
    "rmsprop": "adam",
    "adafactor": "adam",
    "lion": "adam",
    "lamb": "lamb",
    "lars": "lars",
    "adagrad": "adagrad",
    "muon": "muon",
}
# lr multiplies the decay in these (`w -= lr * wd * w`); the others add wd * w to the gradient.
DECOUPLED = frozenset({"adamw", "lion", "lamb", "muon"})

_ADAM: dict[str, float | None] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
# What an optimizer can be given of momentum, beta1, beta2, eps, weight_decay, and torch's default for it;
# None where torch does not have the optimizer, so that its author decides.
DEFAULTS: dict[str, dict[str, float | None]] = {
    "sgd": {"momentum": 0.0, "weight_decay": 0.0},
    "nesterov": {"momentum": None, "weight_decay": None},
    "adam": _ADAM,
    "adamw": _ADAM | {"weight_decay": 0.01},
    "adamax": _ADAM,
    "nadam": _ADAM,
    "radam": _ADAM,
    "rmsprop": {"momentum": 0.0, "eps": 1e-8, "weight_decay": 0.0},
    "adafactor": {"weight_decay": 0.0},
    "lion": {"beta1": None, "beta2": None, "weight_decay": None},
    "lamb": {"beta1": None, "beta2": None, "eps": None, "weight_decay": None},
    "lars": {"momentum": None, "weight_decay": None},
    "adagrad": {"eps": 1e-10, "weight_decay": 0.0},
    "muon": {"momentum": 0.95, "eps": 1e-7, "weight_decay": 0.1},
}
DEFAULT_BETA2 = 0.999
# Lion's beta2 averages the gradient, RMSProp's alpha is another default (0.99), Adafactor's changes with the step.
_SECOND_MOMENT = frozenset({"adam", "adamw", "adamax", "nadam", "radam", "lamb"})


def second_moment(optimizer: str, beta2: float | None) -> float | None:
    """The factor of Adam's average of squared gradients; None for an optimizer that has no such average.

    Source: defaults of torch.optim and of LAMB (You et al. 2019, arXiv 1904.00962).

    Examples:
        >>> second_moment("adamw", None), second_moment("adamw", 0.0), second_moment("lion", 0.99)
        (0.999, 0.0, None)
    """
    if optimizer_name(optimizer) not in _SECOND_MOMENT:
        return None
    return DEFAULT_BETA2 if beta2 is None else beta2


def optimizer_name(optimizer: str) -> str:
    """The plain lower-case name of an optimizer.

    Raises:
        UnknownNameError: no rule is known for it; the message lists the known ones.

    Examples:
        >>> optimizer_name("torch.optim.AdamW"), optimizer_name("SGD")
        ('adamw', 'sgd')
    """
    name = optimizer.rsplit(".", 1)[-1].strip().lower().replace("_", "").replace("-", "")
    if name not in FAMILIES:
        raise UnknownNameError("optimizer", optimizer, FAMILIES)
    return name


def optimizer_family(optimizer: str) -> str:
    """One of sgd, adam, lamb, lars, adagrad, muon.

    Raises:
        UnknownNameError: no rule is known for it.

    Examples:
        >>> [optimizer_family(name) for name in ("sgd", "RMSprop", "lamb")]
        ['sgd', 'adam', 'lamb']
    """
    return FAMILIES[optimizer_name(optimizer)]
