"""Each moment of a step has its own tensors, in small whole numbers."""

from __future__ import annotations

import msgspec

from hemostat.plan.layout import Layout
from hemostat.plan.load import Load
from hemostat.plan.parallel.pp import held_by
from hemostat.plan.phases import moments_of
from hemostat.plan.profile import Kept, Part, Product, Profile
from hemostat.plan.workload import REGIMES, Workload

BLOCK = Part(
    name="block",
    count=4,
    num_params=100,
    num_tp_params=100,
    products=(Product(rows=1, inner=10, columns=10, cut="columns"),),
    kept=(Kept(name="sum", num_bytes=30), Kept(name="gate", num_bytes=50, is_cheap=True)),
    input_bytes=10,
    passing_bytes=5,
    is_block=True,
)
HEAD = Part(
    name="head",
    num_params=40,
    products=(Product(rows=1, inner=4, columns=10),),
    kept=(Kept(name="logits", num_bytes=60),),
    input_bytes=10,
    passing_bytes=80,
    forward_passing_bytes=20,
)
MODEL = Profile(name="small", parts=(Part(name="table", num_params=40), BLOCK, HEAD), num_tied_params=40)
NUM = 440  # parameters; the table and the head are one


def moments(layout=None, profile=MODEL, **work):
    layout, work = layout or Layout(), Workload(**({"micro_batch": 2} | work))
    every = held_by(profile, layout, work.accumulation)
    return [dict(moments_of(Load(profile, held, layout, work))) for held in every]


def nonzero(items):
    return {name: size for name, size in items.items() if size}


def test_the_loss_comes_on_top_of_what_forward_kept():
    (found,) = moments()
    lasting = {"weights": 4 * NUM, "optimizer state": 8 * NUM}
    acts = {"activations of the blocks": 2 * 4 * 80, "logits and activations of the head": 2 * 60}
    assert nonzero(found["end of forward"]) == lasting | acts | {"temporaries of the loss": 2 * 20}
    # the gradient of the head's matrix (4 x 40) and of its input (2 x 10) against 2 x 80
    assert nonzero(found["loss"]) == lasting | acts | {"temporaries of the loss": 4 * 40 + 2 * 10}


def test_gradients_appear_while_activations_go():
    (found,) = moments()
    first, last = found["first backward block"], found["last backward block"]
    assert (first["gradients"], last["gradients"]) == (4 * 40, 4 * NUM)
    assert (first["activations of the blocks"], last["activations of the blocks"]) == (2 * 4 * 80, 0)
    assert first["temporaries of the block"] == 2 * 5


def test_the_fullest_block_may_be_neither_the_first_nor_the_last():
    wide = msgspec.structs.replace(BLOCK, count=1, passing_bytes=1000)
    parts = (MODEL.parts[0], BLOCK, wide, BLOCK, HEAD)
    (found,) = moments(profile=msgspec.structs.replace(MODEL, parts=parts))
    middle = found["backward block"]
    assert middle["temporaries of the block"] == 2 * 1000
    assert middle["activations of the blocks"] == 2 * 5 * 80  # four after it have gone
    assert middle["gradients"] == 4 * (40 + 4 * 100)


def test_the_step_has_no_activations_but_temporaries_of_its_own():
    (found,) = moments()
    assert nonzero(found["optimizer step"]) == {
        "weights": 4 * NUM,
        "optimizer state": 8 * NUM,
        "gradients": 4 * NUM,
        "temporaries of the step": 4 * NUM,
    }


def test_gradients_of_earlier_passes_are_there_before_the_loss():
    assert moments()[0]["loss"]["gradients"] == 0
    assert moments(accumulation=2)[0]["loss"]["gradients"] == 4 * NUM
    assert moments(Layout(dp=2))[0]["loss"]["gradients"] == 4 * NUM  # views of DDP's buckets
    copied = msgspec.structs.replace(REGIMES[0], bucket_bytes=4)
    loss = moments(Layout(dp=2), regime=copied)[0]["loss"]
    assert (loss["gradients"], loss["gradient buckets"]) == (0, 4 * NUM)


def test_recomputation_keeps_less_and_holds_one_block_in_full():
    full = moments(Layout(recompute="full"))[0]["first backward block"]
    assert (full["activations of the blocks"], full["temporaries of the block"]) == (
        2 * 4 * 10,
        2 * (80 - 10 + 5),
    )
    some = moments(Layout(recompute="selective"))[0]["first backward block"]
    assert (some["activations of the blocks"], some["temporaries of the block"]) == (2 * 4 * 30, 2 * (50 + 5))


def test_autocast_copies_weights_and_keeps_the_copies_unless_it_recomputes():
    autocast = {"regime": REGIMES[1]}
    (kept,) = moments(**autocast)
    assert (
        kept["loss"]["copies of weights"] == kept["end of forward"]["copies of weights"] == 2 * (4 * 100 + 40)
    )
    (again,) = moments(Layout(recompute="full"), **autocast)
    assert again["end of forward"]["copies of weights"] == 2 * (4 * 100 + 40)
    assert again["loss"]["copies of weights"] == 2 * (100 + 40)


def test_a_shared_out_model_gathers_and_sums_block_by_block():
    (found,) = moments(Layout(fsdp=4), regime=REGIMES[2])
    first, second = found["first backward block"], found["backward block"]
    assert first["weights"] == 4 * NUM / 4
    assert found["loss"]["gathered parameters"] == 2 * (40 + 100)
    assert first["gathered parameters"] == 2 * (40 + 2 * 100)
    assert first["gradients on their way"] == 2 * 100 + 2 * 40
    assert second["gradients on their way"] == 2 * 100 + 4 * 100 + 2 * 40
    assert "gathered parameters" not in found["optimizer step"]


def test_a_sum_is_a_moment_of_its_own_where_the_model_is_shared_out():
    assert "reduce-scatter" not in moments()[0]
    wide = msgspec.structs.replace(BLOCK, kept=(Kept(name="sum", num_bytes=1000),))
    parts = (MODEL.parts[0], wide, HEAD)
    (found,) = moments(Layout(fsdp=4), msgspec.structs.replace(MODEL, parts=parts), regime=REGIMES[2])
    first = found["reduce-scatter"]
    assert first["activations of the blocks"] == 2 * 3 * 1000
    assert first["gradients on their way"] == (2 + 4) * 100 + 2 * 40
    assert first["gathered parameters"] == 2 * (40 + 100)


def test_the_roots_sum_is_the_fullest_where_its_tables_are():
    large = msgspec.structs.replace(HEAD, num_params=4000)
    parts = (MODEL.parts[0], BLOCK, large)
    (found,) = moments(Layout(fsdp=4), msgspec.structs.replace(MODEL, parts=parts), regime=REGIMES[2])
    last = found["reduce-scatter"]
    assert (last["activations of the blocks"], last["gradients on their way"]) == (0, (2 + 4) * 4000)


def test_what_is_gathered_in_full_is_copied_by_autocast_too():
    loss = moments(Layout(fsdp=4), regime=REGIMES[1])[0]["loss"]
    assert loss["gathered parameters"] == 4 * (40 + 100)
    assert loss["copies of weights"] == 2 * (4 * 100 + 40)


def test_whole_models_are_loaded_only_where_the_regime_says_so():
    one = moments(Layout(fsdp=4), regime=REGIMES[2])[0]["checkpoint load"]
    every = msgspec.structs.replace(REGIMES[2], loads_whole=True)
    assert one["weights before they are shared out"] == 4 * 100
    whole = moments(Layout(fsdp=4), regime=every)[0]["checkpoint load"]
    assert whole["weights before they are shared out"] == 4 * NUM
