"""`find_parts`: where a model can be split: its blocks in order, and which of its matrices ranks can share.

A tensor plan maps names of modules to one of six words; in a name, `*` stands for the number of a block.

| word | the module | input on each rank | output on each rank |
|---|---|---|---|
| colwise | a matrix whose outputs are shared out | whole | its share of the features, or of the heads |
| rowwise | the matrix after it, whose inputs are shared out | its share of the features | the sum over the ranks |
| heads | a norm inside of each head, between the two | its heads | its heads |
| sequence | a norm, or what else treats each position alone | its positions, with sequence parallelism | the same |
| vocab_in | an embedding whose rows are shared out | whole | the sum over the ranks |
| vocab_out | the head, its rows shared out | whole | its share of the logits |

What a plan does not name stays whole on every rank. The weights of `heads` and `sequence` are whole too, but each
rank has only a part of their gradient: the parts are summed over tp. A matrix that makes query, key and value in
one must not be colwise: the first rank would get all of the query, and the last all of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from torch import nn

from hemostat.errors import TaskError
from hemostat.train.parallel import huggingface
from hemostat.train.parallel.tp_plan import WORDS

_DOMINANT: Final = 2 / 3  # of the parameters in all lists of blocks


class Parts(NamedTuple):
    """What is known of a model's inside; names are those of `named_modules()`.

    Attributes:
        blocks: in the order in which they are called; empty where none were found.
        tensor_plan: module to style, without `*`; empty where none is known.
        why: where the blocks come from, or why there are none.
    """

    blocks: tuple[str, ...]
    tensor_plan: dict[str, str]
    why: str

    def modules(self, model: nn.Module) -> list[nn.Module]:
        """The blocks themselves.

        Examples:
            >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
            >>> find_parts(model).modules(model)[1]
            Linear(in_features=2, out_features=1, bias=True)
        """
        return [model.get_submodule(name) for name in self.blocks]


def find_parts(
    model: nn.Module,
    blocks: Sequence[nn.Module] | None = None,
    tensor_plan: Mapping[str, str] | None = None,
) -> Parts:
    """What the task says of its model, and for the rest what is known of models of its kind.

    Known are Hugging Face decoders (Llama, Qwen2, Qwen3, Mistral, GPT-2), `nn.Sequential` (its children), and
    models with one `nn.ModuleList` or inner `nn.Sequential` that holds most of the parameters of such lists.

    Args:
        model: unwrapped.
        blocks: what `Task.blocks` returned.
        tensor_plan: what `Task.tensor_plan` returned.

    Raises:
        TaskError: a block that is no module of the model, a name in the plan that fits none, or an unknown style.

    Examples:
        >>> find_parts(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))).blocks
        ('0', '1', '2')
    """
    family = huggingface.family_of(model)
    if blocks is not None:
        names, why = _given(model, blocks), "blocks() of the task"
    elif family is not None:
        num_blocks = len(model.get_submodule(family.layers)._modules)
        names = tuple(f"{family.layers}.{number}" for number in range(num_blocks))
        why = f"a {family.name} model of transformers"
    else:
        names, why = _found(model)
    if tensor_plan is None:
        tensor_plan = family.tensor_plan(model) if family is not None else {}
    return Parts(names, _without_stars(model, tensor_plan), why)


def require_blocks(model: nn.Module, parts: Parts) -> None:
    """Refuse what needs blocks where none were found.

    Raises:
        TaskError: with the reason and the repair.
    """
    if not parts.blocks:
        raise TaskError(
            f"{type(model).__name__} cannot be cut into blocks: {parts.why}. "
            "Write blocks(self, model) that returns its blocks in order, such as list(model.layers)."
        )


def require_tensor_plan(model: nn.Module, parts: Parts) -> None:
    """Refuse tensor parallelism for a model of which no matrix is known to be divisible.

    Raises:
        TaskError: names the matrices and says what to write.
    """
    if parts.tensor_plan:
        return
    found = dict.fromkeys(starred(name) for name in _matrices(model, parts))
    known = ", ".join(list(found)[:6]) + (", ..." if len(found) > 6 else "")
    raise TaskError(
        f"{type(model).__name__} has no tensor plan, so tp cannot share out its matrices"
        f"{f' ({known})' if known.strip('*') else ''}. "
        f"Write tensor_plan(self, model) that maps module names to {', '.join(WORDS)}, for instance "
        '{"layers.*.up": "colwise", "layers.*.down": "rowwise"}.'
    )


def starred(name: str) -> str:
    """A module's name with `*` for the numbers in it.

    Examples:
        >>> starred("layers.11.up")
        'layers.*.up'
    """
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def _matrices(model: nn.Module, parts: Parts) -> Iterator[str]:
    """Modules with a weight of two dims, those of the blocks first."""
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(getattr(module, "weight", None), nn.Parameter) and module.weight.dim() == 2
    ]
    inside = tuple(f"{block}." for block in parts.blocks)
    yield from sorted(names, key=lambda name: not f"{name}.".startswith(inside) if inside else False)


def _given(model: nn.Module, blocks: Sequence[nn.Module]) -> tuple[str, ...]:
    known = {id(module): name for name, module in model.named_modules() if name}
    names: list[str] = []
    for number, block in enumerate(blocks):
        name = known.get(id(block))
        if name is None:
            raise TaskError(
                f"blocks() returned as number {number} a {type(block).__name__} that is no part of "
                f"{type(model).__name__}. Return modules of the model that blocks(self, model) is given."
            )
        outer = next((other for other in names if _inside(name, other) or _inside(other, name)), None)
        if outer is not None:
            raise TaskError(
                f"blocks() returned {name} and {outer}, which share what is in them. "
                "Return blocks that are called one after the other."
            )
        names.append(name)
    if not names:
        raise TaskError("blocks() returned none. Return the blocks in order, or None to have them found.")
    return tuple(names)


def _inside(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")


def _found(model: nn.Module) -> tuple[tuple[str, ...], str]:
    if isinstance(model, nn.Sequential) and len(model) > 1:
        return tuple(model._modules), "the children of an nn.Sequential"
    lists = list(_lists(model, ""))
    if any(isinstance(module, nn.ModuleList) for _, module in lists):
        lists = [(name, module) for name, module in lists if isinstance(module, nn.ModuleList)]
    sizes = [sum(param.numel() for param in module.parameters()) for _, module in lists]
    if not lists:
        return (), "it has no nn.ModuleList or nn.Sequential with two or more blocks"
    largest = max(sizes)
    name, module = lists[sizes.index(largest)]
    if largest <= _DOMINANT * sum(sizes):
        return (
            (),
            f"none of its lists of modules ({', '.join(name for name, _ in lists)}) outweighs the others",
        )
    return tuple(f"{name}.{key}" for key in module._modules), f"the nn.{_kind(module)} {name}"


def _kind(module: nn.Module) -> str:
    return "ModuleList" if isinstance(module, nn.ModuleList) else "Sequential"


def _lists(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    """The outermost lists in which two or more modules have parameters."""
    for key, child in module._modules.items():
        if child is None:
            continue
        filled = sum(any(True for _ in part.parameters()) for part in child._modules.values() if part)
        if isinstance(child, nn.ModuleList | nn.Sequential) and filled > 1:
            yield f"{prefix}{key}", child
        else:
            yield from _lists(child, f"{prefix}{key}.")


def _without_stars(model: nn.Module, plan: Mapping[str, str]) -> dict[str, str]:
    names = [name for name, _ in model.named_modules() if name]
    found: dict[str, str] = {}
    for pattern, style in plan.items():
        if style not in WORDS:
            raise TaskError(
                f"tensor_plan()[{pattern!r}]={style!r} is no known word. Write one of {', '.join(WORDS)}."
            )
        fits = re.compile(re.escape(pattern).replace(r"\*", r"\d+"))
        matching = [name for name in names if fits.fullmatch(name)]
        if not matching:
            raise TaskError(
                f"tensor_plan() names {pattern!r}, and {type(model).__name__} has no such module. "
                f"It has, among others, {', '.join(dict.fromkeys(map(starred, names[-4:])))}."
            )
        found.update(dict.fromkeys(matching, style))
    return found
