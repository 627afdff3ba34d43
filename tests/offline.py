"""Tests, and what the package does inside their process, at its import or later, speak to no other machine."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest

_NAME = socket.gethostname()
_HERE = {None, "", "127.0.0.1", "::1", "localhost", "0.0.0.0", "::", _NAME}
with suppress(OSError):
    _HERE.add(socket.gethostbyname(_NAME))


def stay_here() -> None:
    """Refuse connections to other machines, and questions for their addresses, from now on."""
    connect, attempt, addresses = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        _refuse_stream(self, address)
        connect(self, address)

    def attempt_here(self: socket.socket, address: Any) -> int:
        _refuse_stream(self, address)
        return attempt(self, address)

    def addresses_here(host: Any, *arguments: Any, **named: Any) -> Any:
        _refuse(host)
        return addresses(host, *arguments, **named)

    socket.socket.connect = connect_here
    socket.socket.connect_ex = attempt_here
    socket.getaddrinfo = addresses_here


def _refuse_stream(connection: socket.socket, address: Any) -> None:
    # A socket of packets that is connected sends nothing: so programs ask for a route.
    if connection.type == socket.SOCK_STREAM and isinstance(address, tuple):
        _refuse(address[0])


def _refuse(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name not in _HERE:
        # No Exception, which a library may catch and go on.
        pytest.fail(f"a test asks for {name}: nothing may go to the network")
