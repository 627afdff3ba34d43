"""A view in a marimo notebook, in a real browser: its controls reach the kernel, and cells that use it run again."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import rackmath as rm

pytestmark = pytest.mark.long

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/step_in_marimo.py"


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[str]:
    """Address of the notebook, served by marimo in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "run", str(NOTEBOOK), "--headless", "--no-token", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as run:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_for(address, run)
            yield address
        finally:
            run.terminate()


def _wait_for(address: str, run: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        assert run.poll() is None
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except urllib.error.URLError:
            time.sleep(0.25)
    pytest.fail("marimo does not answer")


def test_a_control_that_moves_runs_the_cells_that_use_it(browser: Browser, notebook: str) -> None:
    page = browser.new_page()
    page.goto(notebook)
    sentence = page.get_by_text(re.compile(r"sequences take .* times as long as one\."))
    expect(sentence).to_have_text(re.compile(r"^8 sequences"), timeout=60_000)
    slider = page.get_by_label("sequences, slider")
    slider.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    expect(sentence).not_to_have_text(re.compile(r"^8 sequences"), timeout=60_000)
    words = sentence.inner_text().split()
    times = [rm.estimate("llama-3.1-8b", "h100-sxm", gpus=1, batch=n, context=1000).time for n in (int(words[0]), 1)]
    assert float(words[3]) == pytest.approx(times[0] / times[1], abs=0.006)
    page.close()
