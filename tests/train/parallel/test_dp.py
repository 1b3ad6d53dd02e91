import torch

from hemostat.train.parallel import dp
from hemostat.train.process import World


def test_one_rank_needs_no_wrapper():
    model = torch.nn.Linear(1, 1)
    assert dp.wrap(model, World(), find_unused=False) is model
    assert dp.unwrap(model) is model
    with dp.accumulating(model, last=False):
        model(torch.ones(1, 1)).sum().backward()
    assert model.weight.grad is not None


def wrapped() -> tuple[bool, bool, list[float]]:
    """Held back while accumulating, averaged at the last micro-batch."""
    world = World.from_environment("cpu")
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    parallel = dp.wrap(model, world, find_unused=False)
    grads = []
    for last in (False, True):
        with dp.accumulating(parallel, last):
            parallel(torch.full((1, 1), float(world.rank + 1))).sum().backward()
        grads.append(model.weight.grad.item())
    return (
        isinstance(parallel, torch.nn.parallel.DistributedDataParallel),
        dp.unwrap(parallel) is model,
        grads,
    )


def test_gradients_are_averaged_at_the_last_micro_batch_only(ranks):
    first, second = ranks(2, wrapped)
    assert first == (True, True, [1.0, 3.0])
    assert second == (True, True, [2.0, 3.0])
