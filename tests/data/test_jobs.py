"""A planned micro-batch becomes a fetched one with the same numbers."""

import torch

from hemostat.data.jobs import Job, MicroBatch


def test_a_job_keeps_its_numbers():
    job = Job(torch.tensor([4]), epoch=2, num_samples=0, window_samples=3, last=True, position=63)
    assert job.filled("data") == MicroBatch("data", num_samples=0, window_samples=3, last=True, position=63)
