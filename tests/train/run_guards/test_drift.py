"""HG003: one bit of one weight on one rank is found and named."""

from types import SimpleNamespace

import pytest
import torch

from hemostat.train.parallel.alike import checksum
from hemostat.train.run_guards.drift import DriftGuard
from hemostat.train.update import Step

STEP = Step(200, 1600, 0.5, 0.1, 1.0, True)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.bool, torch.int64],
)
def test_one_changed_value_changes_the_checksum(dtype):
    first = torch.arange(12).reshape(3, 4).to(dtype).T  # not contiguous
    second = first.clone()
    assert checksum(first) == checksum(second)
    second[0, 0] = 1
    assert checksum(first) != checksum(second)


def test_the_last_bit_of_a_float_counts():
    value = torch.tensor([1.0])
    assert checksum(value) != checksum(torch.nextafter(value, torch.tensor([2.0])))


@pytest.mark.parametrize(("odd", "where"), [(0, "rank 0"), (2, "rank 2")])
def test_the_parameter_and_the_rank_are_named(odd, where):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    mesh = SimpleNamespace(copies=lambda: [[0, 1, 2]])
    guard = DriftGuard(SimpleNamespace(model=model, mesh=mesh))
    said = [guard.mine(STEP) for _ in range(3)]
    with torch.no_grad():
        model[1].weight[0, 1] += 1e-6
        model[1].bias += 1e-6
    said[odd] = guard.mine(STEP)
    finding = guard.compare(said, STEP)
    assert f"1.weight differs on {where} (and 1 more parameters)" in finding.message
    assert finding.evidence == {"parameters": ["1.weight", "1.bias"], "ranks": [odd]}
    assert guard.compare(said[:1], STEP) is None


def test_only_ranks_that_hold_the_same_shards_are_compared():
    model = torch.nn.Linear(2, 2)
    mesh = SimpleNamespace(copies=lambda: [[0, 2], [1, 3]])
    guard = DriftGuard(SimpleNamespace(model=model, mesh=mesh))
    said = [guard.mine(STEP) for _ in range(4)]
    said[1] = said[3] = {name: value + 1 for name, value in said[1].items()}  # other shards, alike
    assert guard.compare(said, STEP) is None
    said[3] = said[0]
    assert guard.compare(said, STEP).evidence["ranks"] == [3]
