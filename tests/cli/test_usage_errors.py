"""What a user reads who types a command line that does not exist: one line that says what to type."""

import pytest

from rackmath.cli.app import main


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("estimate", "MODEL, --on, --batch and --context are missing: give them, see `rackmath estimate --help`"),
        ("estimate llama-3.1-8b --on h100-sxm --batch 1", "--context is missing: give it, see `rackmath estimate --help`"),
        ("train m", "--on, --gpus and --tokens are missing: give them, see `rackmath train run --help`"),
        ("estimate m --bacth 1", "--bacth: no such option, did you mean --batch?; see `rackmath estimate --help`"),
        ("estimate m --tp 8", "--tp: no such option, did you mean --layout?; see `rackmath estimate --help`"),
        ("estimate m --system h100", "--system: no such option, did you mean --on?; see `rackmath estimate --help`"),
        ("plan m --cached 0.5", "--cached: no such option, did you mean --cached-prefix?; see `rackmath plan --help`"),
        ("simulate m --max-running-requests 8", "--max-running-requests: no such option, did you mean --max-num-seqs?; see"),
        ("plan m --tokens 1T", "--tokens: no such option of this command, but of train budget, train depth, train run;"),
        ("estimate m --input 1", "--input: no such option of this command, but of compare, plan, simulate, evidence list"),
        ("plan m --unheard-of 1", "--unheard-of: no such option; see `rackmath plan --help`"),
        ("fit m --on h100-sxm", "Got unexpected extra argument (m); name models with --models. See `rackmath fit --help`"),
        ("lecture racks m", "Got unexpected extra argument (m). See `rackmath lecture racks --help`"),
        ("nonsense", "No such command 'nonsense'. See `rackmath --help`"),
        ("fit --on h100-sxm --gpus few", "--gpus = 'few': "),
    ],
)  # fmt: skip
def test_a_line_says_what_to_type(words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"rackmath: {line}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", ["", "prices", "lecture"])
def test_a_group_alone_shows_its_commands(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    out, err = capsys.readouterr()
    assert end.value.code == 2
    assert err == ""
    assert "\nCommands:\n" in out
    assert len(out.splitlines()) > 10
