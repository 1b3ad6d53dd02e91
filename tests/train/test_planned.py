"""A task becomes a profile without being computed: on the meta device where its model allows it."""

from __future__ import annotations

from hemostat.task import load_task
from hemostat.train import task_profile

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Deep(hemostat.Task):
    width: int = 16
    reads: bool = False
    def model(self):
        model = torch.nn.Sequential(*(torch.nn.Linear(self.width, self.width) for _ in range(4)))
        if self.reads and float(model[0].weight.sum()) > 0:
            pass
        return model
    def train_data(self): return TensorDataset(torch.zeros(4, self.width), torch.zeros(4, self.width))
    def loss(self, output, target): return (output - target).square().sum(), len(target)
"""


def profile(tmp_path, **values):
    (tmp_path / "deep.py").write_text(TASK)
    return task_profile(load_task(f"{tmp_path / 'deep.py'}:Deep", values))


def test_blocks_products_and_parameters(tmp_path):
    found = profile(tmp_path)
    assert found.num_params == 4 * (16 * 16 + 16) and found.num_blocks == 4
    assert found.flop == 3 * 4 * 2 * 16 * 16


def test_a_model_of_a_terabyte_is_planned_on_the_meta_device(tmp_path):
    found = profile(tmp_path, width=250_000)
    assert found.num_params == 4 * (250_000**2 + 250_000)


def test_a_constructor_that_reads_its_weights_gets_real_ones(tmp_path):
    assert profile(tmp_path, reads=True).num_blocks == 4
