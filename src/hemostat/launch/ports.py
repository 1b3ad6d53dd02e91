"""TCP ports on the loopback address: is one in use, and which one is free."""

from __future__ import annotations

import random
import socket

from hemostat.errors import EnvironmentFailure

LOOPBACK = "127.0.0.1"
# below the range from which Linux takes the ports of outgoing connections (32768 on)
_LOWEST, _HIGHEST = 20000, 32767


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as torch's store does: a port whose last connections are still fading away counts as free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose_port(wanted: int | None) -> int:
    """Check the port that the user wants, or find a free one.

    Raises:
        EnvironmentFailure: the wanted port is in use, or none is free.
    """
    if wanted is not None:
        if not is_free(wanted):
            raise EnvironmentFailure(
                f"port={wanted}: is in use on {LOOPBACK}. Stop what listens there, or leave the port out."
            )
        return wanted
    for _ in range(50):
        # not `random.random()` of the global generator: the user's seed must not make two runs collide
        port = random.SystemRandom().randint(_LOWEST, _HIGHEST)
        if is_free(port):
            return port
    raise EnvironmentFailure(f"port: none of {_LOWEST} to {_HIGHEST} is free on {LOOPBACK}. Stop other jobs.")
