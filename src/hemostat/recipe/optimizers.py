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
