"""Views in notebooks: the kernel's answers are the page's, and the script moves what it should, in a real browser."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

import rackmath as rm
from rackmath.errors import InputError
from rackmath.web import stills
from rackmath.web.pages import views
from rackmath.web.script import widget_script
from rackmath.web.widget import ViewWidget, widget


def on_one_gpu(**values: object) -> ViewWidget:
    return widget("estimate", model="llama-3.1-8b", on="h100-sxm", gpus=1, ideal=True, **values)


def test_a_control_that_moves_asks_again() -> None:
    shown = on_one_gpu(batch=8, context=1000)
    before = shown.html
    shown.values = {**shown.values, "batch": "16"}
    assert shown.html != before
    assert shown.shown is not None
    expected = rm.estimate("llama-3.1-8b", "h100-sxm", gpus=1, batch=16, context=1000, ideal=True)
    assert shown.shown.facts["time"] == pytest.approx(expected.time, rel=1e-12)
    assert "<svg" in shown.html
    assert shown.errors == {}


def test_what_is_refused_leaves_the_answer_and_names_its_field() -> None:
    shown = on_one_gpu(batch=8)
    before = shown.html
    shown.values = {**shown.values, "batch": "-1"}
    assert list(shown.errors) == ["batch"]
    assert shown.html == before
    shown.values = {**shown.values, "batch": "8", "layout": "tp3"}
    assert "tp3" in shown.errors[""]
    shown.values = {**shown.values, "layout": ""}
    assert shown.errors == {}


def test_a_result_s_numbers_are_taken_over() -> None:
    result = rm.estimate("llama-3.1-70b", rm.load_system("h200-sxm", gpus=4), batch=32, context=3000, ideal=True)
    shown = widget(result, context=5000)
    assert shown.shown is not None
    assert shown.shown.facts["time"] == pytest.approx(
        rm.estimate("llama-3.1-70b", rm.load_system("h200-sxm", gpus=4), batch=32, context=5000, ideal=True).time
    )
    run = rm.SimulateRequest(
        model="llama-3.1-8b", on="h100-sxm", gpus=1, poisson=3.0, requests=200, input=300, output=20
    )
    assert widget(run).values["rate"] == "3.0"
    assert widget("estimate", drafted=2).values["draft_tokens"] == "2", "a name from before its field was renamed"


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        (
            rm.BudgetRequest(law="besiroglu", params=8e9, tokens=15e12, inference_tokens=3e12),
            {"size": "8.0", "tokens": "15.0", "written": "3.0"},
        ),
        (
            rm.PipelineRequest(schedule="gpipe", stages=4, microbatches=8, send_time=0.1),
            {"schedule": "gpipe", "send": "0.1"},
        ),
        (
            rm.AgentRequest(model="gpt-5", instructions=700, turn_tokens=30, think_time=9),
            {"first": "700.0", "added": "30.0", "think": "9.0"},
        ),
    ],
)  # fmt: skip
def test_a_request_s_numbers_are_taken_over_in_the_units_of_its_page(asked: object, values: dict[str, str]) -> None:
    found = widget(asked)
    assert not found.errors
    assert values.items() <= found.values.items()


@pytest.mark.parametrize("name", [name for name, view in views().items() if not view.heavy])
def test_every_light_view_stands_in_a_cell(name: str) -> None:
    shown = widget(name)
    assert shown.errors == {}
    assert "<pre>rackmath " in shown.html
    json.dumps(shown.controls)


def test_lying_bars_lie_in_still_pictures_the_longest_on_top() -> None:
    answer = on_one_gpu(batch=8).shown
    assert answer is not None
    panel = stills._panel(answer.figures[-1])
    assert panel.is_horizontal
    assert panel.up == "ms"
    lengths = list(panel.series[0].y)
    assert lengths == sorted(lengths, reverse=True)
    assert panel.series[0].x[0] == "weights"


def test_a_text_from_a_name_is_no_markup() -> None:
    with pytest.raises(InputError, match=r"btach = 3: estimate has .*batch"):
        widget("estimate", btach=3)
    with pytest.raises(InputError, match="use one of"):
        widget("<b>")
    shown = on_one_gpu(batch=8)
    shown.values = {**shown.values, "layout": "<script>"}
    assert "<script>" not in shown.html


@pytest.mark.long
def test_sliders_fields_and_errors_of_the_script(page: Page) -> None:
    """A stand-in for a notebook's model: values that change, and who listens to them."""
    kernel = on_one_gpu(batch=8)
    state = {name: getattr(kernel, name) for name in ("title", "controls", "values", "html", "errors")}
    page.set_content("<div id=cell></div>")
    page.evaluate(
        """async ({script, state}) => {
            const url = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
            const view = (await import(url)).default;
            const heard = {};
            window.model = {
                saved: 0,
                get: name => state[name],
                set: (name, value) => { state[name] = value; (heard["change:" + name] || []).forEach(f => f()); },
                on: (name, f) => { (heard[name] ||= []).push(f); },
                off: (name, f) => { heard[name] = heard[name].filter(g => g !== f); },
                save_changes() { this.saved += 1; },
            };
            view.render({model: window.model, el: document.getElementById("cell")});
        }""",
        {"script": widget_script(), "state": state},
    )
    expect(page.locator("#cell dl dd").first).to_have_text("tp1,ep1,pp1,dp1")
    slider = page.get_by_label("sequences, slider")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("window.model.saved === 1")
    moved = float(page.evaluate("window.model.get('values').batch"))
    # The next value but one, though places of a logarithmic scale from 1 to 65,536 are finer there.
    assert moved == 10
    expect(slider).to_have_attribute("aria-valuetext", "10")
    page.evaluate("window.model.set('errors', {batch: 'batch: too many'})")
    expect(page.get_by_text("batch: too many")).to_be_visible()
    page.evaluate("window.model.set('html', '<dl><div><dt>a</dt><dd>other</dd></div></dl>')")
    expect(page.locator("#cell dl dd").first).to_have_text("other")
    expect(page.locator("#cell .spoken")).to_have_text("a other")
    group = page.locator("#cell details").filter(has_text="Another chip")
    expect(page.get_by_label("memory bandwidth, slider")).to_be_hidden()
    group.locator("summary").first.click()
    expect(page.get_by_label("memory bandwidth, slider")).to_be_visible()
