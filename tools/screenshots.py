"""Pictures of the board for the README and the documents: docs/board-*.png.

python tools/screenshots.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
SHOTS = {
    "board-lecture": ("/book/1?batch.context=32768#title-batch", "light", 860),
    "board-plan": ("/plan?plan.ttft=1", "dark", 1000),
    "board-training": ("/training#title-pipeline", "light", 860),
}
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main() -> None:
    """Start a board, look at it, stop it."""
    found = shutil.which("chromium")
    if found is None:
        sys.exit("install Debian's chromium first")
    command = [sys.executable, "-m", "rackmath", "board", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as board, sync_playwright() as playwright:
        assert board.stdout is not None
        address = board.stdout.readline().split()[2].rstrip("/")
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        for name, (path, scheme, height) in SHOTS.items():
            page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(address + path)
            for view in page.locator(".view").all():
                view.locator(".figures").first.scroll_into_view_if_needed()
                view.locator(".drawn .main-svg").first.wait_for()
            page.evaluate("scrollTo(0, 0)")
            if "#" in path:
                page.locator(f"#{path.partition('#')[2]}").scroll_into_view_if_needed()
                page.evaluate("id => document.getElementById(id).scrollIntoView()", path.partition("#")[2])
            page.wait_for_timeout(800)
            page.screenshot(path=DOCS / f"{name}.png")
        browser.close()
        board.terminate()


if __name__ == "__main__":
    main()
