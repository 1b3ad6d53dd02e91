"""`Heartbeat`: the thread that writes where this rank stands into the run directory, once a second."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType

from hemostat.track import RunRecord
from hemostat.train.interrupt import Interrupt
from hemostat.train.process import World

BEAT_S = 1.0
_FRAMES = 8
# while the training thread waits for these, they are the ones that stand somewhere
_OTHERS = {
    "data": ("hemostat-read-ahead", "a reading thread"),
    "evaluate": ("hemostat-read-ahead", "a reading thread"),
    "save": ("checkpoint", "the thread that writes"),
}


class Heartbeat:
    """Writes the pulse of a rank until it is closed, and ends its wait for data when a signal has come long ago.

    Args:
        world: the ranks; one alone keeps nobody waiting, and is named where it stands still.
        run_dir: where the beats go; None writes none.
        stall_s: a phase that lasts longer brings its stack.
    """

    def __init__(self, world: World, run_dir: Path | None, stall_s: float) -> None:
        self._pulse, self._rank, self._stall_s = world.pulse, world.rank, stall_s
        self._num_ranks = world.num_ranks
        self._record = RunRecord(run_dir) if run_dir is not None else None
        self._pulse.run_dir = run_dir
        self._trains = threading.get_ident()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        # a launching process looks itself, and can also tell when this process is the one that hangs
        self._tells = world.rank == 0 and "HEMOSTAT_RUN_DIR" not in os.environ

    def start(self, interrupt: Interrupt) -> None:
        """Begin to beat.

        Args:
            interrupt: of this process; the calling thread is the one that trains.
        """
        self._trains = threading.get_ident()
        self._thread = threading.Thread(
            target=self._run, args=(interrupt,), name="hemostat-heartbeat", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread; this rank has left and is not silent. A second call does nothing."""
        self._over.set()
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        if self._record is not None:
            self._record.forget_beats(self._rank)

    def _run(self, interrupt: Interrupt) -> None:
        lookout = self._record.lookout() if self._record is not None and self._tells else None
        told: set[tuple[object, ...]] = set()
        count = 0
        while not self._over.wait(min(BEAT_S, self._stall_s / 4) if count else 0.0):
            count += 1
            self._beat(count)
            if interrupt.overdue() is not None:
                interrupt.end_wait(self._trains)
            hang = lookout.look() if lookout is not None else None
            if hang is not None and hang.once not in told:
                told.add(hang.once)
                sys.stderr.write(f"{'error' if hang.certain else 'note'}: {hang.sentence()}\n")
                sys.stderr.flush()

    def _beat(self, count: int) -> None:
        if self._record is None:
            return
        phase, step, part, met, since_s = self._pulse.place()
        phase_s = time.monotonic() - since_s
        self._record.beat(
            self._rank,
            pid=os.getpid(),
            phase=phase,
            step=step,
            part=part,
            met=met,
            phase_s=phase_s,
            stall_s=self._stall_s,
            num_ranks=self._num_ranks,
            count=count,
            time=time.time(),
            stack=self._stack(phase) if phase_s > self._stall_s else "",
        )

    def _stack(self, phase: str) -> str:
        frames = sys._current_frames()
        text = _lines(frames.get(self._trains))
        name, what = _OTHERS.get(phase, (None, ""))
        for thread in threading.enumerate():
            if name is not None and thread.name.startswith(name) and thread.ident is not None:
                text += f"  and {what} at\n{_lines(frames.get(thread.ident))}"
        return text


def _lines(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame else "  (the thread is gone)\n"
