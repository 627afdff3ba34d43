"""What keeps tests from the network does."""

from __future__ import annotations

import socket
from urllib.request import urlopen

import pytest


def test_other_machines_are_out_of_reach() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"example\.org"):
        urlopen("http://example.org")
    for way in (socket.socket.connect, socket.socket.connect_ex):
        with socket.socket() as connection, pytest.raises(pytest.fail.Exception, match="192"):
            way(connection, ("192.0.2.1", 80))


def test_this_machine_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
