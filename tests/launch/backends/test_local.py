"""The local backend with real processes: gloo, killed ranks, signals, ports, orphans."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest

from hemostat.errors import EnvironmentFailure
from hemostat.launch import Job, backend
from hemostat.launch.backends import local
from hemostat.launch.ports import choose_port
from hemostat.track import create_run, load_run
from hemostat.track.attempts import LAUNCHED
from hemostat.track.exits import read_exit

GLOO = r"""
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(x)
os.write(1, f"sum {x.item()} threads {os.environ['OMP_NUM_THREADS']}\n".encode())
os.write(2, b"a word on stderr\n")
dist.barrier()
if "kill" in sys.argv and dist.get_rank() == 1: os.kill(os.getpid(), 9)
if "kill" in sys.argv: dist.all_reduce(x)
dist.destroy_process_group()
"""
# two lines per rank when it is up, then it waits; on SIGTERM or SIGINT it says so and leaves with 75
PATIENT = """
import os, pathlib, signal, sys, time
from hemostat.track import write_exit
folder, rank = pathlib.Path(sys.argv[1]), os.environ.get("RANK", "0")
def leave(number, frame):
    with (folder / f"got.{rank}").open("a") as file: file.write(signal.Signals(number).name + "\\n")
    if "stubborn" in sys.argv: return
    write_exit(folder, int(rank), 75, "saved after a signal")
    sys.exit(75)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, leave)
(folder / f"pid.{rank}.part").write_text(str(os.getpid()))
(folder / f"pid.{rank}.part").rename(folder / f"pid.{rank}")
for _ in range(600): time.sleep(0.1)
"""
# one write per line: the lines of two ranks must not mix
PRINT_PORT = r"import os; os.write(1, os.environ['MASTER_PORT'].encode() + b'\n')"
LAUNCHER = """
import sys; from pathlib import Path; from hemostat.launch import Job, backend
run_dir, num_ranks, command = Path(sys.argv[1]), int(sys.argv[2]), tuple(sys.argv[3:])
sys.exit(backend("local").run(Job(command=command, num_ranks=num_ranks, run_id="r", run_dir=run_dir)))
"""


def job(folder, code, *words, **change):
    command = (sys.executable, "-c", textwrap.dedent(code), *words)
    return Job(**{"command": command, "num_ranks": 2, "run_id": "r", "run_dir": folder / "r", **change})


def run(wanted):
    return backend("local").run(wanted)


@pytest.fixture
def launched(tmp_path):
    """Start PATIENT under a launching process of its own; gives (process, run directory, ranks' pids)."""
    started = []

    def start(num_ranks, *words):
        run_dir = tmp_path / "r"
        run_dir.mkdir()
        rank = [sys.executable, "-c", PATIENT, str(run_dir), *words]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(run_dir), str(num_ranks), *rank],
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        files = [run_dir / f"pid.{number}" for number in range(num_ranks)]
        wait_until(lambda: all(file.exists() for file in files))
        return process, run_dir, [int(file.read_text()) for file in files]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_until(condition, limit_s=30.0):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_two_ranks_of_gloo(tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    assert run(job(tmp_path, GLOO)) == 0
    out, err = capfd.readouterr()
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert out == f"sum 3.0 threads {threads}\n" * 2
    assert err == "a word on stderr\n" * 2
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_killed_rank_is_named_and_the_agents_words_are_kept_away(tmp_path, capfd):
    start = time.monotonic()
    assert run(job(tmp_path, GLOO, "kill", env={"OMP_NUM_THREADS": "1"})) == 3
    assert time.monotonic() - start < 60
    err = capfd.readouterr().err
    assert "rank 1 was killed by SIGKILL" in err.splitlines()[-1]
    assert "elastic" not in err
    assert read_exit(tmp_path / "r")[0] == 128 + 9
    assert "ChildFailedError" in (tmp_path / "r" / "launcher.log").read_text()


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_sigterm_reaches_every_rank_once(launched, num_ranks):
    process, run_dir, pids = launched(num_ranks)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 75
    assert [(run_dir / f"got.{rank}").read_text() for rank in range(num_ranks)] == ["SIGTERM\n"] * num_ranks
    assert not any(map(alive, pids))


def test_ctrl_c_twice_ends_ranks_that_do_not_listen(launched):
    process, run_dir, pids = launched(2, "stubborn")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: (run_dir / "got.1").exists() and (run_dir / "got.0").exists())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 3
    assert "killed after a second signal" in process.stderr.read()
    wait_until(lambda: not any(map(alive, pids)), limit_s=5)


def test_ranks_that_do_not_listen_are_killed_after_the_grace(tmp_path):
    (tmp_path / "r").mkdir()
    words = [
        sys.executable,
        "-c",
        LAUNCHER.replace('run_id="r"', 'run_id="r", grace_s=1'),
        str(tmp_path / "r"),
        "2",
    ]
    process = subprocess.Popen([*words, sys.executable, "-c", PATIENT, str(tmp_path / "r"), "stubborn"])
    wait_until(lambda: (tmp_path / "r" / "pid.0").exists() and (tmp_path / "r" / "pid.1").exists())
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 3
    assert 0.9 < time.monotonic() - start < 15


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the leash is a Linux call")
def test_no_orphans_when_the_agent_is_killed(launched):
    process, run_dir, pids = launched(2, "stubborn")
    agent = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(agent, signal.SIGKILL)
    assert process.wait(timeout=10) == 3
    assert process.stderr.read().startswith("error: torch's launcher was killed by SIGKILL")
    wait_until(lambda: not any(map(alive, pids)), limit_s=5)
    assert read_exit(run_dir)[0] == 128 + 9


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the leash is a Linux call")
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_no_orphans_when_the_launcher_is_killed(launched, num_ranks):
    process, _, pids = launched(num_ranks, "stubborn")
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(alive, pids)), limit_s=5)


def test_a_signal_before_the_ranks_exist(tmp_path):
    words = [
        sys.executable,
        "-c",
        LAUNCHER,
        str(tmp_path / "r"),
        "2",
        sys.executable,
        "-c",
        "import time; time.sleep(60)",
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (tmp_path / "r" / "launcher.log").exists())
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=30)[1]
    assert process.returncode == 3
    assert err == "error: ended by SIGINT; nothing says that the run was saved.\n"


def test_a_port_in_use_is_named_before_anything_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(EnvironmentFailure, match=f"port={port}: is in use"):
            run(job(tmp_path, "open('started', 'w')", port=port))
    assert not (tmp_path / "r").exists()


def test_a_port_that_is_lost_on_the_way_is_replaced(tmp_path, monkeypatch, capfd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = iter([server.getsockname()[1]])
        monkeypatch.setattr(local, "choose_port", lambda wanted: next(ports, None) or choose_port(wanted))
        assert run(job(tmp_path, r"import os; os.write(1, b'ran\n')")) == 0
    assert capfd.readouterr().out == "ran\nran\n"
    assert load_run(tmp_path, "r").exit == (0, "")


def test_a_wanted_port_is_used(tmp_path, capfd):
    port = choose_port(None)
    assert run(job(tmp_path, PRINT_PORT, port=port)) == 0
    assert capfd.readouterr().out == f"{port}\n" * 2


def test_restarts(tmp_path, capfd):
    code = """
    import os, pathlib, sys
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0": sys.exit(1)
    os.write(1, b"ran " + os.environ["TORCHELASTIC_RESTART_COUNT"].encode() + b"\\n")
    """
    assert run(job(tmp_path, code, max_restarts=1)) == 0
    assert capfd.readouterr().out.count("ran 1\n") == 2


FAILS_OR_DECIDES = """
import os, pathlib, sys
from hemostat.track import write_exit
run_dir, count = pathlib.Path(os.environ["HEMOSTAT_RUN_DIR"]), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
os.write(1, b"ran " + count.encode() + b"\\n")
status = [int(status) for status in STATUSES][int(count)]
if status:
    write_exit(run_dir, int(os.environ.get("RANK", "0")), status, f"ended with {status}")
sys.exit(status)
"""


@pytest.mark.parametrize(
    ("num_ranks", "statuses", "ended", "num_starts"),
    [
        (1, [3, 3, 0], 0, 3),
        (1, [3, 3, 3], 3, 3),
        (2, [3, 0], 0, 2),
        (1, [2], 2, 1),
        (1, [4], 4, 1),
        (1, [3, 5], 5, 2),
        (2, [75], 75, 1),
    ],
)
def test_restarts_follow_failures_and_no_decision(tmp_path, capfd, num_ranks, statuses, ended, num_starts):
    code = FAILS_OR_DECIDES.replace("STATUSES", repr(statuses))
    assert run(job(tmp_path, code, num_ranks=num_ranks, max_restarts=2)) == ended
    out, err = capfd.readouterr()
    # the agent may end a rank before it has said so
    assert num_starts <= out.count("ran ") <= num_starts * num_ranks and f"ran {num_starts}" not in out
    assert err.count("note: all ranks start again") == num_starts - 1
    assert err.count("error: ended with 3\n") == num_starts - 1


def test_a_restart_keeps_its_reason_and_what_it_costs(tmp_path):
    code = """
    import os, pathlib, sys, time
    from hemostat.track import Recorder, write_exit
    from hemostat.track.attempts import since_launch
    run_dir = pathlib.Path(os.environ["HEMOSTAT_RUN_DIR"])
    if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "1":
        (run_dir / "since").write_text(str(since_launch()))
        sys.exit(0)
    with Recorder(run_dir, 0) as recorder:
        recorder.log(1, 8, {"loss": 1.0})
    time.sleep(1.5)  # as a hang
    write_exit(run_dir, 0, 3, "sample 7 is broken")
    sys.exit(3)
    """
    wanted = job(tmp_path, code, num_ranks=1, max_restarts=1)
    create_run(tmp_path, "r", {"kind": "train"})
    started_s = time.monotonic()
    launched = {LAUNCHED: str(started_s - 1000)}
    assert run(msgspec.structs.replace(wanted, records=True, env=launched)) == 0
    assert 1.5 <= float((tmp_path / "r" / "since").read_text()) <= time.monotonic() - started_s
    (restart,) = load_run(tmp_path, "r").header["restarts"]
    assert restart["why"] == "sample 7 is broken"


def test_two_runs_at_once(tmp_path):
    words = [sys.executable, "-c", LAUNCHER]
    rank = [sys.executable, "-c", PRINT_PORT]
    runs = [
        subprocess.Popen([*words, str(tmp_path / name), "2", *rank], stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    ports = [process.communicate(timeout=60)[0].split() for process in runs]
    assert [process.returncode for process in runs] == [0, 0]
    assert len(set(ports[0]) | set(ports[1])) == 2


def test_one_run_directory_has_one_launcher(launched):
    _, run_dir, _ = launched(1)
    with pytest.raises(EnvironmentFailure, match="another process is running this run"):
        run(job(run_dir.parent, "pass", num_ranks=1))


def test_run_directories_that_cannot_be_written(tmp_path):
    with pytest.raises(EnvironmentFailure, match="run_dir='/proc/r': cannot be written"):
        run(job(Path("/proc"), "pass"))
    (tmp_path / "r").write_text("")
    with pytest.raises(EnvironmentFailure, match="cannot be written"):
        run(job(tmp_path, "pass"))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import sys; sys.exit(7)", "error: rank 0 exited with status 7; what it said stands above.\n"),
        ("import os; os.kill(os.getpid(), 11)", "error: rank 0 was killed by SIGSEGV.\n"),
        ("import os; os.kill(os.getpid(), 9)", "error: rank 0 was killed by SIGKILL (when nobody did that"),
    ],
)
def test_one_rank_needs_no_agent(tmp_path, capfd, code, sentence):
    start = time.monotonic()
    assert run(job(tmp_path, code, num_ranks=1)) == 3
    assert capfd.readouterr().err.startswith(sentence)
    assert time.monotonic() - start < 5


def test_one_rank_keeps_the_keyboard_and_its_threads(tmp_path, capfd):
    code = "import os, sys; print('OMP_NUM_THREADS' in os.environ, 'RANK' in os.environ, os.fstat(0).st_ino)"
    clean = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    wanted = job(tmp_path, code, num_ranks=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", clean)
        assert run(wanted) == 0
    assert capfd.readouterr().out == f"False False {os.fstat(0).st_ino}\n"


def test_a_command_that_does_not_exist(tmp_path, capfd):
    assert run(Job(command=("no-such-program",), run_id="r", run_dir=tmp_path / "r")) == 3
    assert capfd.readouterr().err.startswith("error: command='no-such-program': cannot be run")
