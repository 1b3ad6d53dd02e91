"""What every launch backend must do; an implementation subclasses `BackendContract`."""

from __future__ import annotations

import os
import sys
import time

import pytest

from hemostat.launch import BACKENDS, Job
from hemostat.launch.backend import needs
from hemostat.launch.hang_watch import is_alive
from hemostat.track import create_run, new_run_id


def until(holds) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def ended(started) -> int:
    until(lambda: started.poll() is not None)
    return started.poll()


class BackendContract:
    """Subclasses name the backend and may lower `num_ranks` to what it can run in a test."""

    name: str
    num_ranks = 2

    @pytest.fixture
    def place(self):
        return BACKENDS[self.name]

    @pytest.fixture
    def job(self, tmp_path):
        def make(code: str, **change) -> Job:
            run_id = new_run_id()
            run_dir = create_run(tmp_path / "runs", run_id, {"command": [code]})
            command = (sys.executable, "-c", code, str(run_dir))
            return Job(
                **{
                    "command": command,
                    "num_ranks": self.num_ranks,
                    "run_id": run_id,
                    "run_dir": run_dir,
                    **change,
                }
            )

        return make

    def test_it_is_listed_under_its_name(self, place):
        assert place.name == self.name
        assert place.cannot <= {"several ranks", "restarts", "port"}

    def test_every_rank_runs_once_with_the_ids(self, place, job):
        wanted = job(
            "import os, sys, pathlib\n"
            "names = ('WORLD_SIZE', 'HEMOSTAT_RUN_ID', 'HEMOSTAT_RUN_DIR', 'EXTRA')\n"
            "said = ' '.join(os.environ.get(name, '-') for name in names)\n"
            "with (pathlib.Path(sys.argv[1]) / ('rank' + os.environ['RANK'])).open('a') as f: f.write(said)\n",
            env={"EXTRA": "1"},
        )
        assert place.run(wanted) == 0
        said = f"{self.num_ranks} {wanted.run_id} {wanted.run_dir.resolve()} 1"
        written = {path.name: path.read_text() for path in wanted.run_dir.glob("rank*")}
        assert written == {f"rank{rank}": said for rank in range(self.num_ranks)}

    def test_the_launchers_environment_is_left_alone(self, place, job):
        before = dict(os.environ)
        place.run(job("pass", env={"EXTRA": "1"}))
        assert dict(os.environ) == before

    def test_what_the_ranks_wrote_is_the_answer(self, place, job):
        code = (
            "import os, sys, pathlib; from hemostat.track import write_exit\n"
            "write_exit(pathlib.Path(sys.argv[1]), int(os.environ['RANK']), 4, 'a spike'); sys.exit(4)\n"
        )
        assert place.run(job(code)) == 4

    def test_the_answer_of_an_earlier_attempt_is_forgotten(self, place, job):
        wanted = job("import sys; sys.exit(9)")
        (wanted.run_dir / "exit.7.json").write_text('{"rank": 7, "status": 75, "why": "saved", "time": 1}')
        assert place.run(wanted) == 3

    def test_a_failing_rank_is_named(self, place, job, capfd):
        wanted = job("import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(60)")
        if wanted.num_ranks < 2:
            pytest.skip("needs two ranks")
        assert place.run(wanted) == 3
        assert "rank 1 exited with status 7" in capfd.readouterr().err

    def test_a_start_does_not_wait_and_the_status_comes_later(self, place, job):
        wanted = job(
            "import pathlib, sys, time\n"
            "go = pathlib.Path(sys.argv[1]) / 'go'\n"
            "while not go.exists(): time.sleep(0.01)\n"
            "print('went', flush=True)\n"
        )
        started = place.start(wanted)
        assert started.poll() is None
        (wanted.run_dir / "go").touch()
        assert ended(started) == 0
        assert (wanted.run_dir / "output.log").read_text().count("went") == self.num_ranks

    def test_a_started_job_that_is_asked_to_end_may_save(self, place, job):
        wanted = job(
            "import os, pathlib, signal, sys, time\n"
            "from hemostat.track import write_exit\n"
            "def leave(*_):\n"
            "    write_exit(pathlib.Path(sys.argv[1]), int(os.environ['RANK']), 75, 'saved')\n"
            "    sys.exit(75)\n"
            "signal.signal(signal.SIGTERM, leave)\n"
            "(pathlib.Path(sys.argv[1]) / ('up' + os.environ['RANK'])).touch()\n"
            "time.sleep(60)\n"
        )
        started = place.start(wanted)
        until(lambda: len(list(wanted.run_dir.glob("up*"))) == self.num_ranks)
        started.end()
        assert ended(started) == 75

    def test_a_started_job_can_be_killed(self, place, job):
        wanted = job(
            "import os, pathlib, signal, sys, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "(pathlib.Path(sys.argv[1]) / ('up' + str(os.getpid()))).touch()\n"
            "time.sleep(60)\n"
        )
        started = place.start(wanted)
        until(lambda: len(list(wanted.run_dir.glob("up*"))) == self.num_ranks)
        started.end(now=True)
        assert ended(started) == 3
        until(lambda: not any(is_alive(int(path.name[2:])) for path in wanted.run_dir.glob("up*")))

    def test_nothing_that_it_cannot_do_is_started(self, place, job):
        wanted = job("pass", port=1, max_restarts=1)
        if needs(wanted) & place.cannot:
            with pytest.raises(Exception, match="cannot do"):
                place.run(wanted)
            with pytest.raises(Exception, match="cannot do"):
                place.start(wanted)


class TestLocal(BackendContract):
    name = "local"
