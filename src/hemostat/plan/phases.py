"""The moments of a step at which memory can be fullest, each with the tensors that live then."""

from __future__ import annotations

from collections.abc import Iterator

from hemostat.plan.load import Items, Load


def moments_of(load: Load) -> Iterator[tuple[str, Items]]:
    """Each phase with what lives in it.

    Args:
        load: of one position of the pipeline.

    Source: the order of a step: forward keeps, the loss comes on top, backward frees from the last part to the first
        while gradients appear, the optimizer step has no activations. What grows or shrinks evenly over equal blocks
        is largest at the first or the last of them.
    """
    yield from _forward(load)
    yield from _backward(load)
    yield from _outside_of_passes(load)


def _forward(load: Load) -> Iterator[tuple[str, Items]]:
    last = load.kinds[-1].params if load.kinds else 0.0
    before = load.in_passes() | {
        "activations of the blocks": load.held.num_in_flight * load.blocks_kept,
        "activations outside of the blocks": _outside(load),
        "logits and activations of the head": load.tail_kept,
        "gathered parameters": load.gathered(last),
        "gradients": load.gradients(0.0),
    }
    forward = {
        "temporaries of the loss": load.tail_forward,
        "copies of weights": load.copies(in_forward=True),
    }
    yield "end of forward", before | forward
    if load.held.tail:
        passing = max(load.tail_backward, load.head_gradients)
        backward = {"temporaries of the loss": passing, "copies of weights": load.copies(in_forward=False)}
        yield "loss", before | backward


def _outside(load: Load) -> float:
    held = load.held
    return held.num_in_flight * load.head_kept + (held.num_tails - 1) * load.tail_kept


def _backward(load: Load) -> Iterator[tuple[str, Items]]:
    """The fullest block, and the first and the last one that backward goes through."""
    lasting = load.in_passes() | {
        "activations outside of the blocks": _outside(load),
        "copies of weights": load.copies(in_forward=False),
    }
    places = list(_places(load))
    sizes = [sum(changing.values()) for changing in places]
    fullest = sizes.index(max(sizes))
    for index, phase in (
        (0, "first backward block"),
        (fullest, "backward block"),
        (-1, "last backward block"),
    ):
        if phase != "backward block" or 0 < index < len(places) - 1:
            yield phase, lasting | places[index]
    if load.is_sharded and not load.is_deferred:
        yield "reduce-scatter", lasting | max(_sums(load), key=lambda items: sum(items.values()))


def _sums(load: Load) -> Iterator[Items]:
    """What changes when gradients of a unit are summed: the first and the last block of each kind, then the root.

    A block's activations have gone by then, and the next block's parameters are on their way.
    """
    kept, done = load.held.num_in_flight * load.blocks_kept, load.tail_trained
    for index, kind in reversed(list(enumerate(load.kinds))):
        ahead = load.kinds[index - 1].params if index else 0.0
        for gone in sorted({0, kind.number - 1}):
            yield {
                "activations of the blocks": kept - (gone + 1) * kind.kept,
                "gathered parameters": load.gathered(kind.params if gone < kind.number - 1 else ahead),
                "gradients": load.gradients(done + gone * kind.trained),
                "gradients on their way": load.summed(kind.trained, load.tail_trained),
            }
        kept -= kind.number * kind.kept
        done += kind.number * kind.trained
    yield {
        "activations of the blocks": kept,
        "gradients": load.gradients(done),
        "gradients on their way": load.summed(load.num_trained - done + load.tail_trained, 0.0),
    }


def _places(load: Load) -> Iterator[Items]:
    """What changes from block to block: the first, the second and the last one of each kind, then the head's parts."""
    kept, done, before = load.held.num_in_flight * load.blocks_kept, load.tail_trained, 0.0
    for index, kind in reversed(list(enumerate(load.kinds))):
        ahead = load.kinds[index - 1].params if index else 0.0
        for gone in sorted({0, min(1, kind.number - 1), kind.number - 1}):
            now = before if gone == 0 else kind.params
            following = kind.params if gone < kind.number - 1 else ahead
            yield {
                "activations of the blocks": kept - gone * kind.kept,
                "temporaries of the block": kind.passing,
                "gathered parameters": load.gathered(kind.params + following),
                "gradients": load.gradients(done + gone * kind.trained),
                "gradients on their way": load.on_their_way(kind.params, now, load.tail_trained),
            }
        kept -= kind.number * kind.kept
        done += kind.number * kind.trained
        before = kind.params
    yield {
        "activations of the blocks": kept,
        "temporaries of the block": load.head_passing,
        "gathered parameters": load.gathered(0.0),
        "gradients": load.gradients(load.num_trained),
        "gradients on their way": load.on_their_way(0.0, before, load.units.root),
    }


def _outside_of_passes(load: Load) -> Iterator[tuple[str, Items]]:
    whole = load.whole_bytes
    states = {"weights": load.states.weights, "optimizer state": load.states.optimizer}
    step = load.regime.step_bytes * load.num_trained / load.optimizer_shares
    grads = {"gradients": load.states.gradients, "temporaries of the step": step}
    yield "optimizer step", load.lasting() | grads
    yield "initialisation", {"weights": load.states.weights, "weights before they are shared out": whole}
    yield "checkpoint load", states | {"weights before they are shared out": whole}
