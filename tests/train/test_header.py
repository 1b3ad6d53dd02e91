import numpy as np
import torch
from torch.utils.data import TensorDataset

import hemostat
from hemostat.data import Source
from hemostat.train.header import data_fingerprint, plain_or_text


class Silent(hemostat.Task):
    pass


class Told(hemostat.Task):
    def fingerprint(self):
        return [b"version 3"]


class Rows:
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return np.zeros(1)


def test_tensors_in_memory_are_read_in_full():
    first, second = torch.arange(6.0), torch.arange(6.0)
    second[3] += 1e-3
    digests = [
        data_fingerprint(Silent(), Source(TensorDataset(tensor))) for tensor in (first, first.clone(), second)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0]["tier"] == "full" and digests[0]["num_samples"] == 6


def test_a_value_that_json_cannot_hold_is_kept_as_text():
    assert plain_or_text(torch.float16) == "torch.float16"
    assert plain_or_text((1, 2)) == (1, 2)


def test_what_cannot_be_read_is_said_to_be_declared():
    assert data_fingerprint(Silent(), Source(Rows())) == {
        "tier": "declared",
        "num_samples": 5,
        "type": "Rows",
    }


def test_a_task_can_name_its_data():
    assert data_fingerprint(Told(), Source(Rows()))["tier"] == "full"
