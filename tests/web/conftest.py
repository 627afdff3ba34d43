"""A board that runs, and a browser that looks at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, BrowserType, Page, sync_playwright

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_EXECUTABLE = next((path for name in _CHROMIUM if (path := shutil.which(name))), None)
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
"""Nothing of the browser's own goes to the network."""


@pytest.fixture(scope="session")
def board() -> Iterator[str]:
    """Address of a board in a process of its own."""
    command = [sys.executable, "-m", "rackmath", "board", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert "http://127.0.0.1:" in line, line
            # Nobody may wait because nobody reads.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield line.split("http://")[1].split("/")[0].join(("http://", ""))
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def chromium() -> Iterator[BrowserType]:
    """Chromium as Playwright starts it."""
    if _EXECUTABLE is None:
        pytest.skip("no Chromium is here: `apt-get install chromium`")
    with sync_playwright() as playwright:
        yield playwright.chromium


@pytest.fixture(scope="session")
def browser(chromium: BrowserType) -> Iterator[Browser]:
    """A browser that keeps nothing from one context to the next."""
    browser = chromium.launch(executable_path=_EXECUTABLE, args=_FLAGS)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def browsing(chromium: BrowserType, board: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """One person's browser, which keeps the scripts that it has read, and compiled: each page is there in half the time."""
    context = chromium.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        executable_path=_EXECUTABLE,
        args=_FLAGS,
        viewport={"width": 1280, "height": 900},
        base_url=board,
    )
    yield context
    context.close()


@pytest.fixture
def context(browsing: BrowserContext, board: str) -> Iterator[BrowserContext]:
    """The same browser with nothing open in it but its first, empty page, and nothing kept."""
    yield browsing
    for page in browsing.pages[1:]:
        if page.url.startswith(board):
            page.evaluate("localStorage.clear()")
        page.close()


@pytest.fixture
def page(context: BrowserContext, board: str) -> Iterator[Page]:
    """A page that must not complain, and must not speak to anybody else."""
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((board, "data:", "blob:")) else wrong.append(request.url),
    )
    yield page
    assert not wrong, wrong
