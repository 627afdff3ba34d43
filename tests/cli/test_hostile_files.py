"""Inputs that once ended in a traceback, or never: one line, exit status 2, nothing written."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rackmath.cli.app import main

LONG = "a" * 300
DIGITS = "9" * 400
SIMULATE = ("simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1")
MADE_UP = (*SIMULATE, "--poisson", "5", "--input", "10", "--output", "5", "--requests", "10")
ESTIMATE = ("estimate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--batch", "1", "--context", "100")


def failed(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    error = capsys.readouterr().err
    assert ended.value.code == 2, error
    return error


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str) -> None:
    error = failed(capsys, arguments)
    assert message in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", LONG), "unknown"),
        ((*SIMULATE, "--trace", LONG), "is no file"),
        ((*ESTIMATE, "--plot", f"{LONG}.svg"), "cannot be written"),
        ((*ESTIMATE, "--plot", "/proc/x.html"), "cannot be written"),
        (("predict", LONG, "--out", "o.csv"), "cannot be read"),
        ((*MADE_UP, "--seed", "-1"), "--seed"),
        ((*MADE_UP, "--tpot=-1"), "positive time"),
        ((*MADE_UP, "--prefix-block", "-1"), "--prefix-block"),
        ((*MADE_UP, "--draft-tokens", DIGITS), "finite"),
        (("sweep", "llama-3.1-8b", "--on", "h100-sxm", "--batch", "1:2:1000000000000", "--context", "9", "--layout", "tp1", "--out", "g"), "10,000,000"),
        (("train", "pipeline", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--backward-weight", "1e308"), "1e+12"),
        (("lecture", "cache", "llama-3.1-8b", "--on", "h100-sxm", "--memory-price", "1e-308"), "1e-12"),
    ],
)  # fmt: skip
def test_options_and_names(
    arguments: Sequence[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(capsys, arguments, message)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "/dev/zero", "--out", "o.csv"),
        ("predict", "/dev/full", "--out", "o.csv"),
        ("estimate", "llama-3.1-8b", "--on", "/dev/zero", "--batch", "1", "--context", "100"),
        ("model", "/dev/zero"),
        (*SIMULATE, "--trace", "/dev/zero"),
        ("prices", "agent", "--log", "/dev/zero"),
    ],
)
def test_files_without_end(
    arguments: Sequence[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(failed(capsys, arguments).strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_nobody_writes_to_is_not_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    refused(capsys, ("predict", str(pipe), "--out", str(tmp_path / "o.csv")), "is no regular file")


def test_totals_that_no_number_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "totals.json"
    path.write_text('{"total_params":1' + "0" * 400 + ',"active_params":1,"kv_bytes_per_token":1}')
    refused(capsys, ("model", str(path)), "at most 1e+18")


def test_json_lines_as_deep_as_a_reader_is_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text("[" * 10_000 + "]" * 10_000 + "\n")
    refused(capsys, (*SIMULATE, "--trace", str(path)), "line 1 is no JSON")


def replayed(path: Path, names: Sequence[object]) -> Result:
    rows = [
        json.dumps({"timestamp": i * 1000, "input_length": 1100, "output_length": 5, "hash_ids": list(names)})
        for i in range(5)
    ]
    path.write_text("\n".join(rows) + "\n")
    from rackmath.cli.app import cli

    return CliRunner().invoke(cli, [*SIMULATE, "--trace", str(path), "--json"], catch_exceptions=False)


def test_blocks_are_only_compared_whatever_their_names(tmp_path: Path) -> None:
    """Texts, as vLLM writes hashes, and numbers beyond 64 bit hit as the same blocks by small numbers do."""
    usual, *others = (
        json.loads(replayed(tmp_path / f"{place}.jsonl", names).stdout)
        for place, names in enumerate(([1, 2], ["ab", "cd"], [2**64 + 5, 7], [2**63 + 5, 7]))
    )
    assert usual["hit_tokens"] > 0
    for facts in others:
        assert facts["hit_tokens"] == usual["hit_tokens"]
        assert facts["latency"] == usual["latency"]
