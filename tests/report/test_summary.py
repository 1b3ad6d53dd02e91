import json

import pytest

from hemostat.report import draw_loss, run_summary
from hemostat.track import Recorder, create_run, load_run, update_run, write_exit

HEADER = {
    "task": {"spec": "digits.py:Digits"},
    "hardware": {"num_ranks": 2},
    "precision": "bf16",
    "batch": {"global_batch": 64, "micro_batch": 16, "accumulation": 2, "num_ranks": 2},
    "recipe": [
        {"field": "global_batch", "before": 32, "value": 64, "why": "2 x 16 x 2", "confidence": "given"},
        {
            "field": "lr",
            "before": 0.1,
            "value": 0.2,
            "why": "linear",
            "source": "1706.02677",
            "confidence": "high",
        },
        {"field": "warmup_steps", "value": 500, "why": "because", "confidence": "medium"},
    ],
    "findings": [{"code": "HR001", "message": "Half of the run is warm-up.", "fix": "Train longer."}],
}
SUMMARY = {
    "reason": "the run reached its end",
    "steps": 100,
    "skipped_steps": 2,
    "samples": 6400,
    "monitor": "val_loss",
    "best": 0.25,
    "best_step": 80,
    "final": {"val_loss": 0.26},
    "train_s": 75.0,
    "wait_share": 0.14,
    "median_wait_s": 0.0002,
    "p99_wait_s": 0.31,
    "longest_wait_s": 1.2,
    "waited": "input-bound: 14 % of the run waited for data",
    "usd": 0.5,
}


@pytest.fixture
def run(tmp_path):
    def make(**changes):
        path = create_run(tmp_path, "a-run", {**HEADER, "summary": {**SUMMARY, **changes}})
        with Recorder(path, 0) as recorder:
            for step in range(100):
                recorder.log(step, 64 * step, {"loss": 3.0 - step / 50})
        write_exit(path, 0, 0, "")
        return load_run(tmp_path, "a-run")

    return make


def test_the_summary_is_read_in_a_minute(run):
    record = run()
    draw_loss(record)
    lines = run_summary(record).splitlines()
    assert len(lines) <= 12
    assert lines[0] == "run      a-run  digits.py:Digits  2 processes  done"
    assert lines[1] == "recipe   batch 32 -> 64 (2 x 16 x 2)  lr 0.1 -> 0.2  warm-up 500 steps  bf16"
    assert lines[2].endswith(" 3 highest") and lines[4].endswith(" 1.02 lowest")
    assert lines[5] == "best     val_loss 0.2500 at step 80  (last: val_loss 0.2600)"
    assert lines[6] == "stopped  step 100, 2 skipped: the run reached its end"
    assert (
        lines[7] == "time     1m15s; input-bound: 14 % of the run waited for data "
        "(median 200.0 us, p99 310.0 ms, longest 1.2 s)"
    )
    assert lines[8] == "spent    cost $0.50" and lines[3].endswith("a-run/loss.png")
    assert lines[9] == f"next     hemostat runs show a-run --runs {record.path.parent} --why"


def test_an_input_bound_run_says_the_one_thing_to_do_next_and_stays_short(run):
    record = run(feed_hint="store the samples decoded", critical_batch=900.0)
    update_run(record.path, baselines={"bigram": 3.9})
    draw_loss(record)
    lines = run_summary(load_run(record.path.parent, "a-run")).splitlines()
    assert len(lines) == 12
    command = "hemostat data probe digits.py:Digits measures the gains"
    assert lines[-1] == f"next     store the samples decoded; {command}"
    update_run(record.path, task={})  # a plain loop has no task file
    assert "hemostat.data.Source(your_data).probe(micro_batch)" in run_summary(
        load_run(record.path.parent, "a-run")
    )


def test_what_evaluations_waited_stands_beside_what_training_did(run):
    text = run_summary(run(eval_waited="evaluations waited for their data for 20.0 s, 27% of the run"))
    assert "longest 1.2 s); evaluations waited for their data for 20.0 s, 27% of the run\n" in text


def test_the_bill_says_on_what_and_what_came_after_the_best_point(run):
    spent = {"training": 79.8, "evaluation": 10.0, "checkpoints": 0.2, "data": 6.0, "start": 4.0, "lost": 0.0}
    said = "spent    1m40s: training 80%, evaluation 10%, waiting for data 6%, start-up 4%; "
    record = run(spent_s=100.0, spent=spent, after_best_s=25.0, usd_after_best=0.1)
    assert f"{said}cost $0.50, $0.10 of it after the best point" in run_summary(record)
    record = run_again(record, usd=None, spent_s=100.0, spent=spent, after_best_s=25.0)
    assert f"{said}cost not known (--set train.usd_per_hour=3.2); 25.0 s after" in run_summary(record)


def test_a_record_of_an_older_version_has_only_the_longest_wait(run):
    record = run()
    old = {name: value for name, value in SUMMARY.items() if name not in ("median_wait_s", "p99_wait_s")}
    update_run(record.path, summary=old)
    assert "waited for data (longest 1.2 s)" in run_summary(load_run(record.path.parent, "a-run"))


def test_baselines_stand_beside_the_best_value(run):
    record = run()
    update_run(record.path, baselines={"bigram": 3.9871, "xz -9": 2.1})
    draw_loss(record)
    lines = run_summary(load_run(record.path.parent, "a-run")).splitlines()
    assert lines[6] == "against  bigram 3.987  xz -9 2.1"
    assert len(lines) <= 12


def test_figures_that_are_not_finite_are_shown_as_they_are(run):
    text = run_summary(run(best=float("inf"), final={"val_loss": float("nan")}))
    assert "best     val_loss inf at step 80  (last: val_loss nan)" in text


def test_unknowns_are_said_not_guessed(run):
    record = run(best=None, usd=None)
    assert "not judged before the run ended" in run_summary(record) and "cost not known" in run_summary(
        record
    )
    update_run(record.path, data={"num_val_samples": 0})
    assert "not judged: the task has no val_data" in run_summary(load_run(record.path.parent, "a-run"))
    assert "val_loss was never a finite number" in run_summary(run_again(record, num_evaluations=3))


def run_again(record, **changes):
    update_run(record.path, summary={**SUMMARY, "best": None, **changes})
    return load_run(record.path.parent, "a-run")


def test_why_adds_reason_confidence_source_and_findings(run):
    text = run_summary(run(), why=True)
    assert "lr = 0.2 (high): linear  [1706.02677]" in text
    assert "HR001 Half of the run is warm-up. Train longer." in text


def test_json(run):
    assert json.loads(run_summary(run(), as_json=True))["best_step"] == 80


def test_a_run_without_any_step(tmp_path):
    path = create_run(tmp_path, "empty", {"task": {"spec": "t.py:T"}})
    update_run(path, hardware={"num_ranks": 1})
    write_exit(path, 0, 3, "no memory")
    record = load_run(tmp_path, "empty")
    assert draw_loss(record) is None
    lines = run_summary(record).splitlines()
    assert lines[0].endswith("1 process  failed") and "nothing was recorded" in lines[2]
