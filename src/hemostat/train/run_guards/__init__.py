"""The guards of a run, one file each: what they look at, when they speak, and what that does to the run."""

from hemostat.train.run_guards.heed import heed
from hemostat.train.run_guards.run_guards import GUARDS, RunGuards

__all__ = ["GUARDS", "RunGuards", "heed"]
