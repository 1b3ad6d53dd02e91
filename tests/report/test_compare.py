import json
import math

import pytest
from matplotlib import image

from hemostat.errors import UsageError
from hemostat.report import Comparison
from hemostat.track import Recorder, create_run, fingerprint, load_run, update_run, write_exit


def make(root, run_id, *, lr, batch, points, monitor="val_loss", **fields):
    path = create_run(root, run_id, {})
    with Recorder(path, 0) as recorder:
        for samples, value in points:
            recorder.log(samples // batch, samples, {"val_loss": value, "loss": value + 1})
    update_run(
        path,
        task={"spec": "digits.py:Digits", "values": {"lr": 0.1, "width": 64}},
        recipe=[{"field": "lr", "value": lr}, {"field": "global_batch", "before": 32, "value": batch}],
        hyper_parameters={"tuned_batch": batch},  # the recipe's outcome, written as if it had been tuned so
        seed=0,
        summary={
            "monitor": monitor,
            "best": min(value for _, value in points),
            "train_s": 60.0 * batch,
            "usd": 0.5,
        },
        **fields,
    )
    write_exit(path, 0, 0, "")
    return load_run(root, run_id)


@pytest.fixture
def pair(tmp_path):
    first = make(tmp_path, "first", lr=0.1, batch=32, points=[(320, 2.0), (640, 1.0), (1280, 0.5)])
    second = make(tmp_path, "second", lr=0.2, batch=64, points=[(640, 1.5), (1280, 0.75), (2560, 0.25)])
    return [first, second]


def test_what_differs_and_how_they_did_at_equal_samples(pair):
    compared = Comparison(pair).values
    assert compared["differ"] == {"lr": [0.1, 0.2], "global_batch": [32, 64]}
    assert compared["metric"] == "val_loss"
    assert compared["at"] == [
        {"samples": 640, "values": [1.0, 1.5]},
        {"samples": 1280, "values": [0.5, 0.75]},
    ]
    assert compared["best"] == [0.5, 0.25] and compared["final"] == [0.5, 0.25]
    assert compared["samples"] == [1280, 2560]


def test_what_was_given_for_tuned_batch_is_compared_not_what_follows_from_the_batch(pair):
    assert "tuned_batch" not in Comparison(pair).values["differ"]
    pair[1].header["recipe"][1]["before"] = 16
    assert Comparison(pair).values["differ"]["tuned_batch"] == [32, 16]


def test_a_run_is_not_compared_with_itself(pair):
    with pytest.raises(UsageError, match=r"run first is named twice\. Name each run once"):
        Comparison([pair[0], pair[1], pair[0]])


def test_the_table(pair):
    pair[1].add_evaluation(
        "e", {"split": "test", "figures": {"test_loss": {"value": 0.3, "standard_error": 0.02}}}
    )
    assert Comparison(pair).lines() == [
        "                   first   second",
        "lr                 0.1     0.2",
        "global_batch       32      64",
        "val_loss at 640    1       1.5",
        "val_loss at 1.28k  0.5     0.75",
        "best val_loss      0.5     0.25",
        "test_loss                  0.300 ± 0.020",
        "samples            1.28k   2.56k",
        "time               32m00s  1h04m",
        "cost               $0.50   $0.50",
    ]


def test_many_differences_are_counted(tmp_path):
    points = [(32, 1.0)]
    runs = [
        make(tmp_path, name, lr=0.1, batch=32, points=points, settings={f"s{i}": number for i in range(7)})
        for number, name in enumerate(("a", "b"))
    ]
    short, full = Comparison(runs).lines(), Comparison(runs).lines(full=True)
    assert short[-1] == "and 2 more values differ: --why" and len(short) == 12
    assert sum(line.startswith("train.s") for line in full) == 7


def test_equal_runs_and_runs_that_say_little(tmp_path):
    same = [make(tmp_path, name, lr=0.1, batch=32, points=[(32, math.nan)]) for name in ("a", "b")]
    assert Comparison(same).lines()[-1] == "no recorded value differs"
    json.dumps(Comparison(same).values, allow_nan=False)
    for name in ("bare", "bald"):
        create_run(tmp_path, name, {"note": "by hand", "recipe": ["x"], "hardware": 3, "task": "loop"})
    bare, bald = load_run(tmp_path, "bare"), load_run(tmp_path, "bald")
    lines = Comparison([same[0], bare, bald]).lines()
    assert "bare" in lines[0] and any("digits.py" in line for line in lines)
    with pytest.raises(UsageError, match="two runs"):
        Comparison([bare])
    with pytest.raises(UsageError, match="nothing to draw"):
        Comparison([bare, bald]).draw(tmp_path / "x.png")


def test_the_picture_has_a_line_for_each_run(pair, tmp_path):
    path = Comparison(pair).draw(tmp_path / "compare.png")
    pixels = image.imread(path)[..., :3].reshape(-1, 3)
    for colour in ([31, 119, 180], [255, 127, 14]):  # matplotlib's first two
        assert (abs(pixels * 255 - colour).max(axis=1) < 2).sum() > 100


def with_data(root, run_id, content, tiers=("sample", "full")):
    found = {tier: fingerprint(list(content.items()), tier) for tier in tiers}
    digests = {tier: one.digest for tier, one in found.items()}
    data = {"tier": tiers[-1], "digest": digests[tiers[-1]], "digests": digests}
    run = make(root, run_id, lr=0.1, batch=32, points=[(320, 2.0)], data=data)
    for one in found.values():
        run.add_fingerprint(one)
    return run


def test_the_shard_that_differs_is_named(tmp_path):
    shards = {f"train-{number:04}.bin": b"same" for number in range(9)}
    first = with_data(tmp_path, "first", shards)
    second = with_data(tmp_path, "second", shards | {"train-0003.bin": b"other"})
    compared = Comparison([first, second])
    assert set(compared.values["differ"]) == {"data"}
    (line,) = [line for line in compared.lines() if "shard" in line]
    assert line == "data of second against first: shard train-0003.bin differs: 5 bytes, 4 before"
    many = with_data(tmp_path, "many", dict.fromkeys(shards, b"new!"))
    lines = Comparison([first, many]).lines()
    assert lines[-1] == "and 4 more lines about shards: --why" and len(lines) <= 12
    assert Comparison([first, many]).lines(full=True)[-1].endswith("and 5 more shards")


def test_only_equal_tiers_are_compared(tmp_path):
    shards = {"a.bin": b"same"}
    both = with_data(tmp_path, "both", shards)
    early = with_data(tmp_path, "early", shards, tiers=("sample",))
    assert Comparison([both, early]).values["differ"] == {}
    late = with_data(tmp_path, "late", shards, tiers=("full",))
    values = Comparison([early, late]).values["differ"]["data"]
    assert values[0].endswith(" (sample)") and values[1].endswith(" (full)")
