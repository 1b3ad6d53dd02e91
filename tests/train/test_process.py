import re
import subprocess
import sys

import pytest
import torch

from hemostat.errors import EnvironmentFailure
from hemostat.train.process import World, seed_everything


def test_alone_needs_no_process_group():
    world = World.from_environment("cpu")
    assert (world.rank, world.num_ranks, str(world.device)) == (0, 1, "cpu")
    assert world.sum([1.5, 2.0]) == [1.5, 2.0]
    assert world.from_rank_zero("here") == "here"
    tensor = torch.ones(2)
    world.average_([tensor])
    assert tensor.tolist() == [1.0, 1.0]
    world.barrier(0.1)
    world.close()
    assert not torch.distributed.is_initialized()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device that is to be missing")
def test_a_device_that_is_not_there_is_named():
    with pytest.raises(EnvironmentFailure, match=r"train\.device='cuda'"):
        World(device="cuda")


def test_a_rendezvous_that_fails_is_named(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    with pytest.raises(EnvironmentFailure, match=r"rank 1 could not meet the others at 127\.0\.0\.1:None"):
        World.from_environment("cpu")


def test_seeding_repeats():
    seed_everything(5)
    first = torch.rand(3)
    seed_everything(5)
    assert torch.equal(first, torch.rand(3))


TWO_SESSIONS = """
import torch
from hemostat import Base, Session
from hemostat.train import TrainSettings

for _ in range(2):
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(8, 2))
    base = Base(lr=0.1, tuned_batch=4)
    with Session(torch.nn.Linear(2, 1), None, data, base, settings=TrainSettings(record=False)) as session:
        for (inputs,) in session.steps():
            session.backward(session.model(inputs).square().sum(), len(inputs))
    print(f"loss {session.last.loss:.9f} of rank {session.world.rank}")
"""


def test_two_sessions_one_after_the_other_in_one_job(tmp_path):
    (tmp_path / "script.py").write_text(TWO_SESSIONS)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run([*command, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in range(2):
        first, second = re.findall(rf"loss (\S+) of rank {rank}", done.stdout)
        assert first == second


def open_group():
    world = World.of_open_group(torch.device("cpu"))
    told = (world.rank, world.num_ranks, world.sum([1.0]), world.from_rank_zero(str(world.rank)))
    world.close()
    return told, torch.distributed.is_initialized()


def test_the_ranks_of_a_group_that_somebody_else_has_opened(ranks):
    alone = World.of_open_group(torch.device("cpu"))
    assert (alone.rank, alone.num_ranks) == (0, 1)
    told = ranks(2, open_group)
    assert told == [((rank, 2, [2.0], "0"), True) for rank in range(2)]
