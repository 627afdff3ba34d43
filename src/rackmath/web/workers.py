"""Questions that take seconds: a bounded number of processes answers them, and a viewer who leaves cancels his."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from rackmath.errors import InputError, RackmathError

_NICE = 5
"""Sliders come first."""
_STEP = 0.01
"""Between two looks at a process. [s]"""
_LEFT = 0.2
"""Between two looks whether the viewer is still there. [s]"""


class TooBusy(RackmathError):
    """Too many questions wait already."""


class TooLong(RackmathError):
    """A question took longer than a page waits."""


class ViewerLeft(Exception):
    """The viewer has left."""


class _Worker:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=_work, args=(child_pipe,), daemon=True)
        self.process.start()
        child_pipe.close()

    def stop(self) -> None:
        """Stop it, whatever it does."""
        self.process.kill()
        self.process.join(5)
        self.pipe.close()


class Workers:
    """Processes that answer heavy questions, one at a time each."""

    def __init__(self, count: int, waiting: int = 16, longest: float = 60.0) -> None:
        """Start nothing yet: the first question starts the first process.

        Parameters
        ----------
        count : int
            Processes at most.
        waiting : int
            Questions that may wait; further ones are refused.
        longest : float
            Time that one question may take. [s]
        """
        self.longest, self.limit = longest, waiting
        self.idle: list[_Worker] = []
        self.free = asyncio.Semaphore(count)
        self.waiting = 0

    async def answer(
        self, view: str, values: Mapping[str, Any], paths: Mapping[str, str], has_left: Callable[[], Awaitable[bool]]
    ) -> dict[str, Any]:
        """Answer one question in a process.

        Parameters
        ----------
        paths : mapping
            Files that were sent, by name.
        has_left : callable
            Whether the viewer has left: then the process is stopped.

        Errors: :class:`TooBusy`, :class:`TooLong`, :class:`ViewerLeft`; those of the question.
        """
        if self.waiting >= self.limit:
            raise TooBusy("many others wait for long answers: ask again in a moment")
        self.waiting += 1
        try:
            async with self.free:
                return await self._run(view, values, paths, has_left)
        finally:
            self.waiting -= 1

    async def _run(
        self, view: str, values: Mapping[str, Any], paths: Mapping[str, str], has_left: Callable[[], Awaitable[bool]]
    ) -> dict[str, Any]:
        worker = self.idle.pop() if self.idle else await asyncio.to_thread(_Worker)
        is_done = False
        try:
            worker.pipe.send((view, dict(values), dict(paths)))
            start = last_look = time.monotonic()
            while not worker.pipe.poll():
                await asyncio.sleep(_STEP)
                now = time.monotonic()
                if not worker.process.is_alive():
                    raise TooLong("the process that answered was stopped: ask for less")
                if now - start > self.longest:
                    raise TooLong(f"took longer than {self.longest:g} s: ask for less, or on the command line")
                if now - last_look > _LEFT:
                    last_look = now
                    if await has_left():
                        raise ViewerLeft
            kind, content = worker.pipe.recv()
            is_done = True
        finally:
            if is_done:
                self.idle.append(worker)
            else:
                worker.stop()
        if kind == "refused":
            raise InputError(*content) if len(content) > 1 else RackmathError(*content)
        return content

    def stop(self) -> None:
        """Stop all processes that wait."""
        while self.idle:
            self.idle.pop().stop()


def _work(pipe: Connection) -> None:
    """A process: answer until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    from rackmath.web import uploads
    from rackmath.web.pages import views
    from rackmath.web.shown import as_json

    while True:
        try:
            name, values, paths = pipe.recv()
        except EOFError:
            return
        uploads.adopt(paths)
        view = views()[name]
        try:
            pipe.send(("answer", as_json(view.answer(view.inputs(**values)))))
        except InputError as error:
            pipe.send(("refused", (error.field, error.value, error.way_out)))
        except RackmathError as error:
            pipe.send(("refused", (str(error),)))
