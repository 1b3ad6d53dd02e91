"""Records: the run directory, its metrics, control, exits and provenance, and the index of runs; no torch."""

from hemostat.track.checkpoints import Checkpoints
from hemostat.track.control import control
from hemostat.track.exits import write_exit
from hemostat.track.fingerprint import fingerprint
from hemostat.track.index import list_runs, load_run
from hemostat.track.provenance import collect_provenance
from hemostat.track.record import RunRecord
from hemostat.track.recorder import Recorder
from hemostat.track.run import create_run, new_run_id, update_run

__all__ = [
    "Checkpoints",
    "Recorder",
    "RunRecord",
    "collect_provenance",
    "control",
    "create_run",
    "fingerprint",
    "list_runs",
    "load_run",
    "new_run_id",
    "update_run",
    "write_exit",
]
