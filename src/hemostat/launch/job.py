"""Job: what is to be run on how many ranks, before it is known where."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hemostat.config import Config
from hemostat.errors import FieldError


class Job(Config, frozen=True, kw_only=True):
    """One command on `num_ranks` processes, under one run id.

    Attributes:
        command: what each rank runs, program first: `(sys.executable, "-m", "hemostat", "train", ...)`.
        num_ranks: processes in all.
        run_id: made once, by whoever launches; every rank sees it as HEMOSTAT_RUN_ID.
        run_dir: the run directory; every rank sees it as HEMOSTAT_RUN_DIR.
        env: variables on top of the launcher's own.
        files: text by name, written into the run directory as soon as this launch owns it.
        records: its ranks record every step, so one without a new line of metrics has lost nothing.
        max_restarts: how often all ranks are started again after a failure; what they decided on is none.
        port: TCP port of the rendezvous; None = a free one.
        grace_s: after a signal or the death of a rank, how long the other ranks may go on before they are
            killed. A checkpoint must fit in it.
    """

    command: tuple[str, ...]
    num_ranks: int = 1
    run_id: str
    run_dir: Path
    env: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    records: bool = False
    max_restarts: int = 0
    port: int | None = None
    grace_s: int = 30

    def __post_init__(self) -> None:
        if not self.command:
            raise FieldError("command", self.command, "is empty", "Give the program and its arguments.")
        if self.num_ranks < 1:
            raise FieldError("num_ranks", self.num_ranks, "must be 1 or more", "Write --nproc 1 or more.")
        if self.max_restarts < 0:
            raise FieldError("max_restarts", self.max_restarts, "must be 0 or more", "Write 0 for none.")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise FieldError("port", self.port, "must be 1 to 65535", "Leave it out to take a free one.")
        if self.grace_s < 1:
            raise FieldError("grace_s", self.grace_s, "must be 1 or more", "Leave it out for 30.")
