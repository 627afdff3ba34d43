"""A socket to listen at, or the reason why not."""

from __future__ import annotations

import socket

from rackmath.errors import InputError

_BACKLOG = 512


def listening(host: str, port: int) -> socket.socket:
    """Bind an address.

    Errors: :class:`InputError` for one that is taken or not this machine's.
    """
    # asyncio sends at once (TCP_NODELAY) where a socket names its protocol; else a body waits 40 ms behind its head.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError("--port", f"{host}:{port}", f"cannot be listened at: {error}; name another") from error
    listener.listen(_BACKLOG)
    return listener
