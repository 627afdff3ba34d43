"""Tests speak to no other machine: neither does the package, at its import or when it runs."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

_NAME = socket.gethostname()
_HERE = {None, "", "127.0.0.1", "::1", "localhost", "0.0.0.0", "::", _NAME}
with suppress(OSError):
    _HERE.add(socket.gethostbyname(_NAME))


def stay_here() -> None:
    """Refuse connections to other machines, and questions for their addresses, from now on."""
    connect, addresses = socket.socket.connect, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        # A socket of packets that is connected sends nothing: so programs ask for a route.
        if self.type == socket.SOCK_STREAM and isinstance(address, tuple):
            _refuse(address[0])
        connect(self, address)

    def addresses_here(host: Any, *arguments: Any, **named: Any) -> Any:
        _refuse(host)
        return addresses(host, *arguments, **named)

    socket.socket.connect = connect_here
    socket.getaddrinfo = addresses_here


def _refuse(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name not in _HERE:
        raise AssertionError(f"a test asks for {name}: nothing may go to the network")
