"""``experts`` prints a layout that a person can read, and JSON that adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackmath.cli.app import main


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    try:
        main(["experts", *arguments])
    except SystemExit as stop:
        assert stop.code in (0, 2), stop.code
    said = capsys.readouterr()
    return said.out, said.err


def test_bytes_are_those_of_the_places(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(_run(capsys, "deepseek-v3", "--on", "gb200-nvl72", "--weights", "bf16", "--json")[0])
    one = 3 * 7168 * 2048 * 2
    assert facts["bytes_per_rank"] == pytest.approx(4 * one * 58)
    assert facts["redundant_bytes"] == pytest.approx(32 * one * 58)
    assert len(facts["held"]) == 72
    assert sum(len(row) for row in facts["held"]) == 288


def test_the_table_names_every_expert_once_where_they_divide(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = _run(capsys, "gpt-oss-120b", "--on", "h100-sxm", "--ranks", "4")
    assert [f"{i * 32}-{i * 32 + 31}" in out for i in range(4)] == [True] * 4
    assert "flags" not in out


def test_copies_bring_their_flags_and_stars(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = _run(capsys, "deepseek-v3", "--on", "gb200-nvl72")
    assert "32-35 " in out
    assert "0*" in out
    assert '{"num_redundant_experts": 32}' in out
    assert "--ep-num-redundant-experts 32" in out


def test_a_picture_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _run(capsys, "deepseek-v3", "--on", "gb200-nvl72", "--plot", str(tmp_path / "experts.svg"))
    assert (tmp_path / "experts.svg").read_text().count("<use") >= 288


def test_experts_are_said_to_be_chosen_evenly_only_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["estimate", "gpt-oss-120b", "--on", "h100-sxm", "--gpus", "4", "--batch", "64", "--context", "1k"]
    for more, evenly in (((), True), (("--expert-skew", "0.5"), False), (("--expert-correlation", "0.5"), False)):
        with pytest.raises(SystemExit):
            main([*words, *more])
        assert ("evenly" in capsys.readouterr().out) == evenly, more


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (["llama-3.1-8b", "--on", "h100-sxm"], "no experts"),
        (["deepseek-v3", "--on", "gb200-nvl72", "--redundant", "31"], "redundant"),
        (["deepseek-v3", "--on", "gb200-nvl72", "--ranks", "0"], "--ranks"),
    ],
)
def test_what_cannot_be_meant_is_one_line(wrong: list[str], field: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = _run(capsys, *wrong)
    assert not out
    assert field in err
    assert err.count("\n") == 1
