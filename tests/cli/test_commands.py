"""The doors: contract keys, exit codes, one-line errors, help with a worked example."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rackmath.cli.app import COMMANDS, MOVED, cli, main
from rackmath.io import catalogue

DATA = Path(__file__).parents[1] / "data"
PLAN = ["plan", "qwen3-30b-a3b", "--on", "h100-sxm", "--gpus", "4", "--input", "2000", "--output", "500"]
LIMITS = ["--ttft", "2", "--tpot", "0.03"]
ESTIMATE = ["estimate", "deepseek-v3", "--on", "gb200-nvl72", "--batch", "2048", "--context", "8192"]
KEYS = {
    ("model", "deepseek-v3"): (
        "name total_params active_params embedding_params kv_bytes_per_token kv_window_bytes_per_token state_bytes "
        "weight_bytes flops_per_token defaulted not_understood"
    ),
    tuple(ESTIMATE): (
        "time time_low time_high bound_by terms fits memory_per_gpu tokens_per_second tokens_per_second_per_gpu "
        "usd_per_million_tokens assumptions"
    ),
    (*PLAN, *LIMITS): "evaluated seconds frontier best launch",
    ("solve", "balance-batch", "--for", "B_star", "R=300", "S=8"): "value unit latex steps",
}
LIST_KEYS = {
    ("systems",): "name memory_capacity memory_bandwidth rates sources",
    ("models",): "name total_params active_params source",
    ("claims", "--only", "drain-rubin"): ("id statement lecture with_lecture_inputs with_real_inputs verdict why"),
    ("solve",): "id equation symbols",
    ("prices", "decode", "--input", "0.6", "--output", "2.5"): (
        "model active_params total_params kv_bytes_per_token margin cannot_tell"
    ),
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err


@pytest.mark.parametrize("command", KEYS, ids=lambda c: c[0])
def test_json_holds_the_contracts_keys(capsys, command: tuple[str, ...]) -> None:
    status, out, err = run(capsys, *command, "--json")
    assert (status, err) == (0, "")
    assert set(KEYS[command].split()) <= set(json.loads(out))


@pytest.mark.parametrize("command", LIST_KEYS, ids=lambda c: c[0])
def test_json_lists_hold_the_contracts_keys(capsys, command: tuple[str, ...]) -> None:
    status, out, _ = run(capsys, *command, "--json")
    assert status == 0
    assert all(set(LIST_KEYS[command].split()) <= set(entry) for entry in json.loads(out))


def test_the_main_job_prints_a_readable_result(capsys) -> None:
    status, out, _ = run(capsys, *ESTIMATE)
    assert status == 0
    for word in ("range", "bound by", "memory per GPU", "fits", "cost", "assumed", "layout tp1,ep72,pp1,dp72"):
        assert word in out


def test_explain_shows_operators_and_equations(capsys) -> None:
    status, out, _ = run(capsys, *ESTIMATE, "--explain")
    assert status == 0
    for word in ("max(FLOPs / rate", "mlp.experts.gate_proj", "self_attn.kv_b_proj", "dispatch"):
        assert word in out


def test_ideal_has_no_range(capsys) -> None:
    _, out, _ = run(capsys, *ESTIMATE, "--ideal", "--json")
    facts = json.loads(out)
    assert facts["time"] == facts["time_low"] == facts["time_high"] == facts["time_ideal"]
    _, out, _ = run(capsys, *ESTIMATE, "--json")
    ranged = json.loads(out)
    assert facts["time"] < ranged["time_low"] < ranged["time"] < ranged["time_high"]


def test_what_does_not_fit_is_an_answer(capsys) -> None:
    status, out, _ = run(capsys, "estimate", "deepseek-v3", "--on", "h100", "--batch", "1", "--context", "1", "--json")
    assert status == 0
    assert json.loads(out)["fits"] is False


def test_formats_given_by_the_user_change_bytes_and_time(capsys) -> None:
    base = [
        "estimate",
        "llama-3.1-70b",
        "--on",
        "h200",
        "--gpus",
        "1",
        "--batch",
        "1",
        "--context",
        "100",
        "--ideal",
        "--json",
    ]
    wide = json.loads(run(capsys, *base)[1])
    narrow = json.loads(run(capsys, *base, "--weights", "fp8", "--kv", "fp8")[1])
    assert narrow["memory"]["cache"] == wide["memory"]["cache"] / 2
    assert narrow["time"] < 0.6 * wide["time"]


def test_a_price_can_be_given_and_is_asked_for_where_none_is_known(capsys) -> None:
    base = ["estimate", "llama-3.1-8b", "--on", "tpu-v6e", "--gpus", "1", "--batch", "1", "--context", "1", "--json"]
    unknown = json.loads(run(capsys, *base)[1])
    assert unknown["usd_per_million_tokens"] is None
    assert any("--usd-per-gpu-hour" in note for note in unknown["assumptions"])
    given = json.loads(run(capsys, *base, "--usd-per-gpu-hour", "3.6")[1])
    assert given["usd_per_million_tokens"] == pytest.approx(given["time"] * 1000, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("Usage",)),
        (("fly",), ("fly",)),
        (("estimate",), ("MODEL",)),
        (("model", "no-such-model"), ("MODEL", "no-such-model", "lists all")),
        (("model", "no/such/config.json"), ("MODEL", "cannot be read")),
        (("model", "."), ("holds no config.json",)),
        (("model", "deepseek-v3", "--kv", "fp7"), ("kv", "fp7", "bf16")),
        (("estimate", "deepseek-v3"), ("--on",)),
        ((*ESTIMATE[:3], "nowhere", *ESTIMATE[4:]), ("SYSTEM", "nowhere")),
        ((*ESTIMATE, "--gpus", "0"), ("--gpus", "0")),
        ((*ESTIMATE, "--gpus", "many"), ("--gpus", "many")),
        ((*ESTIMATE, "--layout", "tp3"), ("layout",)),
        ((*ESTIMATE, "--batch", "nan"), ("batch", "nan")),
        ((*ESTIMATE, "--batch", "-5"), ("batch", "-5")),
        ((*ESTIMATE, "--context", "inf"), ("context", "inf")),
        ((*ESTIMATE, "--phase", "train"), ("--phase", "train")),
        ((*ESTIMATE, "--weights", "fp3"), ("weights", "fp3")),
        ((*ESTIMATE, "--usd-per-gpu-hour", "0"), ("--usd-per-gpu-hour",)),
        ((*ESTIMATE, "--colour"), ("--colour",)),
        (
            ("estimate", "llama-3.1-8b", "--on", "m3-ultra", "--gpus", "2", "--batch", "1", "--context", "1"),
            ("span more",),
        ),
        (("solve", "nonsense"), ("EQUATION", "nonsense")),
        (("solve", "balance-batch", "--for", "B_star", "R"), ("R", "symbol=number")),
        (("solve", "balance-batch", "--for", "B_star", "R=1", "R=2"), ("twice",)),
        (("claims", "--only", "nothing"), ("--only", "nothing")),
    ],
)
def test_bad_input_is_one_line_and_exit_status_two(capsys, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    status, out, err = run(capsys, *arguments)
    if not arguments:  # no command: the help is the answer
        assert words[0] in out + err
        return
    assert status == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert all(word in err for word in words), err


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": NaN}', "\x00", '{"hidden_size": 1e400}', "[" * 100_000])
def test_broken_files_are_one_line(capsys, tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    status, out, err = run(capsys, "model", str(path))
    assert status == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1


def test_a_truncated_config_is_refused(capsys, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 40')
    assert "is no JSON" in run(capsys, "model", str(path))[2]


def test_a_model_is_read_by_folder_file_or_totals(capsys, tmp_path: Path) -> None:
    from importlib.resources import files

    raw = json.loads((files("rackmath") / "data/models/qwen3-8b.json").read_text())["config"]
    (tmp_path / "config.json").write_text(json.dumps(raw))
    by_folder = json.loads(run(capsys, "model", str(tmp_path), "--json")[1])
    by_file = json.loads(run(capsys, "model", str(tmp_path / "config.json"), "--json")[1])
    by_name = json.loads(run(capsys, "model", "qwen3-8b", "--json")[1])
    assert by_folder["total_params"] == by_file["total_params"] == by_name["total_params"] == 8_190_735_360
    totals = tmp_path / "closed.json"
    totals.write_text(json.dumps({"total_params": 8e11, "active_params": 1e11, "kv_bytes_per_token": 2000}))
    closed = json.loads(run(capsys, "model", str(totals), "--json")[1])
    assert (closed["total_params"], closed["active_params"], closed["kv_bytes_per_token"]) == (8e11, 1e11, 2000)


# The board serves until somebody stops it; tests/web runs it.
@pytest.mark.parametrize("name", sorted({*COMMANDS, *MOVED.values()} - {"board"}))
def test_every_command_has_help_with_a_worked_example_that_runs(capsys, tmp_path, monkeypatch, name: str) -> None:
    for file in ("rows.csv", "run.json"):
        shutil.copy(DATA / file, tmp_path)
    shutil.copy(DATA / "rows.csv", tmp_path / "mine.csv")
    trace = "".join(f"{i * 1.5},{100 + 7 * (i % 13)},{20 + i % 5}\n" for i in range(120))
    (tmp_path / "trace.csv").write_text(f"arrival,input,output\n{trace}")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    example = text.split("Example: rackmath ", maxsplit=1)[1].split("(")[0]
    status, out, err = run(capsys, *example.split())
    # Fitting, searching and simulating say how they get on, on standard error.
    assert (
        status,
        "".join(line for line in err.splitlines() if not line.startswith(("calibrate:", "plan:", "simulate:", "lab:"))),
    ) == (
        0,
        "",
    )
    assert out


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_old_names_go_on_working_and_tell_people_the_new_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    assert old not in COMMANDS
    whole = run(capsys, *new.split(), "--help")
    # A script sees no difference: one line on standard error is a refusal.
    assert run(capsys, old, "--help") == whole
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(capsys, old, "--help") == (0, whole[1], f"rackmath {old} is `rackmath {new}` now\n")


def test_model_without_a_name_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(run(capsys, "model", "--json")[1])
    assert [entry["name"] for entry in listed] == catalogue.model_names()
    assert json.loads(run(capsys, "models", "--json")[1]) == listed


def test_fit_has_a_line_for_each_model_and_a_column_for_each_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "model_names", lambda: ["qwen3-8b", "qwen3-30b-a3b"])
    out = run(capsys, "fit", "--on", "rtx-4090", "--no-evidence", "--host-memory", "64GB")[1]
    rows = json.loads(run(capsys, "fit", "--on", "rtx-4090", "--no-evidence", "--host-memory", "64GB", "--json")[1])
    lines = [line.split() for line in out.splitlines()]
    (head,) = (line for line in lines if line[:2] == ["model", "params"])
    for name in ("qwen3-30b-a3b", "qwen3-8b"):
        (line,) = (line for line in lines if line[:1] == [name])
        # The parameters have a unit of their own.
        cells = dict(zip(head[2:], line[3:], strict=False))
        for row in rows:
            if row["model"] == name:
                cell = cells[row["weights"]]
                assert cell.endswith("*") == bool(row["offloaded_bytes"])
                assert float(cell.rstrip("*")) == pytest.approx(row["tokens_per_second"], rel=5e-3)
    assert [line[0] for line in lines if line and line[0].startswith("qwen3")] == ["qwen3-30b-a3b", "qwen3-8b"]


def test_help_lists_few_commands() -> None:
    """Those that the contract names by themselves (memory, fit, quiz among them) or an issue does (traffic); everything else is in a group."""
    assert len(COMMANDS) <= 20


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, rackmath.cli.app; print([m for m in ('numpy', 'sympy', 'pydantic', 'rich') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", catalogue.model_names())
def test_every_catalogue_model_runs_on_a_rack(capsys, name: str) -> None:
    status, out, err = run(
        capsys, "estimate", name, "--on", "gb200-nvl72", "--batch", "72", "--context", "4096", "--json"
    )
    assert (status, err) == (0, "")
    facts = json.loads(out)
    assert 0 < facts["time_low"] < facts["time"] < facts["time_high"] < 10
    assert facts["fits"]


@pytest.mark.parametrize("name", catalogue.system_names())
def test_every_catalogue_system_runs_a_model(capsys, name: str) -> None:
    status, out, err = run(
        capsys, "estimate", "llama-3.2-1b", "--on", name, "--gpus", "1", "--batch", "1", "--context", "100", "--json"
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["fits"]


def test_a_plan_holds_the_contracts_keys_at_every_point(capsys) -> None:
    _, out, _ = run(capsys, *PLAN, *LIMITS, "--json")
    facts = json.loads(out)
    wanted = set(
        [
            "layout",
            "batch",
            "tokens_per_second_per_gpu",
            "tokens_per_second_per_user",
            "time_to_first_token",
            "time_per_output_token",
            "usd_per_million_output_tokens",
            "bound_by",
        ]
    )
    assert all(wanted <= set(point) for point in facts["frontier"])
    assert wanted - {"bound_by"} <= set(facts["best"])
    assert {"vllm", "sglang"} <= set(facts["launch"])
    assert facts["best"]["time_per_output_token"] <= 0.03
    for name in ("tokens_per_second_per_gpu", "usd_per_million_output_tokens", "time_to_first_token"):
        assert facts["best"][f"{name}_low"] < facts["best"][name] < facts["best"][f"{name}_high"]
    # One dollar buys the tokens of one accelerator for as long as it pays for.
    cost, speed = (facts["best"][k] for k in ("usd_per_million_output_tokens", "tokens_per_second_per_gpu"))
    hourly = catalogue.system("h100-sxm").price * 3600
    assert cost == pytest.approx(hourly / (speed * 3600) * 1e6)


def test_a_plan_is_readable_and_says_how_to_launch(capsys) -> None:
    status, out, err = run(capsys, *PLAN, *LIMITS, "--explain")
    assert status == 0
    assert "configurations in" in err
    for word in (
        "best under the limits",
        "frontier",
        "stopped by",
        "vllm serve",
        "sglang.launch_server",
        "@ best under the limits",
    ):
        assert word in out


def test_limits_that_nothing_keeps_are_an_answer(capsys) -> None:
    status, out, _ = run(capsys, *PLAN, "--ttft", "0.001", "--json")
    facts = json.loads(out)
    assert (status, facts["best"], facts["frontier"]) == (0, None, [])
    assert "shortest time to first token" in facts["reason"]
    status, out, _ = run(capsys, *PLAN, "--tpot", "0.0001")
    assert status == 0
    assert "no deployment keeps the limits" in out
    assert "per output token" in out


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["--input", "nan"], "--input = 'nan'"),
        (["--output", "-3"], "output = -3"),
        (["--gpus", "0"], "--gpus = '0'"),
        (["--ttft", "-1"], "time_to_first_token"),
        (["--cached-prefix", "1.5"], "cached prefix"),
        (["--weights", "fp7"], "fp7"),
        (["--draft-tokens", "0,x"], "--draft-tokens = 'x'"),
        (["--rate", "1e9"], "requests per second"),
    ],
)
def test_bad_plans_get_one_line(capsys, wrong: list[str], why: str) -> None:
    status, out, err = run(capsys, *PLAN, *wrong)
    assert (status, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1


def test_modes_hold_the_contracts_points(capsys) -> None:
    status, out, _ = run(capsys, "modes", *PLAN[1:], "--json")
    facts = json.loads(out)
    assert status == 0
    for name in ("fast", "standard", "slow"):
        assert {"speed_ratio", "price_ratio", "why"} <= set(facts[name])
    assert facts["standard"]["speed_ratio"] == facts["standard"]["price_ratio"] == 1
    assert facts["waiting"]["idle_at_mean"] == pytest.approx(0.5)
    assert facts["train"]["worst"] == pytest.approx(2 * facts["train"]["period"])
    status, _, err = run(capsys, "modes", *PLAN[1:], "--peak-to-mean", "0.5")
    assert (status, err.count("\n")) == (2, 1)


def test_a_cache_holds_the_contracts_facts_by_tier(capsys) -> None:
    call = ("cache", "deepseek-v3", "--on", "h200-sxm", "--layout", "ep8,dp8", "--context", "50000")
    status, out, _ = run(capsys, *call, "--json")
    facts = json.loads(out)
    assert status == 0
    wanted = {"tier", "drain_time", "hold_usd_per_million_hour", "retrieve_usd_per_million"}
    assert all(wanted <= set(t) for t in facts["tiers"])
    assert [s["from"] for s in facts["cheapest"]][1:] == [s["to"] for s in facts["cheapest"]][:-1]
    assert set(facts["products"]) == {"5 minutes", "30 minutes", "1 hour", "12 hours"}
    # Dearer devices move the break-even with the accelerator's own memory later.
    _, dearer, _ = run(capsys, *call, "--memory-price", "4", "--json")
    assert json.loads(dearer)["cheapest"][0]["to"] > facts["cheapest"][0]["to"]
    for wrong in (["--tiers", "tape"], ["--context", "0"], ["--years", "-1"], ["--memory-price", "nan"]):
        status, out, err = run(capsys, *call, *wrong)
        assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "call",
    [
        ["sparsity", "--on", "gb200-nvl72", "--dense", "1e9", "--users", ""],
        ["sparsity", "--on", "gb200-nvl72", "--dense", "1e9", "--experts", ","],
        ["racks", "--kv-bytes", "0"],
        ["racks", "--on", ""],
        ["compare", *PLAN[1:], "--weights", ""],
        [
            "sweep",
            "llama-3.1-8b",
            "--on",
            "h100-sxm",
            "--layout",
            "tp1",
            "--gpus",
            "0",
            "--batch",
            "1",
            "--context",
            "9",
        ],
        ["fleet", *PLAN[1:], "--tokens-per-second", "nan"],
        ["context", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--slowest", "0"],
        ["modes", *PLAN[1:], "--speedup", "1"],
    ],
    ids=lambda call: f"{call[0]} {call[-2]}",
)
def test_empty_lists_and_zeros_get_one_line(capsys, tmp_path, call: list[str]) -> None:
    more = ["--out", str(tmp_path / "grid")] if call[0] == "sweep" else []
    status, out, err = run(capsys, *call, *more)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not list(tmp_path.iterdir())


def test_a_reader_may_go_away_before_the_end() -> None:
    """As ``head`` does: a table that nobody reads to its end is no error."""
    words = [sys.executable, "-m", "rackmath", "systems"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        error = process.stderr.read()
    assert (process.returncode, error) == (0, b"")
