"""Pages in a real browser: they load, answer, keep their state in the address, and can be used by everybody."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

import rackmath as rm
from rackmath.web.pages import pages, views

pytestmark = pytest.mark.long

PATHS = ["/", *pages()]


def opened(page: Page, path: str) -> None:
    """Open a page and wait until everything on it is drawn."""
    page.goto(path)
    page.wait_for_selector("html[data-ready]")
    for view in page.locator(".view").all():
        # What is out of sight is drawn when somebody comes near it.
        view.locator(".figures").scroll_into_view_if_needed()
        view.locator(".drawn .main-svg").first.wait_for(timeout=60_000)
    page.evaluate("scrollTo(0, 0)")


@pytest.fixture
def refusing(context: BrowserContext) -> Page:
    """A page whose browser may say that an answer was refused."""
    return context.new_page()


def shown(page: Page, view: str, name: str) -> Locator:
    """The place of a number of a view by the number's name; an expectation on it waits for the answer."""
    return page.locator(f'[data-view="{view}"] .pairs div', has=page.locator("dt", has_text=name)).first.locator("dd")


def value(page: Page, view: str, name: str) -> str:
    """A number of a view, as it stands now."""
    return shown(page, view, name).inner_text()


def everybody_can_use(page: Page) -> None:
    """Refuse what a screen reader or a keyboard cannot use; Plotly's own drawing is one image with a name to both."""
    # What stands far below is laid out when somebody comes near it: here all of it is.
    page.evaluate("for (const e of document.querySelectorAll('.view ~ *')) e.style.contentVisibility = 'visible'")
    violations = Axe().run(page, {"exclude": [[".drawn"]]}, {"resultTypes": ["violations"]}).response["violations"]
    assert not violations, json.dumps([(v["id"], v["nodes"][0]["html"]) for v in violations], indent=1)


@pytest.mark.parametrize("path", PATHS)
def test_every_page_loads_and_draws_and_everybody_can_use_it(page: Page, path: str) -> None:
    opened(page, path)
    expect(page.locator("h1")).to_be_visible()
    if path != "/":
        assert page.locator(".view").count() == len(pages()[path].views)
        for caption in page.locator("figcaption > span:first-child").all():
            assert caption.text_content()
    everybody_can_use(page)


def test_a_slider_changes_the_picture_and_the_number_is_python_s(page: Page) -> None:
    opened(page, "/estimate")
    drawn = "JSON.stringify(document.querySelector('[data-view=estimate] .drawn').data.at(-1).y.slice(0, 3))"
    before = page.evaluate(drawn)
    time = value(page, "estimate", "time of a pass")
    slider = page.get_by_label("sequences, slider")
    slider.focus()
    for _ in range(40):
        slider.press("ArrowRight")
    batch = page.locator("#estimate-batch").input_value()
    assert 64 < float(batch) < 1000
    step = rm.estimate("deepseek-v3", "h200-sxm", gpus=8, batch=batch, context=8192).step
    expect(shown(page, "estimate", "tokens/s")).to_contain_text(f"{float(step.tokens_per_second):,.0f}", timeout=60_000)
    assert value(page, "estimate", "time of a pass") != time
    page.get_by_label("context or prompt", exact=False).last.fill("65536")
    page.wait_for_function(f"before => {drawn} !== before", arg=before)


@pytest.mark.parametrize(
    ("label", "key", "value"),
    [("accelerators", "ArrowRight", "9"), ("accelerators", "ArrowDown", "7"), ("accelerators", "ArrowUp", "9")],
)
def test_an_arrow_moves_a_slider_to_the_next_value(page: Page, label: str, key: str, value: str) -> None:
    opened(page, "/estimate")
    slider = page.get_by_label(f"{label}, slider")
    slider.press(key)
    expect(slider.locator("xpath=../input[@type='number']")).to_have_value(value)
    expect(slider).to_have_attribute("aria-valuetext", value)
    # At an end an arrow does nothing.
    slider.press("End")
    at_the_end = slider.input_value()
    slider.press("ArrowRight")
    assert slider.input_value() == at_the_end


def test_a_screen_reader_hears_what_changed(page: Page) -> None:
    opened(page, "/estimate")
    spoken = page.locator('[data-view="estimate"] .spoken')
    # A page speaks for itself when it is opened.
    expect(spoken).to_be_empty()
    page.get_by_label("layout, or the fastest that fits").fill("tp8,ep8,pp1,dp1")
    expect(spoken).to_contain_text("layout tp8,ep8,pp1,dp1", timeout=30_000)
    page.get_by_label("sequences, slider").press("ArrowRight")
    # The layout is what it was.
    expect(spoken).not_to_contain_text("layout", timeout=30_000)
    expect(spoken).to_contain_text("time of a pass ")
    expect(spoken).to_contain_text(f"tokens/s {value(page, 'estimate', 'tokens/s')}")


def test_a_picture_out_of_sight_is_drawn_when_it_is_looked_at_or_printed(page: Page) -> None:
    opened(page, "/estimate")
    page.set_viewport_size({"width": 1280, "height": 300})
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(500)
    bars = "JSON.stringify([...document.querySelectorAll('[data-view=estimate] .drawn')].at(-1).data[0].x)"
    change = "(field, value) => { field.value = value; field.dispatchEvent(new Event('input', { bubbles: true })); }"
    for batch, look in (
        (512, "dispatchEvent(new Event('beforeprint'))"),
        (16, "scrollTo(0, document.body.scrollHeight)"),
    ):
        before = page.evaluate(bars)
        page.locator("#estimate-batch").evaluate(change, batch)
        expect(page.locator('[data-view="estimate"] .command code')).to_contain_text(f"--batch={batch}")
        page.wait_for_timeout(200)
        assert page.evaluate(bars) == before
        page.evaluate(look)
        page.wait_for_function(f"before => {bars} !== before", arg=before)
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(500)


SKETCHED = """svg => ({
    wrong: [...svg.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => /NaN|undefined|Inf/.test(a.value)).length,
    drawn: svg.querySelectorAll('path, circle, rect, polygon').length,
})"""


@pytest.mark.parametrize("path", ["/book/1", "/estimate", "/training", "/accuracy"])
def test_pictures_are_sketched_before_plotly_is_read(page: Page, path: str) -> None:
    waiting: list[Route] = []
    page.route("**/plotly.min.js", lambda route: waiting.append(route))
    page.goto(path, wait_until="domcontentloaded")
    for view in page.locator(".view:not([data-heavy])").all():
        view.locator(".figures").scroll_into_view_if_needed()
        view.locator(".sketch").first.wait_for()
    for svg in page.locator(".view .sketch").all():
        facts = svg.evaluate(SKETCHED)
        assert facts["drawn"] > 0
        assert facts["wrong"] == 0
    for route in waiting:
        route.continue_()
    page.locator(".view .figures").first.scroll_into_view_if_needed()
    page.locator(".view .drawn .main-svg").first.wait_for()
    expect(page.locator(".view .drawn .main-svg ~ .sketch, .view .drawn .sketch ~ .plot-container")).to_have_count(0)


@pytest.mark.parametrize("script", [True, False])
def test_names_of_curves_hide_them(refusing: Page, script: bool) -> None:
    """In the drawn picture and in the sketch before it, by keyboard, and after the next answer as well."""
    if not script:
        refusing.route("**/plotly.min.js", lambda route: route.abort())
    refusing.goto("/book/1", wait_until="domcontentloaded")
    figure = refusing.locator('[data-view="batch"] figure').first
    figure.scroll_into_view_if_needed()
    curves = figure.locator(".scatterlayer .trace" if script else ".sketch path")
    # A busy machine takes seconds to read Plotly.
    expect(curves).to_have_count(4, timeout=60_000)
    name = figure.get_by_role("button", name="memory alone")
    expect(name).to_have_attribute("aria-pressed", "true")
    name.focus()
    name.press("Enter")
    expect(curves).to_have_count(3)
    expect(name).to_have_attribute("aria-pressed", "false")
    with refusing.expect_response(lambda response: "/api/batch" in response.url):
        refusing.locator('[data-view="batch"]').get_by_label("context, slider").press("ArrowRight")
    refusing.wait_for_timeout(300)
    expect(curves).to_have_count(3)
    name.press("Enter")
    expect(curves).to_have_count(4)


def test_names_have_the_colours_of_their_curves(page: Page) -> None:
    opened(page, "/accuracy")
    figure = page.locator('[data-view="accuracy"] figure').first
    colour = "(marks) => marks.map((mark) => getComputedStyle(mark).color)"
    names = figure.locator(".legend .mark").evaluate_all(colour)
    assert len(set(names)) == len(names) == 11
    drawn = figure.locator(".scatterlayer .trace").evaluate_all(
        "(traces) => traces.map((trace) => trace.querySelector('.point')).filter(Boolean).map((p) => getComputedStyle(p).fill)"
    )
    assert set(drawn) == set(names[1:])


def test_a_sketch_has_the_values_of_its_figure_in_their_places(refusing: Page) -> None:
    refusing.route("**/plotly.min.js", lambda route: route.abort())
    refusing.goto("/book/1", wait_until="domcontentloaded")
    refusing.locator('[data-view="batch"] .figures').scroll_into_view_if_needed()
    sketch = refusing.locator('[data-view="batch"] .sketch').first
    labels = """(svg, anchor) => [...svg.querySelectorAll(`text[text-anchor=${anchor}][x]`)]
        .map(e => [e.textContent, e.getAttribute('x'), e.getAttribute('y')])"""
    across = {name: float(x) for name, x, _ in sketch.evaluate(labels, "middle")}
    up = {name: float(y) for name, _, y in sketch.evaluate(labels, "end")}
    # Decades of a batch are as far apart as each other; times grow upwards.
    decades = [across[name] for name in ("1", "10", "102", "103", "104", "105")]
    assert [b - a for a, b in pairwise(decades)] == pytest.approx([decades[1] - decades[0]] * 5)
    decade = up["10\N{MINUS SIGN}3"] - up["10\N{MINUS SIGN}2"]
    assert decade > 0
    # Compute alone is in proportion to the batch: five decades of one are five of the other.
    line = sketch.locator("path").first.get_attribute("d") or ""
    points = [tuple(float(v) for v in point.split()) for point in line[1:].split("L")]
    assert (points[0][1] - points[-1][1]) / decade == pytest.approx(5, abs=0.02)
    assert (points[0][0], points[-1][0]) == pytest.approx((decades[0], decades[-1]), abs=0.1)


TICKS = """const ticks = (place, selector) => [...place.querySelectorAll(selector)].map(e => [
    e.textContent.replaceAll(/[\\u200b\\u2009 ]/g, ''), e.getBoundingClientRect()])
    .map(([name, box]) => [name, box.left + box.width / 2, box.top + box.height / 2])"""
MOVED = f"""slider => {{
    {TICKS};
    const view = slider.closest('.view');
    slider.value = Number(slider.value) + 20;
    slider.dispatchEvent(new Event('input', {{ bubbles: true }}));
    return new Promise(done => {{
        const look = () => {{
            const cover = view.querySelector('.paper > .sketch');
            if (!cover) return requestAnimationFrame(look);
            const numbers = anchor => ticks(cover, `text[x][text-anchor=${{anchor}}]:not([font-size='14'])`);
            done([numbers('middle'), numbers('end')]);
        }};
        look();
    }});
}}"""
PLOTTED = f"""place => {{ {TICKS}; return [ticks(place, '.xtick text'), ticks(place, '.ytick text')]; }}"""


@pytest.mark.parametrize(
    ("path", "view", "label"),
    [
        ("/book/1", "batch", "context, slider"),
        ("/estimate", "estimate", "sequences, slider"),
        ("/estimate?estimate.picture=memory", "estimate", "sequences, slider"),
        ("/training", "budget", "and its tokens, slider"),
    ],
)
def test_a_picture_is_sketched_on_its_own_axes_while_a_control_moves(
    page: Page, path: str, view: str, label: str
) -> None:
    """The sketch that covers a picture has its numbers where Plotly has them a moment later."""
    opened(page, path)
    figure = page.locator(f'[data-view="{view}"] figure').first
    figure.scroll_into_view_if_needed()
    page.wait_for_timeout(600)
    sketched = page.locator(f'[data-view="{view}"]').get_by_label(label).evaluate(MOVED)
    expect(figure.locator(".paper > .sketch")).to_have_count(0)
    drawn = figure.locator(".drawn").evaluate(PLOTTED)
    for here, there, place in zip(sketched, drawn, (1, 2), strict=True):
        assert len(here) == len(there)
        # Digits between powers of ten occur more than once.
        places, marks = ({mark[0]: mark[place] for mark in every if len(mark[0]) > 1} for every in (here, there))
        assert places == pytest.approx(marks, abs=5)


def test_another_chip_is_made_with_sliders(page: Page) -> None:
    opened(page, "/estimate")
    group = page.locator('[data-view="estimate"] details.group')
    slider = page.get_by_label("memory bandwidth, slider")
    expect(slider).to_be_hidden()
    group.locator("summary").click()
    slider.focus()
    for _ in range(50):
        page.keyboard.press("ArrowRight")
    expect(page.locator('[data-view="estimate"] .command')).to_contain_text("[bandwidth=2x]")
    page.wait_for_url("**bandwidth_factor=2*")
    page.reload()
    expect(slider).to_be_visible()


def test_a_rack_is_drawn(page: Page) -> None:
    opened(page, "/estimate?estimate.picture=rack&estimate.batch=512")
    expect(page.locator("figcaption", has_text="what lies on each accelerator")).to_be_visible()
    expect(page.locator("figcaption", has_text="what crosses the links in a pass")).to_be_visible()


def test_a_run_is_replayed_by_a_slider_without_the_server(page: Page) -> None:
    opened(page, "/simulate?simulate.requests=1000&simulate.gpus=3")
    picture = page.locator("figure", has=page.locator(".moments"))
    slider, when = picture.locator(".moments input"), picture.locator(".moments output")
    heights = """place => place.querySelector(".drawn").data.map(trace => trace.y.reduce((a, b) => a + b, 0))"""
    assert sum(picture.evaluate(heights)) > 0
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    slider.focus()
    page.keyboard.press("End")
    # When the last answer has ended nobody is there.
    page.wait_for_function(f"() => ({heights})(document.querySelector('figure:has(.moments)')).every(sum => sum === 0)")
    assert slider.get_attribute("aria-valuetext") == when.inner_text()
    assert not asked
    # Drawn again in other colours it shows the same moment.
    page.locator("#theme").click()
    page.wait_for_function(f"() => ({heights})(document.querySelector('figure:has(.moments)')).every(sum => sum === 0)")
    assert slider.input_value() == slider.get_attribute("max")


def test_the_address_holds_the_state(page: Page, context: BrowserContext) -> None:
    opened(page, "/book/1")
    page.locator("#batch-context").fill("100000")
    page.locator("#batch-context").blur()
    page.locator("#batch-price").fill("99")
    page.locator("#batch-price").blur()
    page.wait_for_url(lambda url: parse_qs(urlparse(url).query) == {"batch.context": ["100000"], "batch.price": ["99"]})
    floor = "0.168 $ per million tokens"
    expect(shown(page, "batch", "cost that no batch amortises")).to_have_text(floor, timeout=60_000)
    other = context.new_page()
    opened(other, page.url)
    expect(shown(other, "batch", "cost that no batch amortises")).to_have_text(floor)
    assert other.locator("#batch-context").input_value() == "100000"
    other.reload()
    expect(shown(other, "batch", "cost that no batch amortises")).to_have_text(floor)
    page.go_back()
    expect(page.locator("#batch-price")).to_have_value("252")
    expect(page.locator("#batch-context")).to_have_value("100000")
    page.get_by_role("button", name="Back to the defaults").click()
    page.wait_for_url(lambda url: urlparse(url).query == "")


def test_presets_fill_the_fields(page: Page) -> None:
    opened(page, "/book/1")
    page.get_by_label("Take the numbers of").select_option("model: llama-3.1-405b")
    expect(shown(page, "batch", "sparsity S")).to_have_text("1")
    assert float(page.locator("#batch-active").input_value()) == pytest.approx(405.9, abs=0.1)
    assert "batch.active=405" in page.url


def test_errors_are_shown_where_they_arise(refusing: Page) -> None:
    page = refusing
    opened(page, "/estimate")
    box = page.get_by_label("layout, or the fastest that fits")
    with page.expect_response(lambda r: "layout=tp3" in r.url and r.status == 422):
        box.fill("tp3")
    note = page.locator("#estimate-layout-wrong")
    expect(note).to_be_visible()
    expect(box).to_have_attribute("aria-invalid", "true")
    box.fill("tp8")
    expect(note).to_be_hidden()
    page.locator("#estimate-batch").fill("-5")
    expect(page.locator("#estimate-batch-wrong")).to_contain_text("batch")
    page.locator("#estimate-batch").fill("8")
    expect(page.locator("#estimate-batch-wrong")).to_be_hidden()


CONFIG = json.dumps({
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 4096, "vocab_size": 32_000,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
})  # fmt: skip


def test_files_that_cannot_be_read_are_refused_in_place(refusing: Page, tmp_path: Path) -> None:
    page = refusing
    opened(page, "/estimate")
    bad, good = tmp_path / "bad.json", tmp_path / "config.json"
    bad.write_text("{", encoding="utf-8")
    page.get_by_label("A config.json of your own").set_input_files(bad)
    expect(page.locator('[data-view="estimate"] .errors')).to_contain_text("is no JSON")
    good.write_text(CONFIG, encoding="utf-8")
    page.get_by_label("A config.json of your own").set_input_files(good)
    expect(page.locator('[data-view="estimate"] .command code')).to_contain_text("config.json")
    assert "estimate.model=upload-" in page.url


@pytest.mark.parametrize("way", ["dropped", "dropped on a field", "pasted", "pasted as text"])
def test_a_config_is_dropped_on_its_view_or_pasted(page: Page, way: str) -> None:
    opened(page, "/estimate")
    page.evaluate(
        """([way, config]) => {
            const data = new DataTransfer();
            if (way === "pasted as text") data.setData("text/plain", config);
            else data.items.add(new File([config], "own.json"));
            const places = { "dropped": "[data-view=estimate] h2", "dropped on a field": "#estimate-batch" };
            document.querySelector(places[way] ?? "body").dispatchEvent(way in places
                ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
                : new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        }""",
        [way, CONFIG],
    )
    name = "pasted.json" if way == "pasted as text" else "own.json"
    expect(page.locator('[data-view="estimate"] select[name="estimate.model"] option:checked')).to_contain_text(name)
    expect(page.locator('[data-view="estimate"] .command code')).to_contain_text("config.json")


@pytest.mark.parametrize("way", ["pasted", "dragged"])
def test_text_that_a_field_takes_stays_there(page: Page, way: str) -> None:
    opened(page, "/estimate")
    is_left = page.locator("#estimate-batch").evaluate(
        """(field, way) => {
            const data = new DataTransfer();
            data.setData("text/plain", "{}");
            return field.dispatchEvent(way === "dragged"
                ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
                : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }""",
        way,
    )
    assert is_left
    page.wait_for_timeout(300)
    assert "upload-" not in page.url
    expect(page.locator('[data-view="estimate"] .errors')).to_be_empty()


def test_a_point_of_the_frontier_is_chosen_and_the_limits_dragged(page: Page) -> None:
    opened(page, "/plan")
    page.evaluate("""() => {
        const place = document.querySelector('[data-view=plan] .drawn');
        const trace = place.data.findIndex((one) => one.mode === 'markers' && one.x.length > 3);
        for (const at of [0, 2]) place.emit('plotly_click', { points: [{ data: place.data[trace], pointIndex: at }] });
    }""")
    cards = page.locator(".chosen .choices > div")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("a step goes to")
    cards.first.locator("summary", has_text="sglang").click()
    expect(cards.first.locator("pre").first).to_contain_text("deepseek-ai/DeepSeek-V3")
    expect(cards.first.locator("li").first).to_contain_text("flags of vLLM")
    page.evaluate("document.querySelector('[data-view=plan] .drawn').emit('plotly_relayout', { 'shapes[0].x0': 40 })")
    expect(page.locator("#plan-tpot")).to_have_value("0.025")
    expect(page.locator('[data-view="plan"] .command code')).to_contain_text("--tpot=0.025", timeout=60_000)
    line = page.locator('[data-view="plan"] .drawn').nth(1).locator(".shapelayer path").first
    before = float(page.locator("#plan-ttft").input_value())
    line.scroll_into_view_if_needed()
    # What was out of sight is drawn again when it comes into sight.
    page.wait_for_timeout(500)
    box = line.bounding_box()
    assert box is not None
    # A hand takes the second line and moves it to the left.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 30, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    expect(page.locator("#plan-ttft")).not_to_have_value(f"{before:g}")
    dragged = float(page.locator("#plan-ttft").input_value())
    assert 0.01 < dragged < before
    expect(page.locator('[data-view="plan"] .command code')).to_contain_text(f"--ttft={dragged:.15g}", timeout=60_000)


def test_a_long_question_can_be_cancelled(page: Page) -> None:
    opened(page, "/plan")
    page.locator("#plan-gpus").fill("144")
    page.get_by_role("button", name="Cancel").click(timeout=10_000)
    expect(page.locator('[data-view="plan"] .results')).to_have_attribute("aria-busy", "false")
    page.locator("#plan-gpus").fill("8")
    expect(page.locator('[data-view="plan"] .command code')).to_contain_text("--gpus=8 ", timeout=60_000)


def test_equations_are_solved_for_any_symbol(page: Page) -> None:
    opened(page, "/book/1")
    box = page.locator('[data-equation="balance-batch"]')
    assert page.locator(".equation form").count() == 0, (
        "a form that nobody opened is laid out by the browser's search for fields"
    )
    box.locator("summary").click()
    expect(box.locator(".steps li").last).to_contain_text("sequences")
    box.get_by_label("unknown").select_option("S")
    box.locator('input[name="B_star"]').fill("6240")
    expect(box.locator(".steps li").last).to_contain_text("S = 20")


def test_a_solution_that_comes_late_is_not_shown(page: Page) -> None:
    opened(page, "/book/1")
    box = page.locator('[data-equation="balance-batch"]')
    box.locator("summary").click()
    expect(box.locator(".steps li").last).to_contain_text("sequences")
    held: list[Route] = []
    page.route(lambda url: "symbol=S&" in url and "6240" not in url, lambda route: held.append(route))
    box.get_by_label("unknown").select_option("S")
    with page.expect_request(lambda request: "symbol=S&" in request.url):
        pass
    box.locator('input[name="B_star"]').fill("6240")
    expect(box.locator(".steps li").last).to_contain_text("S = 20")
    with page.expect_response(lambda response: "symbol=S&" in response.url):
        held[0].continue_()
    page.wait_for_timeout(200)
    expect(box.locator(".steps li").last).to_contain_text("S = 20")


def test_pictures_and_numbers_can_be_taken_along(page: Page) -> None:
    opened(page, "/book/4")
    for button, suffix in (("CSV", ".csv"), ("SVG", ".svg"), ("PNG", ".png"), ("JSON", ".json")):
        with page.expect_download() as found:
            page.get_by_role("button", name=button).first.click()
        assert found.value.suggested_filename.endswith(suffix)
        assert Path(found.value.path()).stat().st_size > 20


@pytest.mark.parametrize("path", ["/", "/book/1", "/plan"])
def test_everybody_can_use_dark_pages(page: Page, path: str) -> None:
    page.emulate_media(color_scheme="dark")
    opened(page, path)
    everybody_can_use(page)


@pytest.mark.parametrize("width", [360, 768, 3840])
def test_every_width_shows_everything(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("/book/1", "/prices", "/training"):
        opened(page, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_there_are_text_and_pictures(browser: Browser, board: str) -> None:
    context = browser.new_context(base_url=board, java_script_enabled=False)
    page = context.new_page()
    page.goto("/book/1?batch.context=100000")
    sentence = page.locator(".prose p", has_text="hyperbola").first
    sentence.scroll_into_view_if_needed()
    expect(sentence).to_be_visible()
    still = page.locator("img.still")
    expect(still).to_be_visible()
    assert page.locator("#batch-context").input_value() == "100000"
    page.locator("#batch-price").fill("50")
    page.get_by_role("button", name="Answer").click()
    assert "batch.price=50" in page.url
    context.close()


def test_the_theme_is_changed_and_kept(page: Page) -> None:
    opened(page, "/book/6")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_all_views_stand_on_pages() -> None:
    assert {name for one in pages().values() for name in one.views} == set(views())


def test_a_problem_is_checked_where_it_stands(page: Page) -> None:
    opened(page, "/book/2")
    problem = page.locator('[data-card="drain-b300"]')
    problem.get_by_role("textbox").fill("67.5ms")
    problem.get_by_role("button", name="Check").click()
    expect(problem.locator(".checked")).to_contain_text("too large by a factor of 2")
    problem.get_by_role("textbox").fill("34ms")
    problem.get_by_role("button", name="Check").click()
    expect(problem.locator(".checked")).to_contain_text("Right")


def test_cards_are_asked_drawn_and_remembered(page: Page) -> None:
    page.goto("/quiz")
    page.get_by_label("Cards of").select_option("2")
    card = page.locator(".quiz .card")
    expect(card).to_contain_text("worst-wait")
    card.get_by_role("textbox").fill("50ms")
    card.get_by_role("button", name="Check").click()
    expect(card).to_contain_text("Right.")
    expect(card.get_by_role("button", name="Next card")).to_be_visible()


def test_an_answer_is_kept_beside_the_next_with_what_differs(page: Page, context: BrowserContext) -> None:
    opened(page, "/book/1")
    view = page.locator('[data-view="batch"]')
    view.get_by_role("button", name="Keep this answer beside").click()
    expect(view.locator(".beside")).to_contain_text("same question")
    page.locator("#batch-bandwidth").fill("1152")
    expect(view.locator(".beside")).to_contain_text("bandwidth 576 instead of 1152")
    expect(shown(page, "batch", "latency floor").first).to_have_text("582 us")
    expect(view.locator(".pairs")).to_contain_text("beside: 1.16 ms, x 0.502")
    traces = "document.querySelector('[data-view=batch] .drawn').data.map(one => one.name)"
    page.wait_for_function(f"() => {traces}.includes('beside: yours')")
    other = context.new_page()
    opened(other, page.url)
    expect(other.locator('[data-view="batch"] .pairs')).to_contain_text("beside: 1.16 ms, x 0.502")
    view.get_by_role("button", name="Let the answer beside go").click()
    expect(view.locator(".beside")).to_be_hidden()
    assert "#" not in page.url


def test_a_difference_is_explained_by_its_parts(page: Page) -> None:
    opened(page, "/estimate")
    view = page.locator('[data-view="estimate"]')
    view.get_by_role("button", name="Keep this answer beside").click()
    page.locator("#estimate-batch").fill("512")
    expect(view.locator(".beside")).to_contain_text("The difference comes from", timeout=60_000)
    expect(view.locator(".beside")).to_contain_text(" ms)")


def test_a_question_goes_into_a_notebook(page: Page) -> None:
    opened(page, "/estimate")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Notebook").click()
    book = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    assert "rm.answer(rm.EstimateRequest(model='deepseek-v3', on='h200-sxm'" in "".join(book["cells"][1]["source"])
    opened(page, "/book/4")
    expect(page.get_by_role("button", name="Notebook")).to_be_hidden()
