"""The board in a browser: from a slider's move to the redrawn picture; the first page; two hundred viewers at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

import httpx
import pytest
from playwright.sync_api import Browser, Page
from tests.web.conftest import board, browser, chromium

__all__ = ["board", "browser", "chromium"]

pytestmark = pytest.mark.benchmark

_PACE = 100
"""Between two moves; a faster hand skips some, for one question is asked at a time. [ms]"""
_STARTS = 8
"""New browsers that open a page, each with nothing kept."""
_FRAME = """
window.drawing = null;
const observer = new MutationObserver(() => {
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.answering = performance.now(); }));
  const place = document.querySelector(".drawn");
  if (place) new MutationObserver(() => {
    if (place.querySelector(".main-svg")) window.drawing ??= performance.now();
  }).observe(place, { childList: true, subtree: true });
});
observer.observe(document, { attributes: true, attributeFilter: ["data-ready"], subtree: true });
"""
"""On the page's own clock: the first frame after it answers, and when Plotly has begun to draw. [ms]"""
VIEWERS, SECONDS, PAUSE = 200, 20.0, 1.0
"""Viewers, and how often each of them moves a slider on average."""
SLIDERS = (
    ("book/1", "batch", "context, slider"), ("book/6", "stages", "stages, slider"),
    ("estimate", "estimate", "sequences, slider"), ("prices", "cache", "tokens of the prefix, slider"),
    ("training", "budget", "and its tokens, slider"), ("training", "pipeline", "stages, slider"),
    ("accuracy", "accuracy", ""),
)  # fmt: skip


@pytest.fixture
def page(browser: Browser, board: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1360, "height": 900}, base_url=board)
    yield context.new_page()
    context.close()


def moved(page: Page, view: str, label: str) -> list[float]:
    """Milliseconds from each move to the end of drawing."""
    if label:
        slider = page.locator(f'[data-view="{view}"]').get_by_label(label)
        slider.focus()
        for _ in range(60):
            slider.press("ArrowRight")
            page.wait_for_timeout(_PACE)
    else:
        for chip in ("h100-sxm", "b200-sxm", "mi300x", "a100-sxm", "") * 6:
            page.locator(f"#{view}-chip").select_option(chip)
            page.wait_for_timeout(200)
    page.wait_for_timeout(500)
    return page.evaluate("v => performance.getEntriesByName(`redraw:${v}`).map((one) => one.duration)", view)


@pytest.mark.parametrize(("path", "view", "label"), SLIDERS)
def test_a_slider_redraws(page: Page, path: str, view: str, label: str) -> None:
    page.goto(f"/{path}")
    # A picture is drawn when somebody comes near it.
    page.locator(f'[data-view="{view}"] .figures').first.scroll_into_view_if_needed()
    page.locator(f'[data-view="{view}"] .drawn .main-svg').first.wait_for()
    page.wait_for_timeout(500)
    found = moved(page, view, label)
    assert len(found) > 10
    parts = quantiles(found, n=100)
    print(f"\n{view}: median {median(found):.0f} ms, p95 {parts[94]:.0f}, p99 {parts[98]:.0f}, {len(found)} redraws")


@pytest.mark.parametrize("path", ["/", "/book/1", "/book/4", "/book/6", "/book/10", "/estimate"])
def test_the_first_page_is_usable(browser: Browser, board: str, path: str) -> None:
    """When a page answers, sketched as far as it is in sight, and is drawn by Plotly: cold, then with scripts kept."""
    cold: list[tuple[float, ...]] = []
    warm: list[tuple[float, ...]] = []
    for _ in range(_STARTS):
        context = browser.new_context(viewport={"width": 1360, "height": 900}, base_url=board)
        page = context.new_page()
        page.add_init_script(_FRAME)
        cold.append(opened(page, path))
        warm.append(opened(page, path))
        # A page that is closed while it is busy takes time of the next.
        page.wait_for_timeout(1000)
        context.close()
    first, again = (
        ", ".join(f"{median(times):.2f} (at most {max(times):.2f})" for times in zip(*starts, strict=True))
        for starts in (cold, warm)
    )
    print(f"\n{path}: answers, has its first picture drawn after {first} s; then {again} s; medians of {_STARTS}")


def opened(page: Page, path: str) -> tuple[float, ...]:
    """Seconds by the page's own clock: the frame in which it answers and, where it has pictures, Plotly's drawing."""
    page.goto(path, wait_until="commit")
    page.wait_for_selector("html[data-ready]", state="attached")
    if path != "/":
        page.locator(".figures").first.scroll_into_view_if_needed()
        page.locator(".drawn .main-svg").first.wait_for()
    page.wait_for_load_state("load")
    page.wait_for_timeout(200)
    answering, drawn = page.evaluate("[window.answering, window.drawing]")
    return (answering / 1e3,) if drawn is None else (answering / 1e3, drawn / 1e3)


@pytest.mark.parametrize(
    ("view", "field"), [("batch", "context"), ("stages", "context"), ("cliff", "cliff"), ("lifetime", "rate")]
)
def test_a_small_question(board: str, view: str, field: str) -> None:
    """One client, one question after the other; numbers differ, so that nothing is answered from a cache."""
    times = []
    with httpx.Client(base_url=board, timeout=60) as client:
        for step in range(50):
            begun = time.perf_counter()
            assert client.get(f"/api/{view}", params={field: 1 + step if field == "rate" else 2000 + step}).is_success
            times.append(time.perf_counter() - begun)
    print(f"\n{view}: median {1e3 * median(times):.0f} ms")


def test_two_hundred_viewers(board: str) -> None:
    """Everybody moves sliders, a second apart on average, while two plans run."""
    # Playwright keeps a loop of its own running in this thread.
    with ThreadPoolExecutor(1) as thread:
        waits, codes = thread.submit(lambda: asyncio.run(_crowd(board))).result()
    print(
        f"\n{VIEWERS} viewers, {len(waits) / SECONDS:.0f} requests/s: median {1e3 * median(waits):.0f} ms, "
        f"p99 {1e3 * quantiles(waits, n=100)[98]:.0f} ms"
    )
    assert codes == {200}


async def _crowd(board: str) -> tuple[list[float], set[int]]:
    waits: list[float] = []
    codes: set[int] = set()
    limits = httpx.Limits(max_connections=VIEWERS + 10, max_keepalive_connections=VIEWERS + 10)
    async with httpx.AsyncClient(base_url=board, timeout=60, limits=limits) as client:
        end = time.perf_counter() + SECONDS

        async def viewer(k: int) -> None:
            await asyncio.sleep(PAUSE * k / VIEWERS)
            view, field = (("batch", "context"), ("stages", "context"), ("cliff", "cliff"), ("lifetime", "rate"))[k % 4]
            step = 0
            while time.perf_counter() < end:
                step += 1
                begun = time.perf_counter()
                response = await client.get(
                    f"/api/{view}", params={field: 2000 + 7 * k + step if field != "rate" else 1 + step}
                )
                waits.append(time.perf_counter() - begun)
                codes.add(response.status_code)
                await asyncio.sleep(max(PAUSE - waits[-1], 0))

        plans = [asyncio.create_task(client.get("/api/plan", params={"gpus": 16 + i})) for i in range(2)]
        await asyncio.gather(*(viewer(k) for k in range(VIEWERS)))
        codes |= {(await one).status_code for one in plans}
    return waits, codes
