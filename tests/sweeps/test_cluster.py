"""Sweeps on a real Ray cluster of two workers: one is killed mid-way; then the driver is killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rackmath.errors import InputError
from rackmath.sweeps.chunks import chunk_of
from rackmath.sweeps.workers import on_cluster
from tests.sweeps.test_sweeps import AXES, CASE

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rackmath[scale]'")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]


def workers() -> list[int]:
    """Processes of Ray that are computing chunks now."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_text().startswith("ray::_as_bytes"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def two_workers():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def test_a_worker_killed_mid_way_loses_nothing(two_workers) -> None:
    points, each = 30_000, 1000
    axes = {**AXES, "batch": list(np.geomspace(1, 500, points)), "context": [100.0]}
    chunks = [chunk_of("grid", case=CASE, axes=axes, start=i, stop=i + each) for i in range(0, points, each)]
    killed = False
    found: dict[str, int] = {}
    for chunk, frame in on_cluster(chunks):
        assert chunk.name not in found
        found[chunk.name] = len(frame)
        if not killed and len(found) >= 2:
            running = workers()
            if running:
                os.kill(running[0], signal.SIGKILL)
                killed = True
    assert killed
    assert found == {c.name: each for c in chunks}


def test_a_driver_killed_and_called_again_repeats_and_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "grid"
    call = [
        *(sys.executable, "-m", "rackmath", "sweep", "llama-3.1-8b", "--on", "h100-sxm", "--layout", "tp1", "--ideal"),
        *("--batch", "1:512:1024", "--context", "128:8192:2048", "--out", str(out), "--on-cluster"),
    ]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        call, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as driver:
        deadline = time.monotonic() + 120
        while len(list(out.glob("part-*.parquet"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    first = {p.name: p.stat().st_mtime_ns for p in out.glob("part-*.parquet")}
    assert 2 <= len(first) < 8
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(first)} of 8 chunks are there already" in done.stderr
    after = {p.name: p.stat().st_mtime_ns for p in out.glob("part-*.parquet")}
    assert len(after) == 8
    assert {name: after[name] for name in first} == first
    table = pl.scan_parquet(out / "part-*.parquet").select(pl.len(), pl.struct("batch", "context").n_unique()).collect()
    assert table.row(0) == (1024 * 2048, 1024 * 2048)


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1:1", "no cluster answers"), ("ray://127.0.0.1:1", "no cluster answers"), ("nowhere", "host:port")],
)
def test_a_cluster_that_does_not_answer_is_refused(address: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        next(on_cluster([chunk_of("grid", case=CASE, axes=AXES, start=0, stop=6)], address))
