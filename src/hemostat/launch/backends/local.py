"""Local backend: starts ranks on this machine: one as a plain child, several through torch's agent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from hemostat.errors import EnvironmentFailure
from hemostat.launch.apart import Apart
from hemostat.launch.backend import Started, check
from hemostat.launch.hang_watch import HangWatch
from hemostat.launch.job import Job
from hemostat.launch.ports import LOOPBACK, choose_port
from hemostat.launch.relay import Relay
from hemostat.launch.verdict import FAILED, LOG, Seen, tell_restart, verdict
from hemostat.track import RunRecord, attempts

RESTARTS = "HEMOSTAT_RESTARTS"  # leash.py hands it on to the ranks under torch's name
_LEASH = Path(__file__).parent.parent / "leash.py"


class LocalBackend:
    """Runs a job on this machine.

    Torch's agent costs 1.2 s before the first rank runs, nearly all of it its own `import torch` (measured).
    What the agent says goes to `launcher.log` in the run directory; the ranks' output is passed through.
    """

    name = "local"
    cannot: frozenset[str] = frozenset()

    def run(self, job: Job) -> int:
        """Start the ranks and wait for them; see `Backend.run`.

        SIGINT, SIGTERM and SIGHUP are passed to the ranks once; a second one kills them. When this process
        itself is killed, Linux kills the agent and the ranks (leash.py). Restarts follow a failure only: what the
        ranks have decided, such as a guard, a cap or a signal, is an end.

        Returns:
            What the ranks wrote with `hemostat.track.write_exit`, if anything; else 0, or 3 after one line on
            stderr that names the rank and how it ended.

        Raises:
            EnvironmentFailure: the port is in use, the run directory cannot be written, the run directory is
                in use by another launcher, or the command cannot be started.
        """
        check(self, job)
        port = choose_port(job.port) if job.num_ranks > 1 else None
        record = RunRecord(job.run_dir)
        with (
            _open_log(job.run_dir) as log,
            record.claim() as lock,
            Relay() as relay,
            HangWatch(job.run_dir, relay.end) as watch,
        ):
            for name, text in job.files.items():
                record.keep(name, text)
            for restart in range(job.max_restarts + 1):
                attempt = _as_restart(job, restart)
                before = _recorded(job.run_dir)
                record.forget_beats()
                watch.found = None
                for stale in job.run_dir.glob("exit.*.json"):
                    stale.unlink(missing_ok=True)
                log.truncate(0)
                code = relay.wait(_start(attempt, port, log, lock.fileno()))
                while port and code and job.port is None and not relay.received and _port_was_lost(log):
                    port = choose_port(None)
                    log.truncate(0)
                    code = relay.wait(_start(attempt, port, log, lock.fileno()))
                after = _recorded(job.run_dir)
                stepped = not job.records or after > before
                status = verdict(job, code, Seen(relay.received, watch.found, stepped))
                if status != FAILED or relay.received or restart == job.max_restarts:
                    break
                job = _with_time_lost(job, after > before)
                tell_restart(record, restart + 1, job.max_restarts)
        return status

    def start(self, job: Job) -> Started:
        """Start the ranks under a keeper process; see `Backend.start`."""
        return Apart(self, job)


def _recorded(run_dir: Path) -> int:
    """Bytes of metrics, which grow with each step."""
    return sum(path.stat().st_size for path in run_dir.glob("metrics.*.jsonl"))


def _as_restart(job: Job, number: int) -> Job:
    """The job as its ranks are told of it when they start for the n-th time again."""
    return msgspec.structs.replace(job, env={**job.env, RESTARTS: str(number)}) if number else job


def _with_time_lost(job: Job, stepped: bool) -> Job:
    """The start of the next attempt begins where the last one was heard of: a hang and its end are paid for too."""
    if not job.records or not stepped:
        return job
    silent_s = max(0.0, time.time() - (job.run_dir / "metrics.0.jsonl").stat().st_mtime)
    return msgspec.structs.replace(job, env={**job.env, attempts.LAUNCHED: str(time.monotonic() - silent_s)})


def _open_log(run_dir: Path) -> BinaryIO:
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        return (run_dir / LOG).open("ab")
    except OSError as error:
        raise EnvironmentFailure(
            f"run_dir={str(run_dir)!r}: cannot be written, {error.strerror}. Choose a folder that can."
        ) from None


def _start(job: Job, port: int | None, log: BinaryIO, lock: int) -> subprocess.Popen[bytes]:
    """Start the job; its child holds the lock too, in case this process is killed first."""
    leash = (sys.executable, "-I", "-S", str(_LEASH))
    environment = _environment(job)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if port is None:
        alone = (*leash, "alone", *job.command)
        return subprocess.Popen(alone, env=environment, start_new_session=True, pass_fds=(lock,))
    agent = (sys.executable, "-m", "torch.distributed.run", *_agent_options(job, port))
    return subprocess.Popen(
        (*leash, "agent", *agent, *leash, "rank", *job.command),
        env=environment,
        start_new_session=True,
        # the ranks' way to the user's stderr leads through the agent's stdin, see leash.py
        stdin=_stderr_descriptor(),
        stderr=log,
        pass_fds=(lock,),
    )


def _agent_options(job: Job, port: int) -> tuple[str, ...]:
    # the static rendezvous starts 0.3 s faster than `--standalone` (c10d) and looks no host name up
    return (
        f"--nproc-per-node={job.num_ranks}",
        f"--master-addr={LOOPBACK}",
        f"--master-port={port}",
        "--max-restarts=0",  # the agent would start ranks again that have decided to end
        f"--log-dir={os.devnull}",  # otherwise it leaves a folder in the temporary directory
        "--no-python",
    )


def _environment(job: Job) -> dict[str, str]:
    environment = {
        **os.environ,
        **job.env,
        "HEMOSTAT_RUN_ID": job.run_id,
        "HEMOSTAT_RUN_DIR": str(job.run_dir.resolve()),
        "HEMOSTAT_PARENT_PID": str(os.getpid()),
    }
    if job.num_ranks > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, _num_cpus() // job.num_ranks)))
        environment.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(job.grace_s))
    return environment


def _num_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stderr_descriptor() -> int:
    # pytest and notebooks replace sys.stderr by an object without a descriptor
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return 2


def _port_was_lost(log: BinaryIO) -> bool:
    """Another process took the port between our look and the agent's start, before any rank ran."""
    text = Path(log.name).read_text(encoding="utf-8", errors="replace")
    return "EADDRINUSE" in text and "exitcode" not in text
