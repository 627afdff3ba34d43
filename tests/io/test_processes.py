import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

import pytest

from rackmath.io.processes import ProcessPool


class _LateStart(ProcessPool):
    """A pool whose second process starts when the death of its first one has been noticed."""

    def _spawn_process(self) -> None:
        if self._processes:
            self._kill_first()
        super()._spawn_process()  # type: ignore[misc]

    def _kill_first(self) -> None:
        os.kill(next(iter(self._processes)), signal.SIGKILL)
        # Later Pythons do not look before this process has started.
        deadline = time.monotonic() + 2
        while not self._broken and time.monotonic() < deadline:  # type: ignore[attr-defined]
            time.sleep(0.01)
        # All processes that the pool knows are stopped meanwhile.
        time.sleep(0.5)


class _LateRecord(_LateStart):
    """A pool whose second process runs by then, and which does not know it yet."""

    def _spawn_process(self) -> None:
        known = self._processes
        self._processes = {}
        ProcessPool._spawn_process(self)  # type: ignore[attr-defined]
        second, self._processes = self._processes, known
        if known:
            self._kill_first()
        known.update(second)


@pytest.fixture
def no_process_left() -> Iterator[None]:
    yield
    for process in multiprocessing.active_children():
        process.kill()


@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("pool_type", [_LateStart, _LateRecord])
def test_a_process_that_starts_while_another_is_killed_keeps_nobody_waiting(pool_type: type[ProcessPool]) -> None:
    answers: list[BaseException] = []

    def work() -> None:
        try:
            with pool_type(2, mp_context=multiprocessing.get_context("spawn")) as pool:
                list(pool.map(abs, range(8)))
        except Exception as error:
            answers.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    assert [type(error) for error in answers] == [BrokenProcessPool]
