"""A socket to listen at, or the reason why not."""

from __future__ import annotations

import socket

from rackmath.errors import InputError

_BACKLOG = 512


def listening(host: str, port: int) -> socket.socket:
    """Bind an address.

    Errors: :class:`InputError` for one that is taken or not this machine's.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise InputError("--port", f"{host}:{port}", f"cannot be listened at: {error}; name another") from error
    found.listen(_BACKLOG)
    return found
