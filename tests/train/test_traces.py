"""A job's notes come back as they were."""

from __future__ import annotations

from hemostat.train.traces import Job, StepTrace, Trace, read_job, write_job


def test_notes_come_back(tmp_path):
    step = StepTrace(
        samples=4,
        rows=["a", "b"],
        loss_sum=0.1 + 0.2,
        count=2.0,
        pieces=1,
        gradients={"w": [1.0, 2.0, 3.0, 4.0, 5.0]},
        gradient_digest="g",
        rates=[1e-3],
        weights={},
        digests=["x", "y"],
    )
    job = Job(
        traces={"plain": Trace(steps=[step], metrics={"val_loss": 1e-300})}, samples=4, dropouts=["drop"]
    )
    write_job(job, tmp_path)
    assert read_job(tmp_path) == job
