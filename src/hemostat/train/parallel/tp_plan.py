"""Which module of a model gets which word of a tensor-parallel plan, checked before any rank meets another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from torch import nn

from hemostat.errors import FieldError, UnknownNameError

WORDS: Final = ("colwise", "rowwise", "sequence", "heads", "vocab_in", "vocab_out")
_HEADS: Final = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "nheads")
_KEY_VALUE_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")
_OF_ALL_HEADS: Final = ("all_head_size",)  # a width that is the product of heads and their size


class Planned(NamedTuple):
    """A plan, name by name.

    Attributes:
        words: name of a module to its word.
        gathers: parents all of whose parameters are in colwise and rowwise matrices, which take whole positions.
        attentions: those of them that split their width into heads.
        strays: modules with parameters of their own that the plan does not name.
    """

    words: dict[str, str]
    gathers: list[str]
    attentions: list[str]
    strays: list[str]

    def named(self, word: str) -> list[str]:
        """Names of the modules that have this word."""
        return [name for name, given in self.words.items() if given == word]


def planned(model: nn.Module, plan: Mapping[str, str], size: int) -> Planned:
    """Match a plan with a model.

    Args:
        model: or a stage of one; a pattern that matches nothing in it is passed over.
        plan: name, in which a `*` stands for one part between dots, to a word.
        size: ranks that share each matrix.

    Raises:
        UnknownNameError: another word.
        FieldError: nothing matches, a module is of the wrong kind, or `size` does not divide what it must.
    """
    words: dict[str, str] = {}
    for pattern, word in plan.items():
        if word not in WORDS:
            raise UnknownNameError(f"tensor_plan.{pattern}", word, WORDS)
        words |= {name: word for name, _ in model.named_modules() if name and _matches(name, pattern)}
    if not any(word != "sequence" for word in words.values()):
        raise FieldError(
            "layout.tp",
            size,
            f"the plan names no matrix of {type(model).__name__}",
            "Name its linear layers in tensor_plan(), or leave tp out.",
        )
    modules = dict(model.named_modules())
    for name, word in words.items():
        _check_kind(name, modules[name], word)
        if word in ("colwise", "rowwise"):
            _check_divides(name, modules[name], word, size)
    parents = {name.rpartition(".")[0]: None for name in words if words[name] == "colwise"}
    gathers = [name for name in parents if name and _is_pure(name, modules[name], words)]
    attentions = [name for name in gathers if _check_heads(name, modules[name], size)]
    for name in parents:
        _check_not_fused(name, modules[name], words)
    strays = [
        name
        for name, module in modules.items()
        if name not in words and any(True for _ in module.parameters(recurse=False))
    ]
    return Planned(words, gathers, attentions, strays)


def head_counts(module: nn.Module) -> Iterator[tuple[object, str, int]]:
    """Where a module says how many heads it has: owner (itself, or its config), attribute, value."""
    for owner in (module, getattr(module, "config", None)):
        for attribute in (*_HEADS, *_KEY_VALUE_HEADS, *_OF_ALL_HEADS):
            value = getattr(owner, attribute, None)
            if isinstance(value, int) and not isinstance(value, bool):
                yield owner, attribute, value


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def features(module: nn.Module) -> tuple[int, int]:
    """Inputs and outputs of a linear layer, or of the transposed one that GPT-2 is made of.

    Examples:
        >>> features(nn.Linear(2, 3))
        (2, 3)
    """
    names = ("nx", "nf") if is_conv1d(module) else ("in_features", "out_features")
    inputs, outputs = (int(str(getattr(module, name))) for name in names)
    return inputs, outputs


def is_conv1d(module: nn.Module) -> bool:
    """A `Conv1D` of transformers: a linear layer whose weight is (inputs, outputs)."""
    return type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers.")


def _check_kind(name: str, module: nn.Module, word: str) -> None:
    if word in ("sequence", "heads"):
        return
    wanted: type[nn.Module] = nn.Embedding if word == "vocab_in" else nn.Linear
    if isinstance(module, wanted) and not _has_options(module):
        return
    if word in ("colwise", "rowwise") and is_conv1d(module):
        return
    raise FieldError(
        f"tensor_plan.{name}",
        word,
        f"is for a plain torch.nn.{wanted.__name__}, and this is {module!r}",
        "Leave it out of the plan; it is then computed whole on each rank.",
    )


def _has_options(module: nn.Module) -> bool:
    """An embedding that does more than look up rows."""
    return any(getattr(module, name, None) for name in ("max_norm", "scale_grad_by_freq", "sparse"))


def _check_divides(name: str, module: nn.Module, word: str, size: int) -> None:
    inputs, outputs = features(module)
    number = outputs if word == "colwise" else inputs
    if number % size:
        raise FieldError(
            "layout.tp",
            size,
            f"does not divide the {number} {'outputs' if word == 'colwise' else 'inputs'} of {name}",
            f"Give a tp that divides {number}.",
        )


def _is_pure(name: str, parent: nn.Module, words: Mapping[str, str]) -> bool:
    for inner, module in parent.named_modules(prefix=name):
        has_own = any(True for _ in module.parameters(recurse=False))
        if has_own and words.get(inner) not in ("colwise", "rowwise", "heads"):
            return False
    return True


def _check_heads(name: str, module: nn.Module, size: int) -> bool:
    """Whether a module is attention, whose heads are then known to divide."""
    own = any(owner is module for owner, _, _ in head_counts(module))
    if not own and "attention" not in type(module).__name__.lower():
        return False
    for _, attribute, value in head_counts(module):
        if value % size:
            raise FieldError(
                "layout.tp",
                size,
                f"does not divide the {value} heads ({attribute}) of {name}",
                f"Give a tp that divides {value}.",
            )
    return True


def _check_not_fused(name: str, parent: nn.Module, words: Mapping[str, str]) -> None:
    """A matrix that makes query, key and value at once, cut in equal parts, would give each rank the wrong heads."""
    children = {f"{name}.{child}" if name else child: module for child, module in parent.named_children()}
    rows = [features(module)[0] for full, module in children.items() if words.get(full) == "rowwise"]
    for full, module in children.items():
        if words.get(full) != "colwise":
            continue
        outputs = features(module)[1]
        if rows and all(row % outputs for row in rows):
            raise FieldError(
                f"tensor_plan.{full}",
                "colwise",
                f"has {outputs} outputs, and no rowwise matrix beside it takes so many or a multiple: "
                "it seems to be several matrices in one, which cannot be cut in equal parts",
                "Leave it out of the plan, or write the matrices apart.",
            )
