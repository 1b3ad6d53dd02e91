"""HG003: the weights are not equal on all ranks; the parameter and the rank are named."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from hemostat.findings import Finding, Severity
from hemostat.train.parallel import dp
from hemostat.train.parallel.alike import checksum
from hemostat.train.parallel.sharded import local
from hemostat.train.run_guards.guard import RankGuard
from hemostat.train.update import Step

if TYPE_CHECKING:
    from hemostat.train.session import Session


class DriftGuard(RankGuard):
    """Compares a checksum of every parameter over the ranks.

    Args:
        session: the run.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def mine(self, step: Step) -> dict[str, int]:
        """A checksum for the part of each parameter that is here."""
        named = dict(dp.unwrap(self._session.model).named_parameters())
        sums: list[int] = torch.stack([checksum(local(param)) for param in named.values()]).tolist()
        return dict(zip(named, sums, strict=True))

    def compare(self, said: list[Any], step: Step) -> Finding | None:
        """A finding where a parameter differs."""
        if len(said) == 1:
            return None
        odd: dict[str, list[int]] = {}
        for ranks in self._session.mesh.copies():
            for name in said[ranks[0]]:
                strange = [ranks[place] for place in odd_ranks([said[rank][name] for rank in ranks])]
                odd |= {name: odd.get(name, []) + strange} if strange else {}
        if not odd:
            return None
        first, ranks = next(iter(odd.items()))
        who = f"rank {', '.join(str(rank) for rank in ranks)}"
        more = f" (and {len(odd) - 1} more parameters)" if len(odd) > 1 else ""
        return Finding(
            code="HG003",
            severity=Severity.ERROR,
            message=(
                f"the weights of the ranks have drifted apart by step {step.number}: {first} differs on {who}{more}."
            ),
            fix=(
                "Look for what changes weights on one rank only, beside the optimizer. "
                "A resume gives all ranks the same weights again."
            ),
            where=f"step {step.number}, {who}",
            evidence={
                "parameters": list(odd),
                "ranks": sorted({rank for some in odd.values() for rank in some}),
            },
        )


def odd_ranks(sums: list[Any]) -> list[int]:
    """Ranks that do not have what most have; where two halves differ, rank 0 is right.

    Examples:
        >>> odd_ranks([7, 7, 8]), odd_ranks([7, 8]), odd_ranks([7, 7])
        ([2], [1], [])
    """
    usual = Counter(sums).most_common(1)[0][0]  # of equally many, the one that came first
    return [rank for rank, value in enumerate(sums) if value != usual]
