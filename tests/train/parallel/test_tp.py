"""Matrices shared by N ranks: the same weights, norms and outputs as one process (float64)."""

from __future__ import annotations

import pytest
import torch
from shared_decoder import VOCAB, full, loss_of, make, make_data, same, trained
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from hemostat.errors import FieldError, TaskError
from hemostat.train.parallel import tp

WAYS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize("positions", [8, 7, 1])
@pytest.mark.parametrize(("sequence", "loss"), WAYS)
def test_two_ranks_equal_one_process(ranks, positions, sequence, loss):
    alone = trained("tied", positions)
    results = ranks(2, trained, "tied", positions, {"tp": 2}, sequence, loss)
    same(results, alone)
    for result in results:
        assert result["shared"] == (sequence, loss, ())
        assert type(result["judged"]) is Tensor
        torch.testing.assert_close(result["judged"], alone["judged"], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("sequence", "loss"), [(False, False), (True, True)])
@pytest.mark.parametrize("kind", ["untied", "grouped", "frozen", "recomputed"])
def test_other_decoders(ranks, kind, sequence, loss):
    same(ranks(2, trained, kind, 7, {"tp": 2}, sequence, loss), trained(kind, 7))


def test_four_ranks_share(ranks):
    alone = trained("tied", 6)
    results = ranks(4, trained, "tied", 6, {"tp": 4})
    same(results, alone)
    whole = sum(tensor.numel() for tensor in alone["weights"].values())
    assert max(result["local"] for result in results) < 0.32 * whole  # norms and rowwise biases are whole


@pytest.mark.parametrize("kind", ["mlp", "bytegpt"])
def test_models_with_parts_that_stay_whole(ranks, kind):
    results = ranks(2, trained, kind, 7, {"tp": 2})
    same(results, trained(kind, 7))
    sequence, _, notes = results[0]["shared"]
    assert not sequence
    assert notes == ("layout.sequence_parallel has no effect: the plan marks no module as 'sequence'",)


@pytest.mark.parametrize("sizes", [{"dp": 1, "fsdp": 2, "tp": 2}, {"dp": 2, "fsdp": 1, "tp": 2}], ids=str)
@pytest.mark.parametrize("sequence", [False, True])
def test_beside_data_parallelism(ranks, sizes, sequence):
    results = ranks(4, trained, "tied", 7, sizes, sequence)
    same(results, trained("tied", 7))


def middle(is_shared: bool, sequence: bool = True) -> list[Tensor]:
    """A pipeline stage without embedding and head: whole activations enter and leave, gradients too."""
    model, plan = make("tied")
    stage = Stage(model.blocks)
    if is_shared:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        shared = tp.parallelize(stage, plan, mesh, sequence_parallel=sequence)
        assert shared.sequence_parallel == sequence
        assert not shared.loss_parallel
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 7, 16, generator=generator, dtype=torch.float64, requires_grad=True)
    positions = torch.arange(7)
    with tp.context(tp.Shared(sequence, False, ())):
        output, same_positions = stage(x, positions)
        assert type(output) is Tensor
        assert same_positions is positions
        output.square().sum().backward()
    params = list(stage.parameters())
    tp.complete_grads(params)
    return [output.detach(), x.grad, *(full(param.grad) for param in params)]


class Stage(nn.Module):
    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        mask = positions[:, None] >= positions
        for block in self.blocks:
            x = block(x, mask=mask)
        return x, positions


@pytest.mark.parametrize("sequence", [False, True])
def test_a_stage_in_the_middle_of_a_pipeline(ranks, sequence):
    wanted = middle(False)
    for result in ranks(2, middle, True, sequence):
        for seen, expected in zip(result, wanted, strict=True):
            torch.testing.assert_close(seen, expected, rtol=0, atol=1e-10)


def rounded(is_shared: bool) -> list[Tensor]:
    model, plan = make("tied")
    model.float()
    shared = tp.Shared(False, False, ())
    if is_shared:
        shared = tp.parallelize(model, plan, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)))
    ids, targets = make_data("tied", 7)
    with tp.context(shared):
        with torch.autocast("cpu", torch.bfloat16):
            output = model(ids)
        loss = tp.whole(loss_of(output.float(), targets))
        loss.backward()
    params = list(model.parameters())
    tp.complete_grads(params)
    assert {param.grad.dtype for param in params} == {torch.float32}
    return [full(param.grad) for param in params]


def test_autocast(ranks):
    """Sums over ranks are rounded to bfloat16 on their way, so the results agree as bfloat16 does."""
    wanted = rounded(False)
    for result in ranks(2, rounded, True):
        seen, expected = (torch.cat([part.flatten() for part in parts]) for parts in (result, wanted))
        assert (seen - expected).norm() < 0.02 * expected.norm()


def unable(_: int) -> tuple[str, bool]:
    """A loss that torch cannot compute on logits that are cut, then one on whole logits."""
    (model, plan), (ids, targets) = make("untied"), make_data("untied", 7)
    shared = tp.parallelize(model, plan, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)))
    words = ""
    try:
        with tp.context(shared):
            nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), label_smoothing=0.1)
    except TaskError as error:
        words = str(error)
    whole_logits = torch.zeros(2, VOCAB, dtype=torch.float64)
    on_mesh = DTensor.from_local(
        whole_logits, init_device_mesh("cpu", (2,))
    )  # torch's handlers would refuse it
    return words, bool(torch.log_softmax(on_mesh, -1).to_local().isfinite().all())


def test_a_loss_that_needs_whole_logits_is_told_what_to_write(ranks):
    for words, works_afterwards in ranks(2, unable, 0):
        assert "Write layout.loss_parallel=false or layout.sequence_parallel=false." in words
        assert works_afterwards


def refused(_: int) -> str:
    model, plan = make("tied")
    plan["norm"] = "columnwise"
    try:
        tp.parallelize(model, plan, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)))
    except FieldError as error:
        return str(error)
    return ""


def test_what_cannot_be_shared_is_said_on_all_ranks(ranks):
    first, second = ranks(2, refused, 0)
    assert first == second
    assert first.startswith("tensor_plan.norm='columnwise': is not known. Did you mean 'colwise'?")


def stray(_: int) -> tuple[str, ...]:
    model, plan = make("tied")
    del plan["norm"]
    return tp.parallelize(model, plan, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))).notes


def test_a_module_that_the_plan_forgets_keeps_positions_whole(ranks):
    wanted = ("layout.sequence_parallel has no effect: the plan does not name norm, which has parameters",)
    assert ranks(2, stray, 0) == [wanted, wanted]
