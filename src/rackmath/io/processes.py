"""Processes of this machine that share work, and what becomes of them when the system kills one."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from types import TracebackType


class ProcessPool(ProcessPoolExecutor):
    """A pool whose block ends with :class:`BrokenProcessPool` when one of its processes is killed.

    Python before 3.11.5 waits for ever if something longer than a pipe is being sent to a process at that moment:
    nobody reads the pipe any more. It is closed here, as later versions do themselves (python/cpython#94777).
    """

    def __init__(self, workers: int, mp_context: BaseContext | None = None) -> None:
        super().__init__(workers, mp_context)
        # Python 3.11 waits for ever, or fails otherwise, where one is killed while another is being started for work
        # that is given meanwhile. So all start before any work is given, as forked ones do.
        self._safe_to_dynamically_spawn_children = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.version_info < (3, 11, 5) and isinstance(error, BrokenProcessPool):
            self._call_queue._reader.close()  # type: ignore[attr-defined]
        super().__exit__(kind, error, trace)
