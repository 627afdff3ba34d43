"""The doors: prices page, prices report, and pictures of all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli, main

DAY = ["--date", "2026-11-21"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["prices", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> str:
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit) as stop:
        main(["prices", *arguments])
    assert stop.value.code == 2
    assert said.getvalue().count("\n") == 1
    return said.getvalue()


def test_a_page_names_what_its_users_rely_on() -> None:
    (found,) = json.loads(run("page", "anthropic", *DAY, "--json"))
    assert found["provider"] == "anthropic"
    kinds = {one["kind"] for one in found["readings"]}
    assert {
        "cliff",
        "output / input",
        "cached / input",
        "write / input",
        "hour write / input",
        "fast",
        "batch",
    } <= kinds
    for reading in found["readings"]:
        names = [one["hypothesis"] for one in reading["hypotheses"]]
        assert names[-1] == "convention"
        assert reading["evaluated_for"] in reading["models"]
    cliff = next(one for one in found["readings"] if one["kind"] == "cliff")
    said = {one["hypothesis"]: one["log10_bayes_factor"] for one in cliff["hypotheses"]}
    assert said["crossover"] < said["attention"]
    assert any(one["what"] == "fast" and one["before"] == "x6" for one in found["changes"])


@pytest.mark.long
def test_all_pages_at_once_and_in_the_past() -> None:
    now, then = (json.loads(run("page", "--date", day, "--json")) for day in ("2026-11-21", "2026-02-10"))
    assert len(now) > 30
    cliffs = [
        {m["model"] for p in pages if p["provider"] == "anthropic" for m in p["models"]
         for r in m["ratios"] if r["kind"] == "cliff"}
        for pages in (now, then)
    ]  # fmt: skip
    assert "claude-opus-4-6" in cliffs[1] - cliffs[0]
    assert all(change["day"] <= "2026-02-10" for page in then for change in page["changes"])


def test_one_model_of_a_page() -> None:
    (found,) = json.loads(run("page", "anthropic", "--model", "claude-opus-5", *DAY, "--json"))
    assert [one["model"] for one in found["models"]] == ["claude-opus-5"]
    text = run("page", "anthropic", "--model", "claude-opus-5", *DAY, "--explain")
    assert "log10 BF" in text
    assert "1 / (1 - y (s - 1))" in text


@pytest.mark.long
def test_the_table_of_all_providers() -> None:
    text = run("page", *DAY)
    assert "openai" in text
    assert "272k (13)" in text


@pytest.mark.parametrize("suffix", [".png", ".svg", ".html"])
def test_pictures_are_written(tmp_path: Path, suffix: str) -> None:
    for number, arguments in enumerate(
        (
            ["page", "anthropic", *DAY],
            ["decode", "kimi-k2.6", *DAY],
            ["cost", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1"],
        )
    ):
        out = tmp_path / f"{number}{suffix}"
        run(*arguments, "--plot", str(out))
        assert out.stat().st_size > 3000
    out = tmp_path / f"agent{suffix}"
    result = CliRunner().invoke(cli, ["agent", "claude-opus-5-5", *DAY, "--plot", str(out)])
    assert result.exit_code == 0
    assert out.stat().st_size > 3000


def test_a_report_is_one_page_that_needs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("report", "kimi-k2.6", "--html", *DAY)
    text = (tmp_path / "kimi-k2.6.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="http', text)
    assert text.count("<svg") == 3
    for heading in ("What hosts ask", "What that implies", "The ratios", "What this cannot tell", "Sources"):
        assert heading in text
    assert "KV bytes per token: not identified" in text
    decoded = json.loads(run("decode", "kimi-k2.6", *DAY, "--json"))[0]["active_params"]
    assert f"Between {decoded['low90'] / 1e9:.3g} and {decoded['high90'] / 1e9:.3g} billion" in text


def test_names_in_a_report_are_escaped(tmp_path: Path) -> None:
    from rackmath.cli.prices import report_html

    rows = report_html._table(("a",), [("<b>&",)])
    assert "&lt;b&gt;&amp;" in rows
    assert "<b>" not in rows


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["page", "antropic"], "anthropic"),
        (["page", "--model", "gpt-5"], "--model"),
        (["page", "anthropic", "--model", "gpt-5"], "--model"),
        (["page", "--plot", "a.png"], "--plot"),
        (["page", "anthropic", "--plot", "a.gif"], "--plot"),
        (["page", "--date", "yesterday"], "--date"),
        (["report", "kimi-k2.6"], "--html"),
        (["report", "kimi-k26", "--html", "a.html"], "near names"),
        (["report", "kimi-k2.6", "--html", "a.pdf"], "--html"),
        (["report", "kimi-k2.6", "--html", "a.html", "--provider", "nobody"], "--provider"),
        (["decode", "--input", "1", "--cliff", "5"], "cliff"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    arguments: list[str], field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert field in refused(*arguments)
    assert not list(tmp_path.iterdir())
