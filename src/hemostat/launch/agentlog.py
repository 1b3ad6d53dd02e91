"""Reads torch's launcher log: which ranks failed, and how, according to its agent."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import msgspec

# the block that torch.distributed.elastic.multiprocessing.errors prints per failed rank (torch 2.9 to 2.13)
_FAILURE = re.compile(r"^ *rank +: (\d+) \(local_rank: \d+\)\s*\n *exitcode +: (-?\d+) \(pid: (\d+)\)", re.M)
# what the agent says before it ends the ranks that were still well
_ENDED_BY_AGENT = re.compile(r"Sending process (\d+) closing signal")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """How one rank ended.

    Attributes:
        rank: global rank.
        code: exit status, or minus the number of the signal that killed it.
    """

    rank: int
    code: int

    def sentence(self) -> str:
        """Say it.

        Examples:
            >>> Failure(rank=1, code=-9).sentence()
            'rank 1 was killed by SIGKILL'
            >>> Failure(rank=0, code=7).sentence()
            'rank 0 exited with status 7'
        """
        return f"rank {self.rank} {ending(self.code)}"


def ending(code: int) -> str:
    """Put an exit code into words; negative codes are signals.

    Examples:
        >>> ending(-15), ending(1)
        ('was killed by SIGTERM', 'exited with status 1')
    """
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def failures(log: Path) -> list[Failure]:
    """List the ranks that failed by themselves, in rank order, without those that the agent ended afterwards.

    Returns:
        Empty when the agent names none, for instance because it was killed itself.
    """
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    ended = set(_ENDED_BY_AGENT.findall(text))
    found = {int(rank): (int(code), pid) for rank, code, pid in _FAILURE.findall(text)}
    causes = {rank: code for rank, (code, pid) in found.items() if pid not in ended}
    chosen = causes or {rank: code for rank, (code, _) in found.items()}
    return [Failure(rank=rank, code=chosen[rank]) for rank in sorted(chosen)]
