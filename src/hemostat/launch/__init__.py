"""Launch: one job, handed to a backend that starts its ranks; no torch."""

from hemostat.launch.apart import OUTPUT
from hemostat.launch.backend import Backend, Started
from hemostat.launch.backends import BACKENDS, backend
from hemostat.launch.job import Job

__all__ = ["BACKENDS", "OUTPUT", "Backend", "Job", "Started", "backend"]
