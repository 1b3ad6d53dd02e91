"""The loop that a careful person writes with DistributedDataParallel and nothing else."""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from step_peers.workload import (
    CLIP_NORM,
    Batches,
    Tally,
    Times,
    Workload,
    loss_of,
    new_optimizer,
    new_schedule,
)


def run(work: Workload, folder: Path) -> Times:
    """As the bare loop, on this rank's share of each batch; the mean loss of all ranks is taken at the end."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    share = work.global_batch // num_ranks
    model = DistributedDataParallel(work.new_model(), gradient_as_bucket_view=True)
    optimizer = new_optimizer(model)
    schedule = new_schedule(optimizer, work)
    parameters = list(model.parameters())
    tally = Tally(work, folder)
    loss = torch.zeros(())
    for inputs, targets in Batches(work):
        mine = slice(rank * share, (rank + 1) * share)
        loss = loss_of(model(inputs[mine]), targets[mine])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        if math.isfinite(norm.item()):
            optimizer.step()
            schedule.step()
        optimizer.zero_grad(set_to_none=True)
        tally.note(loss.item())
    last = loss.detach().double()
    dist.all_reduce(last)
    return tally.close()._replace(last_loss=float(last) / num_ranks)
