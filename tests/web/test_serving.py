"""The socket that a board listens at."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from rackmath.errors import InputError
from rackmath.web.serving import listening


def test_answers_are_sent_at_once() -> None:
    """A body that waits for its head to be acknowledged comes 40 ms late."""

    async def delayed() -> bool:
        seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            seen.set_result(not accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening("127.0.0.1", 0) as listener:
            server = await asyncio.start_server(answer, sock=listener)
            async with server:
                _, writer = await asyncio.open_connection(*listener.getsockname())
                waits = await asyncio.wait_for(seen, 10)
                writer.close()
                await writer.wait_closed()
                return waits

    # Playwright keeps a loop of its own running in the thread of the tests.
    with ThreadPoolExecutor(1) as thread:
        assert not thread.submit(lambda: asyncio.run(delayed())).result()


def test_an_address_that_is_taken_is_refused() -> None:
    with listening("127.0.0.1", 0) as listener, pytest.raises(InputError, match="cannot be listened at"):
        listening("127.0.0.1", listener.getsockname()[1])
