"""Answers: those of the command line, bounded, refused with their field; headers; files that are sent."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape, unescape
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from pydantic import ValidationError

import rackmath as rm
from rackmath.api import explore as api_explore
from rackmath.api.answers import answer
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.fields import field_named
from rackmath.cli.app import cli
from rackmath.engine.collectives import all_reduce
from rackmath.errors import InputError, RackmathError
from rackmath.io import catalogue, quiz_files
from rackmath.lecture.book import CHAPTERS
from rackmath.lecture.equations import EQUATIONS
from rackmath.lecture.quiz import cards_of
from rackmath.web import equations, shown, uploads
from rackmath.web.app import create_app
from rackmath.web.controls import controls
from rackmath.web.inputs import Inputs, asking, slider, text
from rackmath.web.pages import pages, views
from rackmath.web.security import HEADERS, TOKEN


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(1)
    with TestClient(app, base_url="http://127.0.0.1:8765", headers={TOKEN: app.state.token}) as client:
        yield client


@pytest.mark.parametrize("name", list(views()))
def test_every_view_answers_its_defaults(client: TestClient, name: str) -> None:
    response = client.get(f"/api/{name}")
    assert response.status_code == 200, response.text
    found = response.json()
    assert set(found) == {"figures", "pairs", "tables", "facts", "command", "python", "notes"}
    assert found["figures"]
    for figure in found["figures"]:
        assert figure["title"]
        assert all(len(trace["x"]) == len(trace["y"]) for trace in figure["data"])
    assert found["command"].startswith("rackmath ")


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("estimate", {"model": "llama-3.1-70b", "on": "h100-sxm", "gpus": 4, "batch": 32, "weights": "fp8"}),
        ("estimate", {"model": "deepseek-v3", "on": "gb200-nvl72", "gpus": 72, "phase": "prefill", "ideal": True}),
        ("cache", {"model": "llama-3.1-8b", "on": "h200-sxm", "context": 5000}),
        ("budget", {"law": "hoffmann", "written": 3}),
        ("agent", {"turns": 12, "sessions": 3}),
        ("decode", {"input": 1.25, "output": 10}),
        ("simulate", {"requests": 300, "rate": 5, "seed": 3}),
        ("memory", {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 2, "max_num_batched_tokens": 16_384}),
        ("memory", {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 2, "memory_factor": 0.5}),
        ("fit", {"on": "rtx-3090", "models": "gpt-oss-120b,qwen3-8b", "weights": "q4_k_m", "host_memory": 64}),
        ("explore", {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "batch": 16}),
        ("explore", {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "over": "flops", "low": 0.5, "high": 2}),
    ],
)
def test_the_json_is_that_of_the_command_beside_it(client: TestClient, name: str, query: dict[str, object]) -> None:
    found = client.get(f"/api/{name}", params=query).json()
    line = shlex.split(found["command"])
    result = CliRunner().invoke(cli, [*line[1:], "--json"])
    assert result.exit_code == 0, result.output
    typed = json.loads(result.stdout)
    for facts in (found["facts"], typed):
        if isinstance(facts, dict):
            facts.pop("seconds", None)
    assert found["facts"] == typed
    if found["python"]:
        asked = eval(found["python"], {"rm": rm}).to_dict()
        if isinstance(asked, dict):
            asked.pop("seconds", None)
        assert json.loads(json.dumps(asked)) == found["facts"]


@pytest.mark.parametrize("name", ["estimate", "plan", "memory", "fit", "explore", "simulate", "cache", "train"])
def test_pages_of_a_system_have_sliders_for_another_chip(name: str) -> None:
    shown_controls = controls(views()[name].inputs, {"memory_factor": "2"})
    group = [c for c in shown_controls if c["group"]]
    assert [c["name"] for c in group] == [
        "bandwidth_factor", "memory_factor", "flops_factor", "scale_up_factor", "price_factor",
        *(["host_factor"] if name not in ("memory", "cache") else []),
    ]  # fmt: skip
    assert [c["name"] for c in group if c["changed"]] == ["memory_factor"]
    # At a factor of one the slider stands in the middle.
    assert group[0]["place"] == group[0]["steps"] // 2


def test_another_chip_is_answered_as_set_does(client: TestClient) -> None:
    query = {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 1, "batch": 8, "ideal": True, "price_factor": 3}
    usual = client.get("/api/estimate", params=query | {"price_factor": 1}).json()
    dearer = client.get("/api/estimate", params=query).json()
    per_token = "usd_per_million_tokens"
    assert dearer["facts"][per_token] == pytest.approx(3 * usual["facts"][per_token], rel=1e-9)
    faster = client.get("/api/estimate", params=query | {"bandwidth_factor": 4, "price_factor": 1}).json()
    assert faster["facts"]["time"] == pytest.approx(usual["facts"]["time"] / 4, rel=1e-9)
    assert "h100-sxm[bandwidth=4x]" in faster["command"]
    line = "estimate llama-3.1-8b --on h100-sxm --set bandwidth=4x --gpus 1 --batch 8 --context 8192 --ideal --json"
    typed = CliRunner().invoke(cli, shlex.split(line))
    assert json.loads(typed.stdout)["time"] == pytest.approx(faster["facts"]["time"], rel=1e-12)
    slow = query | {"ideal": False, "host_factor": 8}
    assert "h100-sxm[price=3x;engine.host=8x]" in client.get("/api/estimate", params=slow).json()["command"]
    refused = client.get("/api/estimate", params={"on": "rtx-4090", "scale_up_factor": 2})
    assert refused.status_code == 422
    assert "scale_up" in refused.text


def test_a_plan_has_launch_commands_for_every_point(client: TestClient) -> None:
    found = client.get("/api/plan", params={"model": "llama-3.1-70b", "gpus": 8}).json()
    points = found["figures"][0]["points"]
    assert len(points) == len(found["figures"][0]["data"][-2]["x"])
    assert all("launch" in one for one in points)
    assert found["figures"][0]["limit"] == {"field": "tpot", "at": 20.0, "inverse": True}
    assert found["figures"][1]["limit"] == {"field": "ttft", "at": 2.0, "inverse": False}
    none = client.get("/api/plan", params={"model": "llama-3.1-70b", "gpus": 8, "ttft": 0.01}).json()
    assert none["figures"][0]["points"] == []
    assert "allow a longer" in dict(none["pairs"])["best under the limits"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/estimate?batch=-1", "batch"),
        ("/api/estimate?batch=nan", "batch"),
        ("/api/estimate?batch=many", "batch"),
        ("/api/estimate?gpus=100000000", "gpus"),
        ("/api/estimate?model=/etc/passwd", "model"),
        ("/api/estimate?model=../../config.json", "model"),
        ("/api/fit?models=qwen3-8b,/etc/passwd", "models"),
        ("/api/memory?model=upload-0123456789abcdef", "upload"),
        ("/api/estimate?on=system.toml", "on"),
        ("/api/estimate?layout=tp3", "layout"),
        ("/api/estimate?colour=red", "colour"),
        ("/api/estimate?model=upload-0123456789abcdef", "upload"),
        ("/api/simulate?trace=/etc/passwd", "trace"),
        ("/api/simulate?tiers=hbm", "tiers"),
        ("/api/agent?model=/etc/passwd", "model"),
        ("/api/decode?model=../secret.csv", "model"),
        ("/api/decode?model=secret.csv", "model"),
        ("/api/rack?experts=4&chosen=8", "chosen"),
        ("/api/pipeline?stages=32&microbatches=128", "microbatches"),
        ("/api/solve?equation=nothing&symbol=B", "equation"),
        ("/api/solve?equation=step-time&symbol=Q", "for"),
        ("/api/solve?equation=step-time&symbol=t&given=B=-4", "B"),
        ("/api/claims?chapter=7", "chapter"),
    ],
)
def test_what_cannot_be_meant_names_its_field(client: TestClient, path: str, field: str) -> None:
    response = client.get(path)
    assert response.status_code == 422, response.text
    errors = response.json()["errors"]
    assert field in [one["field"] for one in errors], errors
    assert all("\n" not in one["message"] and "Traceback" not in one["message"] for one in errors)


def test_every_answer_has_the_strict_headers(client: TestClient) -> None:
    for path in ("/", "/estimate", "/api/batch", "/static/0/board.js", "/nowhere", "/api/estimate?batch=-1"):
        headers = client.get(path).headers
        for name, value in HEADERS.items():
            assert headers[name] == value, path
    policy = HEADERS["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "http" not in policy


@pytest.mark.long
def test_pages_hold_their_text_and_first_answer_without_scripts(client: TestClient) -> None:
    for path, page in pages().items():
        text = client.get(path).text
        assert page.text[0][:40] in unescape(text)
        assert all(f"/still/{name}.svg" in text for name in page.views)
    for name in {name for page in pages().values() for name in page.views}:
        picture = client.get(f"/still/{name}.svg")
        assert picture.text.startswith("<svg"), name
        assert picture.text.count("<rect") + picture.text.count("<path") > 3
    still = client.get("/still/batch.svg?batch.active=70")
    assert still.headers["content-type"].startswith("image/svg+xml")
    assert "time of a step" in still.text
    assert client.get("/still/batch.svg").text != still.text


def test_the_address_of_a_page_is_its_state(client: TestClient) -> None:
    text = client.get("/estimate?estimate.batch=512&estimate.model=llama-3.1-8b&estimate.ideal=true").text
    assert 'name="estimate.batch" value="512"' in text
    assert '<option value="llama-3.1-8b" selected>' in text
    assert "llama-3.1-8b --on=h200-sxm --gpus=8 --batch=512" in text
    for address, control in (
        ("/estimate?estimate.drafted=2", 'name="estimate.draft_tokens" value="2"'),
        ("/prices?decode.cached=0.3", 'name="decode.cached_input" value="0.3"'),
    ):
        assert control in client.get(address).text, "a link from before its field was renamed"
    wrong = client.get("/estimate?estimate.batch=-4")
    assert wrong.status_code == 200
    assert "batch: " in wrong.text


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "", "x" * 500, "1e400", "<script>", "%00", "../../etc/passwd"])
def test_no_address_breaks_a_page(client: TestClient, value: str) -> None:
    for path, field in (
        ("/estimate", "estimate.batch"), ("/estimate", "estimate.model"), ("/book/1", "batch.context"),
        ("/simulate", "simulate.gpus"), ("/accuracy", "accuracy.chip"), ("/plan", "nothing.of"), ("/prices", "decode.cached_input"),
        ("/memory", "memory.max_model_len"), ("/fit", "fit.host_memory"), ("/explore", "explore.low"),
    ):  # fmt: skip
        response = client.get(path, params={field: value})
        assert response.status_code == 200, (path, field)
        assert '<script>"' not in response.text
        assert client.get(f"/still/{field.split('.')[0]}.svg", params={field: value}).status_code in (200, 404, 422)


def test_a_config_of_one_s_own(client: TestClient) -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 4096, "vocab_size": 32_000,
        "torch_dtype": "bfloat16", "tie_word_embeddings": False, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
    }  # fmt: skip
    name = client.post("/api/uploads/config?name=config.json", content=json.dumps(config)).json()["name"]
    for view in ("estimate", "plan"):
        found = client.get(f"/api/{view}", params={"model": name, "gpus": 1, "on": "h100-sxm"})
        assert found.status_code == 200, found.text
        assert "config.json" in found.json()["command"]
        assert "/tmp" not in found.text


def test_a_trace_of_one_s_own(client: TestClient) -> None:
    text = "arrival,input,output\n" + "".join(f"{i / 5},500,20\n" for i in range(50))
    name = client.post("/api/uploads/trace?name=t.csv", content=text).json()["name"]
    found = client.get("/api/simulate", params={"trace": name})
    assert found.status_code == 200, found.text
    assert found.json()["facts"]["requests"] == 50


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("config", "config.json", b"{"), ("config", "config.json", b""), ("config", "model.bin", b"{}"),
        ("trace", "t.parquet", b"PAR1"), ("trace", "../../etc/cron.csv.sh", b"x"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(client: TestClient, kind: str, name: str, content: bytes) -> None:
    response = client.post(f"/api/uploads/{kind}", params={"name": name}, content=content)
    assert response.status_code == 422
    assert response.json()["errors"][0]["message"]


def test_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_MOST", 3)
    monkeypatch.setitem(uploads.LARGEST, "config", 100)
    with pytest.raises(InputError, match="send 1 to 100 bytes"):
        uploads.keep("config", "c.json", b'"' + b"x" * 200 + b'"')
    names = [uploads.keep("config", "c.json", f'{{"a": {i}}}'.encode()) for i in range(5)]
    with pytest.raises(InputError, match="send the file again"):
        uploads.path_of(names[0])
    assert uploads.path_of(names[4]).exists()


@pytest.mark.long
def test_sliders_are_answered_beside_heavy_questions(client: TestClient) -> None:
    """One process for long answers, two that wait: light ones still come at once."""
    with ThreadPoolExecutor(4) as threads:
        heavy = [threads.submit(client.get, "/api/plan", params={"gpus": 100 + i}) for i in range(3)]
        for i in range(10):
            assert client.get("/api/batch", params={"context": 1000 + i}).status_code == 200
        # A clock says how busy the machine is: ten light answers are there before the first heavy one.
        assert not any(one.done() for one in heavy)
        assert all(one.result().status_code == 200 for one in heavy)


def test_too_many_long_questions_are_refused_and_long_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from rackmath.web import app

    real = app.Workers
    monkeypatch.setattr(app, "Workers", lambda count, longest: real(count, waiting=1, longest=0.05))
    with TestClient(create_app(1), base_url="http://127.0.0.1") as client, ThreadPoolExecutor(3) as threads:
        codes = [one.result().status_code for one in [threads.submit(client.get, "/api/plan") for _ in range(3)]]
    assert set(codes) <= {408, 429}
    assert 408 in codes
    assert 429 in codes


def test_every_equation_is_markup_and_solves_with_its_usual_numbers() -> None:
    count = 0
    for chapter in range(1, 7):
        for one in equations.of_chapter(chapter):
            assert one["mathml"].startswith("<math")
            given = {s["name"]: s["usual"] for s in one["symbols"]}
            found = equations.solved(one["id"], one["unknown"], given)
            assert found["value"] is not None, one["id"]
            count += 1
    assert count == len(EQUATIONS)


@pytest.mark.long
def test_chapters_stand_whole_on_their_pages(client: TestClient) -> None:
    for chapter in CHAPTERS:
        text = client.get(f"/book/{chapter.number}").text
        assert escape(chapter.question) in text
        assert text.count("<math") >= chapter.text.count("$$") // 2
        assert "$$" not in text
        # A word in a formula is one name, which a screen reader says and does not spell.
        assert not re.search(r'mathvariant="normal">\w</mi><mi mathvariant="normal"', text)
        assert "<!--" not in text
        assert ".md)" not in text
        for card in cards_of(chapter.number):
            assert f'data-card="{card.id}"' in text
        for name in re.findall(r"/book/(\w+)\.svg", chapter.text):
            assert client.get(f"/figures/{name}.svg").text.count("<path") > 3
    assert client.get("/figures/none.svg").status_code == 422


def test_the_ledger_is_filtered_by_its_address(client: TestClient) -> None:
    every = client.get("/ledger").text
    assert "50 of 50 claims" in every
    some = client.get("/ledger", params={"ruling": "does not hold", "words": "attention"}).text
    assert "2 of 50 claims" in some
    assert "not at millions" in some
    assert "0 of 50" in client.get("/ledger", params={"chapter": "<script>"}).text
    assert client.get("/figures/ledger.svg").text.count("<path") > 5


def test_pages_of_the_lecture_have_moved_with_their_state(client: TestClient) -> None:
    moved = client.get("/lecture/3?stages.stages=8", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (308, "/book/6?stages.stages=8")
    assert client.get("/lecture/7").status_code == 404


def test_the_quiz_asks_checks_and_remembers(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKMATH_DATA", str(tmp_path / "data"))
    first = client.get("/api/quiz/next", params={"chapter": 1}).json()
    assert (first["due"], first["new"]) == (0, first["all"])
    assert "answer" not in first["card"]
    card = first["card"]["id"]
    assert client.get("/api/quiz/check", params={"card": card, "reply": "206"}).json()["right"] is True
    assert client.get("/api/quiz/check", params={"card": card, "reply": "ten"}).status_code == 422
    assert client.get("/api/quiz/answer", params={"card": "none"}).status_code == 422
    kept = client.post("/api/quiz/remember", params={"card": card, "rating": 3})
    assert kept.status_code == 200, kept.text
    assert client.get("/api/quiz/next", params={"chapter": 1}).json()["card"]["id"] != card
    assert set(quiz_files.read_progress()) == {card}
    refused = client.post("/api/quiz/remember", params={"card": card, "rating": 3}, headers={TOKEN: "none"})
    assert refused.status_code == 403
    assert client.post("/api/quiz/remember", params={"card": card, "rating": 9}).status_code == 422
    assert client.get("/api/quiz/sketch.svg", params={"card": "sketch-drain"}).text.startswith("<svg")
    assert client.get("/api/quiz/sketch.svg", params={"card": card}).status_code == 422


def test_controls_are_made_of_fields() -> None:
    found = {c["name"]: c for c in controls(views()["estimate"].inputs, {"batch": "4096"})}
    assert found["batch"]["kind"] == "slider"
    assert (found["batch"]["low"], found["batch"]["high"]) == (1, 65_536)
    assert found["batch"]["place"] == 300
    assert found["phase"]["values"] == ["decode", "prefill"]
    assert "deepseek-v3" in found["model"]["values"]
    assert found["ideal"]["kind"] == "tick"


def test_fields_are_those_of_the_request_with_its_help_and_its_checks(client: TestClient) -> None:
    """A page has no inputs of its own: what the request refuses, the field refuses."""

    @asking(EstimateRequest, aliases={"accelerators": "gpus"}, own_fields=("colour",))
    class Question(Inputs):
        accelerators: float = slider(8, 1, 100, "accelerators")
        phase: str = text("decode", "phase")
        colour: str = text("blue", "colour")

    assert Question(phase="prefill", colour="any").accelerators == 8
    gpus, draft_tokens = (field_named(EstimateRequest, name) for name in ("gpus", "draft_tokens"))
    assert gpus is not None
    assert draft_tokens is not None
    assert Question.model_fields["accelerators"].description == gpus.option.help
    for wrong, why in (({"accelerators": 1.5}, "write a whole number"), ({"phase": "sideways"}, "use one of decode")):
        with pytest.raises(ValidationError, match=why):
            Question(**wrong)
    with pytest.raises(KeyError, match="colour"):
        asking(EstimateRequest, aliases={"accelerators": "gpus"})(Question)
    spoken = client.get("/openapi.json").json()["paths"]["/api/estimate"]["get"]["parameters"]
    said = {one["name"]: one.get("description") for one in spoken}
    assert said["draft_tokens"] == draft_tokens.option.help


def test_live_figures_of_the_book_say_what_its_chapters_say(client: TestClient) -> None:
    waits = client.get("/api/departures", params={"period": 20, "capacity": 80, "bandwidth": 3.35}).json()
    assert waits["facts"] == pytest.approx({"drain_time": 80 / 3350, "median": 0.030, "worst": 0.040})
    assert ["requests in a pass", "10"] in waits["pairs"]
    # Llama 3.1 70B keeps 320 KiB a token: 16 conversations of its weights' bytes over that.
    kept = client.get("/api/conversation", params={"model": "llama-3.1-70b", "context": 4096, "batch": 16}).json()[
        "facts"
    ]
    assert kept["cache"] == 4096 * 80 * 2 * 8 * 128 * 2
    exact = kept["weights"] / (16 * 80 * 2 * 8 * 128 * 2)
    assert exact <= kept["outweighs_from"] < 1.1 * exact
    h100 = catalogue.system("h100-sxm")
    sums = client.get("/api/collective", params={"on": "h100-sxm", "ranks": 8, "batch": 256}).json()["facts"]
    assert sums["bytes"] == 256 * 8192 * 2
    assert sums["time"] == float(all_reduce(256 * 8192 * 2.0, 8.0, h100))
    assert sums["pass"] == pytest.approx(160 * sums["time"])
    assert client.get("/api/collective", params={"on": "m4", "ranks": 2}).status_code == 422


class _Taken(Exception):
    """A request was made of a page's values."""


@pytest.mark.parametrize("name", list(views()))
def test_every_value_of_a_control_is_one_that_the_request_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of the pages are those of requests: each choice, and both ends of each number."""
    here = get_ident()

    def only_here(request: Any) -> Any:
        """A board of another test may still be warming up in a thread of its own."""
        if get_ident() == here:
            raise _Taken
        return answer(request)

    for module in (shown, api_explore):
        monkeypatch.setattr(module, "answer", only_here)
    view = views()[name]
    for control in controls(view.inputs, {}):
        kind, field = control["kind"], control["name"]
        values = control["values"] if kind in ("choice", "system") else (True, False) if kind == "tick" else ()
        values = (control["low"], control["high"]) if kind in ("slider", "number") else values
        for value in values:
            try:
                view.answer(view.inputs(**{field: value}))
            except _Taken:
                continue
            except RackmathError as error:
                # A page says itself which of its numbers contradict each other; a single value never fails.
                assert name in ("rack", "pipeline", "simulate", "collective"), (name, field, value, str(error))


def test_answering_prints_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [EstimateRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, context=1000, batch=b) for b in range(1, 21)]
    with ThreadPoolExecutor(4) as threads:
        times = list(threads.map(lambda request: answer(request).time, asked))
    assert times == sorted(times)
    assert capsys.readouterr() == ("", "")
