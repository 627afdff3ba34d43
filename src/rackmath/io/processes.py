"""Processes of this machine that share work, and what becomes of them when the system kills one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any


class ProcessPool(ProcessPoolExecutor):
    """A pool whose block ends with :class:`BrokenProcessPool` when one of its processes is killed.

    Python 3.11's own may wait for ever, or fail otherwise, where that is noticed while another process is started:
    nobody stops the other, and all wait for its end; or the pipe that it is to read is closed. And before 3.11.5 it
    waits if something longer than a pipe is being sent to a process at that moment, and nobody reads the pipe any more:
    it is closed here, as later versions do themselves (python/cpython#94777).
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As of the executor."""
        try:
            return super().submit(fn, *args, **kwargs)
        except OSError as error:
            if self._broken:  # type: ignore[attr-defined]
                raise BrokenProcessPool("a process was killed while another was being started") from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, BrokenProcessPool):
            # None once the pool has shut down.
            for process in list((self._processes or {}).values()):
                process.kill()
            if sys.version_info < (3, 11, 5):
                self._call_queue._reader.close()  # type: ignore[attr-defined]
        super().__exit__(kind, error, trace)
