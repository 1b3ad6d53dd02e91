"""--layout: read, checked against the number of processes, and put in the place of an older one."""

import pytest
import torch

from hemostat.cli.layout import auto_layout, check_layout, processes_of, read_layout, with_layout
from hemostat.cli.main import run as command
from hemostat.errors import FieldError


def test_it_names_its_processes():
    assert processes_of(read_layout("fsdp=2,tp=2")) == 4


TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Wide(hemostat.Task):
    optimizer: str = "adamw"
    lr: float = 0.001
    tuned_batch: int = 8
    epochs: float = 1
    width: int = 256
    def model(self):
        return torch.nn.Sequential(*(torch.nn.Linear(self.width, self.width) for _ in range(4)))
    def train_data(self): return TensorDataset(torch.zeros(64, self.width), torch.zeros(64, self.width))
    def loss(self, output, target): return (output - target).square().sum(), len(target)
"""


def test_auto_takes_copies_where_they_fit_and_shards_where_they_do_not(here):
    values = {"plan": {"cluster": "2xV100-16GB"}}
    chosen = auto_layout("line.py:Wide", None, values)
    assert chosen.axes == {"dp": 2} and chosen.micro_batch == 4
    assert chosen.sentence.startswith("layout auto: dp=2 on 2xV100-16GB, ")
    assert chosen.forecast["cluster"] == "2xV100-16GB" and chosen.forecast["step_s"] > 0
    wide = auto_layout("line.py:Wide", None, {**values, "width": 16_000})
    assert wide.axes.get("fsdp") == 2 or wide.axes.get("pp") == 2
    with pytest.raises(FieldError, match="layout='auto': nothing fits on 2xV100-16GB"):
        auto_layout("line.py:Wide", None, {**values, "width": 160_000})


@pytest.mark.skipif(torch.cuda.is_available(), reason="an accelerator is there")
def test_auto_without_an_accelerator_says_what_to_do(here):
    with pytest.raises(FieldError, match=r"needs an accelerator.*plan\.cluster"):
        auto_layout("line.py:Wide", 2, {})


def test_a_run_under_auto(here, capfd):
    words = ["line.py:Wide", "--layout", "auto", "--set", "plan.cluster=2xA100-40GB", "--no-plot"]
    assert command(["train", *words, "--set", "train.device=cpu"]) == 0
    out, err = capfd.readouterr()
    assert "note: layout auto: dp=2 on 2xA100-40GB" in err and "2 processes  done" in out


def test_auto_is_for_a_start(here, capsys):
    assert command(["train", "--resume", "last", "--layout", "auto"]) == 2
    assert "is chosen before a run starts" in capsys.readouterr().err


def test_axes_of_two_layouts_are_not_mixed():
    values = {"lr": 1.0, "train": {"seed": 3, "layout": {"fsdp": 2}}}
    assert with_layout(values, {"pp": 2}) == {"lr": 1.0, "train": {"seed": 3, "layout": {"pp": 2}}}
    assert with_layout(values, None) == values


@pytest.mark.parametrize("axes", [{"fsdp": 2}, {"fsdp": 2, "dp": 2}])
def test_another_number_of_processes_is_refused(axes):
    with pytest.raises(FieldError, match="and there are 3"):
        check_layout(3, axes)


def test_a_value_in_place_of_the_section_is_refused():
    with pytest.raises(FieldError, match="is a section, not a value"):
        check_layout(2, "fsdp")
