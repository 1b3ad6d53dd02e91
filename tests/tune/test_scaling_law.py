"""The law on a case whose answer is known, and on the Step-Law runs, leaving the larger sizes out."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import pytest

from hemostat.errors import FieldError
from hemostat.tune.scaling_law import SmallRun, read_runs, rows_to_runs, start_from
from hemostat.tune.space import Choice, Real, Space

STEPLAW = (
    Path(__file__).parents[2].parent / "shared" / "data" / "tune" / "steplaw" / "dense_lr_bs_loss.csv.gz"
)
NUM_WORKERS = 5
NUM_SMALLEST = 4  # sizes that are there before the first is foretold


def small_runs(sizes) -> list[SmallRun]:
    runs = []
    for num_params, num_tokens in sizes:
        best_lr, best_batch = 10 * num_params**-0.5 * num_tokens**0.1, num_tokens**0.5 / 100
        for up in range(-4, 5):
            for more in range(-3, 4):
                loss = 3 + 0.01 * (up**2 + more**2)
                lr, batch = best_lr * 1.4**up, best_batch * 1.4**more
                runs.append(
                    SmallRun(num_params=num_params, num_tokens=num_tokens, lr=lr, batch=batch, loss=loss)
                )
    return runs


def test_a_power_law_is_found_again():
    start = start_from(small_runs([(1e7, 1e9), (1e8, 1e9), (3e7, 3e9), (1e8, 1e10)]), 1e9, 1e11)
    assert start.lr == pytest.approx(10 * 1e9**-0.5 * 1e11**0.1, rel=0.01)
    assert start.batch == pytest.approx(1e11**0.5 / 100, rel=0.01)
    assert start.lr_factor == pytest.approx(math.exp(0.35))


def test_one_size_of_model_is_enough_where_the_data_grow():
    start = start_from(small_runs([(1e8, 1e9), (1e8, 3e9), (1e8, 1e10)]), 1e8, 1e11)
    assert start.batch == pytest.approx(1e11**0.5 / 100, rel=0.01)


def test_scatter_and_distance_make_doubt():
    runs = small_runs([(1e7, 1e9), (3e7, 1e9), (1e8, 1e9), (3e8, 1e9)])
    moved = [
        SmallRun(**{**{name: getattr(run, name) for name in run.__struct_fields__}, "lr": run.lr * 3})
        if run.num_params == 3e7
        else run
        for run in runs
    ]
    near, far = start_from(moved, 3e8, 1e9), start_from(moved, 1e11, 1e9)
    assert far.lr_factor > near.lr_factor > start_from(runs, 3e8, 1e9).lr_factor


def test_the_first_round_is_in_the_space():
    space = Space((Real("lr", 1e-4, 1e-2), Choice("batch", (512, 1024, 2048)), Choice("kind", ("a", "b"))))
    found = start_from(small_runs([(1e8, 1e9), (1e8, 3e9), (1e9, 1e10)]), 1e9, 1e10).configs(space, 5)
    assert len({space.key(config) for config in found}) == 5
    assert all(space.allows(config) for config in found)


def test_too_little_and_wrong_input(tmp_path):
    with pytest.raises(FieldError, match="too few for a law"):
        start_from(small_runs([(1e8, 1e9), (1e8, 3e9)]), 1e9, 1e10)
    with pytest.raises(FieldError, match=r"row 1\.lr=None"):
        rows_to_runs([{"num_params": 1, "num_tokens": 1}])
    with pytest.raises(FieldError, match="above 0"):
        rows_to_runs([{"num_params": 1, "num_tokens": 1, "lr": 0, "batch": 1, "loss": 1}])
    with pytest.raises(FieldError, match="cannot be read"):
        read_runs(tmp_path / "absent.csv")
    with pytest.raises(FieldError, match="no 'lr'"):
        start = start_from(small_runs([(1e8, 1e9), (1e8, 3e9), (1e9, 1e10)]), 1e9, 1e10)
        start.configs(Space((Choice("batch", (1, 2)),)), 5)


def test_a_csv_is_read_and_a_run_that_diverged_is_left_out(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("num_params,num_tokens,lr,batch,loss,note\n1e7,1e9,0.1,32,2.5,x\n1e7,1e9,1,32,nan,y\n")
    assert read_runs(path) == [SmallRun(num_params=1e7, num_tokens=1e9, lr=0.1, batch=32, loss=2.5)]


@pytest.mark.skipif(not STEPLAW.exists(), reason="the Step-Law runs are not on this machine")
def test_sizes_of_step_law_from_the_smaller_ones():
    """Measured: 13 of 13 within 0.1 % of the grid's best in the first round of 5; 13 within 0.2 % at once."""
    with gzip.open(STEPLAW, "rt", encoding="utf-8") as lines:
        rows = [
            {
                "num_params": row["N"],
                "num_tokens": row["D"],
                "lr": row["lr"],
                "batch": row["bs"],
                "loss": loss,
            }
            for row in csv.DictReader(lines)
            if (loss := row["smooth loss"])
        ]
    grids: dict[tuple[float, float], dict[tuple[float, float], float]] = {}
    runs = rows_to_runs(rows)
    for run in runs:
        cells = grids.setdefault((run.num_params, run.num_tokens), {})
        cells[run.lr, run.batch] = min(run.loss, cells.get((run.lr, run.batch), math.inf))
    sizes = sorted(grids, key=math.prod)
    first, best = [], []
    for place in range(NUM_SMALLEST, len(sizes)):
        cells = grids[sizes[place]]
        known = [run for run in runs if (run.num_params, run.num_tokens) in sizes[:place]]
        levels = [tuple(sorted({cell[axis] for cell in cells})) for axis in (0, 1)]
        space = Space((Choice("lr", levels[0]), Choice("batch", levels[1])))
        round_one = start_from(known, *sizes[place]).configs(space, 3 * NUM_WORKERS)
        losses = [cells[cell] for config in round_one if (cell := (config["lr"], config["batch"])) in cells]
        gaps = [loss / min(cells.values()) - 1 for loss in losses[:NUM_WORKERS]]
        first.append(gaps[0])
        best.append(min(gaps))
    assert len(best) == 13
    assert sum(gap <= 0.001 for gap in best) >= 12
    assert max(first) <= 0.005
