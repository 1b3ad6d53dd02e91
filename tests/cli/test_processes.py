import os

import pytest

from hemostat.cli.processes import MAX_RANKS_PER_CPU, check_processes
from hemostat.errors import FieldError


def test_more_than_a_machine_can_serve_are_refused():
    most = MAX_RANKS_PER_CPU * os.cpu_count()
    assert check_processes(most) == most
    with pytest.raises(FieldError, match=rf"nproc={most + 1}: is more than 16 processes for each of"):
        check_processes(most + 1)
