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


def _activations(load: Load) -> Items:
    held = load.held
    return {
        "activations of the blocks": held.num_in_flight * load.blocks_kept,
        "activations outside of the blocks": held.num_in_flight * load.head_kept
        + (held.num_tails - 1) * load.tail_kept,
    }


def _forward(load: Load) -> Iterator[tuple[str, Items]]:
    before = (
        load.lasting()
        | _activations(load)
        | {
            "gradients": load.gradients(0.0),
            "logits and activations of the head": load.tail_kept,
        }
    )
    yield (
        "end of forward",
        before
        | {
            "temporaries of the loss": load.tail_forward,
            "copies of weights": load.copies(in_forward=True),
        },
    )
    if load.held.tail:
        yield (
            "loss",
            before
            | {
                "temporaries of the loss": max(load.tail_backward, load.head_gradients),
                "copies of weights": load.copies(in_forward=False),
            },
        )


def _backward(load: Load) -> Iterator[tuple[str, Items]]:
    first = _activations(load)
    blocks = first["activations of the blocks"] - load.blocks_kept + load.block_kept
    before = (
        load.lasting()
        | first
        | {
            "recomputed activations": load.recomputed,
            "temporaries of the block": load.passing,
            "copies of weights": load.copies(in_forward=False),
        }
    )
    yield (
        "first backward block",
        before
        | {
            "gradients": load.gradients(load.tail_trained / max(load.num_trained, 1.0)),
            "gradients on their way": load.on_their_way(load.tail_trained),
        },
    )
    yield (
        "last backward block",
        before
        | {
            "activations of the blocks": blocks,
            "gradients": load.gradients(1.0),
            "gradients on their way": load.on_their_way(load.units.root),
        },
    )


def _outside_of_passes(load: Load) -> Iterator[tuple[str, Items]]:
    whole = load.whole_bytes
    states = {"weights": load.states.weights, "optimizer state": load.states.optimizer}
    step = load.regime.step_bytes * load.num_trained / load.optimizer_shares
    everything = load.lasting(in_pass=False)
    yield (
        "optimizer step",
        everything | {"gradients": load.gradients(1.0), "temporaries of the step": step},
    )
    yield "initialisation", {"weights": load.states.weights, "weights before they are shared out": whole}
    yield "checkpoint load", states | {"weights before they are shared out": whole}
