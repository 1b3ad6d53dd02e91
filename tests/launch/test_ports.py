"""Ports: one in use is named, a free one is really free."""

from __future__ import annotations

import socket

import pytest

from hemostat.errors import EnvironmentFailure
from hemostat.launch.ports import LOOPBACK, choose_port, is_free


def test_a_port_in_use_is_named():
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(EnvironmentFailure, match=f"port={port}: is in use"):
            choose_port(port)
    assert choose_port(port) == port


def test_a_listener_on_all_addresses_counts_too():
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_chosen_ports_differ_and_can_be_bound():
    ports = {choose_port(None) for _ in range(20)}
    assert len(ports) > 15
    for port in ports:
        with socket.create_server((LOOPBACK, port)):
            assert not is_free(port)
