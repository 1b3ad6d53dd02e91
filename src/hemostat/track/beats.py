"""beat.<rank>.json: what each rank is doing, about once a second, and who of them keeps the others waiting."""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from pathlib import Path
from typing import Final

import msgspec

# in the order of a step: what follows an update belongs to the step that it made
PHASES: Final = ("start", "evaluate", "save", "loop", "data", "forward", "backward", "reduce")
_AWAY_S: Final = 5.0  # a reader that has not looked for so long was stopped itself
# a long save is no hang of the rank that has more to write
_TOGETHER: Final = ("start", "save")


@functools.cache
def this_host() -> str:
    """This machine since its start: its name alone may be that of others, such as "localhost"."""
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{platform.node()} {boot}".strip()


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank says of itself.

    Attributes:
        rank: global rank.
        pid: of its process.
        phase: one of `PHASES`.
        step: completed steps.
        part: micro-batches of the step under way that were handed out.
        met: how often the ranks have met in this phase.
        phase_s: seconds since any of the four above has changed.
        stall_s: longer than that is a hang.
        count: one more with each beat.
        time: when, in seconds since 1970; for people.
        stack: where the process stands; only once `phase_s` is over `stall_s`.
        num_ranks: of the job; 0 where it is not said.
        host: name and start of its machine, from `this_host`; a number of a process means nothing on another one.
    """

    rank: int
    pid: int = 0
    phase: str = "start"
    step: int = 0
    part: int = 0
    met: int = 0
    phase_s: float = 0.0
    stall_s: float = 120.0
    count: int = 0
    time: float = 0.0
    stack: str = ""
    num_ranks: int = 0
    host: str = ""

    @property
    def is_here(self) -> bool:
        """Its process runs on this machine, so that `pid` is the one that is meant."""
        return self.host == this_host()

    @property
    def position(self) -> tuple[int, int, int, int]:
        """Grows as the run goes on, and is equal on ranks that stand at the same place."""
        met = 0 if self.phase in _TOGETHER else self.met
        return (self.step, self.part, PHASES.index(self.phase), met)


class Hang(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that the others wait for, or one that has stood still and nobody can tell why.

    Attributes:
        beat: its last one.
        for_s: how long it has stood there.
        silent: it does not beat any more.
        certain: another rank waits for it, so that it can be ended. A rank alone, and ranks that are all in a save,
            may be slow.
    """

    beat: Beat
    for_s: float
    silent: bool
    certain: bool = True

    @property
    def once(self) -> tuple[object, ...]:
        """What it is told for once only: each step where it is certain, each phase where it is not."""
        beat = self.beat
        return (beat.rank, beat.pid, beat.step) if self.certain else (beat.rank, beat.pid, beat.phase)

    def sentence(self) -> str:
        """Say it; the stack stands on lines of its own.

        Examples:
            >>> beat = Beat(rank=1, phase="data", step=7, stall_s=120)
            >>> Hang(beat=beat, for_s=121.2, silent=False).sentence()
            'rank 1 hangs in data after step 7 for 121 s (train.stall_s=120), and the others wait for it'
            >>> Hang(beat=beat, for_s=121.2, silent=False, certain=False).sentence()
            'rank 1 has stood in data after step 7 for 121 s (train.stall_s=120), and is let be: it may be slow'
        """
        beat = self.beat
        if not self.certain:
            stood = (
                f"rank {beat.rank} has stood in {beat.phase} after step {beat.step} for {self.for_s:.0f} s"
            )
            return self._with_stack(
                f"{stood} (train.stall_s={beat.stall_s:g}), and is let be: it may be slow"
            )
        how = f"hangs in {beat.phase} after step {beat.step} for {self.for_s:.0f} s (train.stall_s={beat.stall_s:g})"
        if self.silent:
            how += "; its process does not answer, it is stopped or its machine is"
        return self._with_stack(f"rank {beat.rank} {how}, and the others wait for it")

    def _with_stack(self, said: str) -> str:
        stack = self.beat.stack
        return f"{said}. It stands at\n{stack.rstrip()}" if stack and not self.silent else said


def write_beat(run_dir: Path, beat: Beat) -> None:
    """Replace this rank's beat; a folder that cannot be written is not worth an error here."""
    beside = run_dir / f".beat.{beat.rank}.tmp"
    with contextlib.suppress(OSError):
        # not synced: a beat is worth nothing after the machine has gone down
        beside.write_bytes(msgspec.json.encode(beat))
        beside.replace(run_dir / f"beat.{beat.rank}.json")


def forget_beats(run_dir: Path, rank: int | None = None) -> None:
    """Remove the beat of a rank that ends, or those that an earlier launch has left."""
    for path in run_dir.glob(f"beat.{'*' if rank is None else rank}.json"):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def read_beats(run_dir: Path) -> list[Beat]:
    """Read the last beat of every rank, in rank order; what cannot be read counts as absent."""
    found = []
    for path in run_dir.glob("beat.*.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            beat = msgspec.json.decode(path.read_bytes(), type=Beat)
            if beat.phase in PHASES:
                found.append(beat)
    return sorted(found, key=lambda beat: beat.rank)


class Lookout:
    """Watches the beats of a run; its own clock tells who is silent, so no clock needs to agree with another.

    Args:
        run_dir: the run directory.
        late: nobody has looked before: a beat is as old as it says.
    """

    def __init__(self, run_dir: Path, *, late: bool = False) -> None:
        self._run_dir = run_dir
        self._late = late
        self._seen: dict[int, tuple[int, int, float]] = {}
        self._looked_s = float("-inf")

    def look(self, now_s: float | None = None) -> Hang | None:
        """Tell whether a rank keeps the others waiting; ask it about once a second.

        A rank hangs when it has stood at one place for over `stall_s`, or has been silent for so long, while another
        one that is further on has waited as long. Ranks that are slow together do not hang. A rank alone that stands
        still, and the last one of ranks that all stand in a save, are named and no more.

        Args:
            now_s: of a clock that never goes back; None reads it.
        """
        now_s = time.monotonic() if now_s is None else now_s
        if now_s - self._looked_s > _AWAY_S:
            self._seen.clear()
        self._looked_s = now_s
        stood = []
        for beat in read_beats(self._run_dir):
            pid, count, seen_s = self._seen.get(beat.rank, (0, -1, now_s))
            if (pid, count) != (beat.pid, beat.count):
                seen_s = now_s - (max(0.0, time.time() - beat.time) if self._late else 0.0)
                self._seen[beat.rank] = (beat.pid, beat.count, seen_s)
            silent_s = now_s - seen_s
            hang = Hang(beat=beat, for_s=beat.phase_s + silent_s, silent=silent_s > beat.stall_s)
            stood.append(hang)
        # a beat that is over the limit by itself brings the stack
        late = [hang for hang in stood if hang.silent or hang.beat.phase_s > hang.beat.stall_s]
        for hang in sorted(late, key=lambda hang: (not hang.silent, hang.beat.position)):
            if any(_waits(other, hang) for other in late):
                return hang
        return _let_be(stood, late)


def _waits(other: Hang, hang: Hang) -> bool:
    if other.beat.rank == hang.beat.rank or other.silent:
        return False
    return hang.silent or other.beat.position > hang.beat.position


def _let_be(stood: list[Hang], late: list[Hang]) -> Hang | None:
    """Of ranks that may be slow, the one to name: alone, or in a save that none has come further in."""
    if not late or len(late) < len(stood) or len(stood) != stood[0].beat.num_ranks:
        return None
    if len(stood) > 1 and any(hang.beat.phase != "save" for hang in stood):
        return None
    if len(stood) == 1 and stood[0].beat.phase == "start":
        return None
    last = min(stood, key=lambda hang: (not hang.silent, hang.beat.met))
    return msgspec.structs.replace(last, certain=False)
