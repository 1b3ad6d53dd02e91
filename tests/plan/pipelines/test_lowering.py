"""Torch's runtime takes the schedules as they are: it validates them, adds communication, and none hangs."""

from __future__ import annotations

import pytest
from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.schedules import _Action, _ComputationType

from hemostat.plan.pipelines import Pipeline, pipeline
from hemostat.plan.pipelines.action import LETTERS

SIZES = [(2, 1), (2, 3), (2, 4), (3, 7), (4, 2), (4, 4), (4, 8), (4, 11), (8, 5), (8, 16)]
CASES = [
    (name, p, m, v)
    for name, stages in (("gpipe", [1]), ("1f1b", [1]), ("interleaved", [2, 3]), ("zero_bubble", [1]))
    for p, m in SIZES
    for v in stages
]


def translated(order: Pipeline) -> dict[int, list[_Action]]:
    kinds = {kind: _ComputationType.from_str(letter) for kind, letter in LETTERS.items()}
    return {
        rank: [_Action(stage, kinds[kind], number) for stage, kind, number in actions]
        for rank, actions in enumerate(order.ranks)
    }


@pytest.mark.parametrize(("name", "p", "m", "v"), CASES)
def test_torch_adds_communication_and_finds_no_deadlock(name, p, m, v):
    order = pipeline(name, p, m, v)
    compute = translated(order)
    places = torch_schedules._validate_schedule(compute, p, order.num_stages, m)
    assert places == {stage: order.rank_of(stage) for stage in range(order.num_stages)}

    lowered = {rank: torch_schedules._add_unshard_reshard(actions) for rank, actions in compute.items()}
    lowered = {rank: torch_schedules._add_reduce_grad(actions, m) for rank, actions in lowered.items()}
    lowered = torch_schedules._add_send_recv(lowered, order.rank_of, order.num_stages)
    for rank, actions in lowered.items():
        assert [action for action in actions if action.is_compute_op] == compute[rank]

    later = torch_schedules._defer_recv_ops(lowered, order.rank_of)
    without_network = ("UNSHARD", "RESHARD", "REDUCE_GRAD")  # torch's simulation does not know these
    for version in (lowered, later):
        played = {
            rank: [action for action in actions if action.computation_type.value not in without_network]
            for rank, actions in version.items()
        }
        lengths = {rank: len(actions) for rank, actions in played.items()}
        slots = torch_schedules._simulate_comms_compute(played, order.rank_of, order.num_stages)
        for rank, row in slots.items():
            assert sum(action is not None for action in row) == lengths[rank]


def test_torch_finds_the_deadlock_of_a_wrong_order(capsys):
    wrong = translated(pipeline("1f1b", 2, 2))
    wrong[0].reverse()
    with pytest.raises(AssertionError, match="can't schedule sends/recvs"):
        torch_schedules._add_send_recv(wrong, lambda stage: stage, 2)


def order_of_torch(schedule: type, rank: int, p: int, m: int, v: int) -> list[_Action]:
    """What torch's own class would do, without the processes that its constructor wants."""
    made = object.__new__(schedule)
    made.pp_group_size, made.n_local_stages, made._n_microbatches = p, v, m
    made.microbatches_per_round = m // max(1, m // p)
    return [action for action in made._calculate_single_rank_operations(rank) if action is not None]


@pytest.mark.parametrize(
    ("name", "schedule", "stages"),
    [
        ("interleaved", torch_schedules.ScheduleInterleaved1F1B, (2, 3)),
        ("zero_bubble", torch_schedules.ScheduleInterleavedZeroBubble, (1,)),
    ],
)
def test_the_order_is_torchs_own_where_torch_has_one(name, schedule, stages):
    num_compared = 0
    for p in (2, 3, 4, 8):
        for m in range(1, 21):
            if m % max(1, m // p):
                continue  # torch refuses this number of micro-batches
            for v in stages:
                own = translated(pipeline(name, p, m, v))
                assert own == {rank: order_of_torch(schedule, rank, p, m, v) for rank in range(p)}, (p, m, v)
                num_compared += 1
    assert num_compared >= 30
