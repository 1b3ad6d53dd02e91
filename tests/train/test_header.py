import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import hemostat
from hemostat.data import Source
from hemostat.train.data_watch import DataWatch
from hemostat.train.header import data_fingerprint, hash_data


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


def test_what_cannot_be_read_is_said_to_be_declared():
    assert data_fingerprint(Silent(), Source(Rows())) == {
        "tier": "declared",
        "num_samples": 5,
        "type": "Rows",
    }


def test_a_task_can_name_its_data():
    assert data_fingerprint(Told(), Source(Rows()))["tier"] == "full"


def test_a_header_is_ready_before_its_data_are_read():
    watch = hash_data(Silent(), Source(TensorDataset(torch.arange(6.0))), num_val_samples=2)
    assert isinstance(watch, DataWatch)
    assert watch.known == {
        "tier": "declared",
        "num_samples": 6,
        "type": "TensorDataset",
        "num_val_samples": 2,
    }
    assert hash_data(Silent(), Source(Rows()))["tier"] == "declared"


def test_the_fingerprint_of_hugging_face_stands_beside_ours():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": [1, 2]})
    found = data_fingerprint(Silent(), Source(table))
    assert found["tier"] == "full" and found["huggingface"] == table._fingerprint
    assert "files" not in found
