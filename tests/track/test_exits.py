"""exit.<rank>.json: which rank's answer is the run's."""

from __future__ import annotations

import pytest

from hemostat.track import write_exit
from hemostat.track.exits import rank_exits, read_exit


def test_nobody_wrote(tmp_path):
    assert read_exit(tmp_path) is None


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([0, 0], 0),
        ([0, 3], 3),
        ([3, 2], 2),
        ([3, 75], 75),
        ([3, 4, 3], 4),
        ([75, 5], 5),
        ([0, 1], 1),
        ([1, 3], 3),
        ([0, 139], 139),
        ([3, 137], 137),
        ([137, 4], 4),
        ([1, 99], 1),
        ([0, 99], 99),
    ],
)
def test_most_telling_status(tmp_path, statuses, expected):
    for rank, status in enumerate(statuses):
        write_exit(tmp_path, rank, status, f"rank {rank} says {status}")
    status, why = read_exit(tmp_path)
    assert (status, why) == (expected, f"rank {statuses.index(expected)} says {expected}")


def test_of_equal_ones_the_first_in_time_speaks(tmp_path):
    write_exit(tmp_path, 1, 3, "NaN in the data")
    write_exit(tmp_path, 0, 3, "connection closed by peer")
    assert read_exit(tmp_path) == (3, "NaN in the data")


def test_a_garbled_file_hides_nothing(tmp_path):
    write_exit(tmp_path, 0, 4, "spike")
    (tmp_path / "exit.1.json").write_text("{")
    (tmp_path / "exit.2.json").write_text('{"rank": 2}')
    assert read_exit(tmp_path) == (4, "spike")
    assert set(rank_exits(tmp_path)) == {0}


def test_a_rank_may_correct_itself(tmp_path):
    write_exit(tmp_path, 0, 3, "lost a peer")
    write_exit(tmp_path, 0, 0, "")
    assert read_exit(tmp_path) == (0, "")
