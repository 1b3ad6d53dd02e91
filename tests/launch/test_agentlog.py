"""Reads what torch's agent says at its end; test_local.py does it with a real agent."""

from __future__ import annotations

from hemostat.launch.agentlog import Failure, failures

LOG = """W1130 api.py:1028] Sending process 8411 closing signal SIGTERM
E1130 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 8412) of binary: python
Failures:
[1]:
  time      : 2026-11-30_11:38:56
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 8411)  (SIGTERM)
  error_file: <N/A>
[2]:
  rank      : 11 (local_rank: 3)
  exitcode  : 7 (pid: 8413)
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 8412)  (SIGKILL)
"""


def test_ranks_that_the_agent_ended_are_left_out(tmp_path):
    (tmp_path / "log").write_text(LOG)
    assert failures(tmp_path / "log") == [Failure(rank=1, code=-9), Failure(rank=11, code=7)]


def test_when_all_were_ended_all_are_named(tmp_path):
    (tmp_path / "log").write_text(LOG.replace("8412", "8411").replace("8413", "8411"))
    assert [failure.rank for failure in failures(tmp_path / "log")] == [0, 1, 11]


def test_no_log_and_a_log_without_failures(tmp_path):
    (tmp_path / "log").write_bytes(b"\xff\xfe nothing")
    assert failures(tmp_path / "log") == failures(tmp_path / "none") == []


def test_unknown_signal_numbers():
    assert Failure(rank=2, code=-63).sentence() == "rank 2 was killed by signal 63"
