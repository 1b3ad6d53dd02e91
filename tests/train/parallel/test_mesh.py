"""Where a rank stands, and the means over those that hold the same part of the model."""

import torch
import torch.distributed as dist

from hemostat.plan import Layout
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.process import World


def place(layout: str) -> dict[str, object]:
    world = World.from_environment("cpu")
    mesh = Mesh(Layout.read(layout), world)
    tensor = torch.tensor([float(dist.get_rank())])
    mesh.average_([tensor])
    told = {
        "data_rank": mesh.data_rank,
        "counts": mesh.counts,
        "speaks": mesh.speaks,
        "mean": float(tensor),
        "tp": dist.get_process_group_ranks(mesh.along("tp").get_group()),
    }
    world.close()
    return told


def test_ranks_of_a_tp_group_have_the_same_samples_and_count_once(ranks):
    told = ranks(4, place, "fsdp=2,tp=2")
    assert [one["data_rank"] for one in told] == [0, 0, 1, 1]
    assert [one["counts"] for one in told] == [True, False, True, False]
    assert [one["speaks"] for one in told] == [True, False, False, False]
    assert [one["mean"] for one in told] == [1.5] * 4
    assert [one["tp"] for one in told] == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_of_a_pipeline_the_last_stage_counts_and_means_are_those_of_a_stage(ranks):
    told = ranks(4, place, "pp=2,dp=2")
    assert [one["counts"] for one in told] == [False, False, True, True]
    assert [one["mean"] for one in told] == [0.5, 0.5, 2.5, 2.5]


def test_alone_or_with_copies_only_there_is_no_mesh_of_torch():
    mesh = Mesh(Layout(), World(rank=2, num_ranks=4))
    assert mesh.devices is None
    assert (mesh.data_rank, mesh.num_data_ranks, mesh.counts) == (2, 4, True)
    assert mesh.copies() == [[0, 1, 2, 3]]


def test_copies_are_the_ranks_with_the_same_shards():
    layout = Layout(dp=2, fsdp=2)
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(4):
        found.setdefault((layout.place(rank).fsdp,), []).append(rank)
    mesh = Mesh.__new__(Mesh)
    mesh.layout = layout
    assert mesh.copies() == list(found.values()) == [[0, 2], [1, 3]]
