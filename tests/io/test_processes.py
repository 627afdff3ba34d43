import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool

import pytest

from rackmath.io.processes import ProcessPool


class _KilledMeanwhile(ProcessPool):
    """A pool whose first process dies, and is looked for, while its second one is being started."""

    def _spawn_process(self) -> None:
        if self._processes:
            os.kill(next(iter(self._processes)), signal.SIGKILL)
            time.sleep(0.5)
        super()._spawn_process()  # type: ignore[misc]


@pytest.fixture
def no_process_left() -> Iterator[None]:
    yield
    for process in multiprocessing.active_children():
        process.kill()


@pytest.mark.usefixtures("no_process_left")
def test_a_process_that_starts_while_another_is_killed_keeps_nobody_waiting() -> None:
    answers: list[BaseException] = []

    def work() -> None:
        try:
            with _KilledMeanwhile(2, mp_context=multiprocessing.get_context("spawn")) as pool:
                list(pool.map(abs, range(8)))
        except Exception as error:
            answers.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    assert [type(error) for error in answers] == [BrokenProcessPool]
