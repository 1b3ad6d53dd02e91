"""The meter of tensor memory against cases counted by hand, and against torch's own profiler."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.profiler import profile
from torch.utils.checkpoint import checkpoint

from hemostat.train.parallel import fsdp
from hemostat.train.storage_meter import StorageMeter

ROWS, DIM, DEPTH = 32, 16, 5
ACTIVATION, WEIGHT = ROWS * DIM * 4, DIM * DIM * 4  # bytes


def test_views_share_their_storage_and_freed_tensors_leave():
    with StorageMeter() as meter:
        x = torch.zeros(10, 10)
        views = [x[0], x.t(), x.view(-1), x.detach(), x.unbind()]
        x.add_(1.0)
        assert meter.now_bytes == meter.peak_bytes == 400
        y = torch.cat([x, x])
        assert meter.now_bytes == 1200
        del y
        assert (meter.now_bytes, meter.peak_bytes) == (400, 1200)
        meter.reset_peak()
        assert meter.peak_bytes == 400
        del x
        assert meter.now_bytes == 400  # a view holds it
        del views
        assert meter.now_bytes == 0
    torch.zeros(10)
    assert meter.peak_bytes == 400


def test_what_was_made_before_counts_from_the_first_operation_that_reads_it():
    x = torch.zeros(10)
    with StorageMeter() as meter:
        assert meter.now_bytes == 0
        y = x + 1.0
        assert meter.now_bytes == 80
    del x, y
    assert meter.now_bytes == 0


def test_a_storage_counts_as_large_as_it_is_now():
    original = torch.UntypedStorage.resize_
    with StorageMeter() as meter:
        x = torch.zeros(10)
        x.untyped_storage().resize_(0)
        assert meter.now_bytes == 0
        x.untyped_storage().resize_(400)
        assert meter.now_bytes == 400
        x.resize_(200)
        assert meter.now_bytes == meter.peak_bytes == 800
    assert torch.UntypedStorage.resize_ is original


def test_nothing_lies_on_the_meta_device():
    with StorageMeter() as meter:
        x = nn.Linear(10, 10, device="meta")(torch.zeros(3, 10, device="meta"))
    assert meter.peak_bytes == 0 and x.is_meta


def chain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(DIM, DIM, bias=False) for _ in range(DEPTH)))


def test_the_peak_of_a_chain_of_matrices_is_what_one_counts_by_hand():
    model, x = chain(), torch.zeros(ROWS, DIM)
    with StorageMeter() as meter:
        meter.follow(list(model.parameters()))
        y, seed = model(x), torch.ones(ROWS, DIM)
        # the input, the output of every matrix, the seed
        assert meter.now == {
            "params": DEPTH * WEIGHT,
            "grads": 0,
            "optimizer": 0,
            "other": (DEPTH + 2) * ACTIVATION,
        }
        assert meter.peak_bytes == meter.now_bytes
        y.backward(seed)
    # backward holds most at the last matrix but one: of the outputs one is done with, and the gradients of two are
    # there; beside them that of one weight, and that of the next, which has not arrived where it belongs
    most = {
        "params": DEPTH * WEIGHT,
        "grads": WEIGHT,
        "optimizer": 0,
        "other": (DEPTH + 3) * ACTIVATION + WEIGHT,
    }
    assert meter.at_peak == most and meter.peak_bytes == sum(most.values())
    assert meter.now == {
        "params": DEPTH * WEIGHT,
        "grads": DEPTH * WEIGHT,
        "optimizer": 0,
        "other": 3 * ACTIVATION,
    }


def profiled(seen: profile) -> tuple[int, int]:
    """Bytes at most and at the end, beyond those of the start."""
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    level = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        level += event.nbytes()
        most = max(most, level)
    return most, level


@pytest.mark.parametrize("recomputed", [False, True])
def test_the_peak_of_a_training_step_is_that_of_torchs_profiler(recomputed):
    model, x = chain(), torch.randn(ROWS, DIM)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        y = x
        for layer in model:
            block = nn.Sequential(layer, nn.Tanh(), nn.Softmax(dim=-1))
            y = (
                checkpoint(block, y, use_reentrant=False, preserve_rng_state=False)
                if recomputed
                else block(y)
            )
        y.square().sum().backward()
        del y
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(2):  # the first one makes the optimizer's state
        gc.collect()
        with profile(profile_memory=True) as seen, StorageMeter() as meter:
            meter.follow([*model.parameters()], optimizer)
            meter.add([x])
            before = meter.now_bytes
            step()
            gc.collect()
        most, level = profiled(seen)
        assert meter.now_bytes - before == level
        assert meter.peak_bytes - before > 3 * ACTIVATION
        assert 0 <= most - (meter.peak_bytes - before) <= 64  # scalars inside of one operation


def test_optimizer_state_and_gradients_are_told_apart_at_each_step():
    model = chain()
    optimizer = torch.optim.AdamW(model.parameters())
    with StorageMeter() as meter:
        meter.follow(list(model.parameters()), optimizer)
        for _ in range(2):
            model(torch.zeros(ROWS, DIM)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            weights = DEPTH * WEIGHT
            scalars = DEPTH * 4  # each weight has its own count of steps
            assert meter.at_step == {
                "params": weights,
                "grads": weights,
                "optimizer": 2 * weights + scalars,
                "other": 0,
            }
            assert meter.now == {
                "params": weights,
                "grads": 0,
                "optimizer": 2 * weights + scalars,
                "other": 0,
            }
    model(torch.zeros(ROWS, DIM)).sum().backward()
    assert meter.now["grads"] == 0  # followed no longer


def shards_and_gathered() -> dict[str, int]:
    """On each of two ranks: three blocks in units of their own under FSDP2, of which one at a time is gathered."""
    from hemostat.plan import Layout
    from hemostat.train.parallel.mesh import Mesh
    from hemostat.train.process import World

    mesh = Mesh(Layout(fsdp=2), World.from_environment("cpu"))
    model = chain()
    with StorageMeter() as meter:
        fsdp.shard(model, list(model), mesh.along("fsdp"))
        meter.follow(list(model.parameters()))
        sharded = dict(meter.now)
        meter.reset_peak()
        with torch.no_grad():
            model(torch.zeros(1, DIM))
        gc.collect()
    return {
        "sharded": sharded["params"],
        "left": meter.now["params"],
        "gathered_at_most": meter.peak_bytes - sum(sharded.values()),
        "other": meter.now["other"] - sharded["other"],
    }


def test_shards_are_counted_and_what_is_gathered_for_one_block_after_the_other(ranks):
    for found in ranks(2, shards_and_gathered):
        assert found["sharded"] == found["left"] == DEPTH * WEIGHT // 2
        assert found["other"] == 0
        assert WEIGHT <= found["gathered_at_most"] < DEPTH * WEIGHT


def product_of_shards() -> tuple[int, int, int]:
    """Bytes before, at most and after the product of two matrices whose rows are shared out."""
    mesh = init_device_mesh("cpu", (2,))
    left, right = (distribute_tensor(torch.ones(ROWS, ROWS), mesh, [Shard(0)]) for _ in range(2))
    with StorageMeter() as meter:
        meter.add([left, right])
        before = meter.now_bytes
        product = left @ right
        assert product.placements == (Shard(0),)
    return before, meter.peak_bytes, meter.now_bytes


def test_what_a_dtensor_gathers_on_the_way_is_seen(ranks):
    half = ROWS * ROWS * 4 // 2
    for before, peak, after in ranks(2, product_of_shards):
        assert (before, after) == (2 * half, 3 * half)
        assert peak >= 5 * half  # both, the right one whole, and the product
