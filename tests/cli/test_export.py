"""``--html FILE``: any answer as one page."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackmath.cli.app import main
from rackmath.cli.export import split_option
from rackmath.errors import InputError

ESTIMATE = ["estimate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--batch", "16", "--context", "4k"]


def status_of(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    return int(stop.value.code or 0)


def test_a_page_holds_the_answer_its_picture_and_the_line_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answer.html"
    assert status_of(*ESTIMATE, "--html", str(out)) == 0
    text, printed = out.read_text(encoding="utf-8"), capsys.readouterr().out
    assert "rackmath estimate llama-3.1-8b --on h100-sxm --gpus 1 --batch 16 --context 4k</code>" in text
    for line in printed.splitlines():
        assert line.strip().replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#x27;") in text
    assert text.count("<svg") == 1
    assert "<script" not in text
    assert "src=" not in text
    assert list(tmp_path.iterdir()) == [out]


def test_commands_without_pictures_and_in_groups_have_pages(tmp_path: Path) -> None:
    for words in (["model", "llama-3.1-8b"], ["lecture", "solve", "balance-batch", "--for", "B_star", "R=300", "S=8"]):
        out = tmp_path / f"{words[0]}.html"
        assert status_of(f"--html={out}", *words) == 0 or status_of(*words, f"--html={out}") == 0
        assert "<pre>" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*ESTIMATE, "--html"), "name a file"),
        ((*ESTIMATE, "--html", "a.html", "--html=b.html"), "is there twice"),
        ((*ESTIMATE, "--html", "a.pdf"), "end the name with .html"),
        ((*ESTIMATE, "--json", "--html", "a.html"), "leave --json out"),
        ((*ESTIMATE, "--html", "none/a.html"), "its folder does not exist"),
        (("estimate", "nothing", "--on", "h100-sxm", "--batch", "1", "--context", "1", "--html", "a.html"), "nothing"),
        (("fly", "--html", "a.html"), "fly"),
    ],
)
def test_what_cannot_be_a_page_is_one_line_and_leaves_nothing(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(*words) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_option_is_taken_out_of_the_words() -> None:
    assert split_option(["a", "--html", "f", "b"]) == (["a", "b"], "f")
    assert split_option(["--html=f"]) == ([], "f")
    assert split_option(["a"]) == (["a"], None)
    with pytest.raises(InputError, match="--html"):
        split_option(["--html"])
