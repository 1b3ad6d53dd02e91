"""Launch: one job, handed to a backend that starts its ranks; no torch."""

from hemostat.launch.backend import Backend
from hemostat.launch.backends import BACKENDS, backend
from hemostat.launch.job import Job

__all__ = ["BACKENDS", "Backend", "Job", "backend"]
