"""Ceilings, and the record that other commands take for a system."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import sleep

import pytest
import torch
from click.testing import CliRunner

from rackmath.cli.app import cli
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.lab import ceilings, machine, roofline
from rackmath.lab.ceilings import Ceilings
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Machine, timed
from rackmath.lab.predicted import balance_batch, pass_time, system_of
from rackmath.lab.record import record
from rackmath.models.architecture import Architecture


def test_time_is_per_run_whatever_the_loops() -> None:
    for pause in (1e-3, 5e-3):
        taken = timed(lambda p=pause: sleep(p), "cpu", repeats=5)
        assert pause <= taken.low <= taken.median <= taken.high < 10 * pause


def test_a_device_that_is_not_there_is_refused() -> None:
    if machine.find().device == "cuda":
        pytest.skip("this machine has every device that is asked for")
    with pytest.raises(InputError, match="this machine has"):
        machine.find("cuda")


def test_everything_is_measured_and_positive(measured: Ceilings) -> None:
    assert set(measured.precisions) >= {"fp32", "bf16"}
    assert all(0 < one.low <= one.rate <= one.high for one in measured.products)
    assert all(0 < one.low <= one.bandwidth <= one.high for one in measured.streams)
    assert measured.latency.median > 0
    # A product of few rows cannot be quicker per FLOP than the best.
    assert all(measured.rate(one.precision) >= one.rate for one in measured.products)


def test_bandwidth_lies_between_the_sizes_around_it(made_up: Ceilings) -> None:
    assert made_up.bandwidth(2**20) == pytest.approx(1e11)
    assert made_up.bandwidth(2**30) == pytest.approx(1e10)
    assert made_up.bandwidth(2**25.5) == pytest.approx(10**10.5)
    assert made_up.bandwidth(1) == pytest.approx(1e11)
    assert made_up.bandwidth(2**40) == pytest.approx(1e10)


def test_only_a_size_that_is_read_faster_is_said_to_be_in_cache(made_up: Ceilings) -> None:
    assert "1,024 KiB, in cache, at 100 GB/s" in roofline.findings(made_up)[1]
    flat = replace(made_up, streams=tuple(replace(s, bandwidth=1e10) for s in made_up.streams))
    assert roofline.findings(flat)[1] == "Reading 2,048 MiB runs at 10 GB/s."


def test_products_are_the_products_they_say(cpu: Machine) -> None:
    for precision in ceilings.precisions("cpu"):
        # Small matrices take turns by the hundred thousand.
        out = ceilings._multiply("cpu", precision, 3, 256, 512)()
        assert isinstance(out, torch.Tensor)
        assert out.shape == (3, 256)


def test_a_pass_is_the_slower_of_reading_and_computing_and_a_latency_for_each_operation(
    made_up: Ceilings, llama: Architecture
) -> None:
    arguments = {"phase": "decode", "batch": 1.0, "context": 1.0}
    plain = pass_time(made_up, llama, operations=0, **arguments)
    # 70 B weights at 16 bit and 10 GB/s, of which the embedding's 1.05 B are a look-up.
    assert plain == pytest.approx(2 * (70.55e9 - 1.05e9) / 1e10, rel=0.01)
    busy = pass_time(made_up, llama, operations=1000, **arguments)
    assert busy - plain == pytest.approx(1000 * 5e-6, rel=1e-3)


def test_the_knee_is_the_ratio_of_the_machine(made_up: Ceilings, llama: Architecture) -> None:
    """A dense model without context balances where 2 B / F = bytes / M: F bytes / 2 M = 1e12 x 2 / (2 x 1e10)."""
    assert balance_batch(made_up, llama, 1.0) == pytest.approx(100, rel=0.02)
    assert balance_batch(made_up, llama, 1e6) == float("inf")


def test_the_record_is_a_system_for_every_command(made_up: Ceilings, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(record(made_up, date(2026, 11, 21)), encoding="utf-8")
    assert tomllib.loads(path.read_text())["chip"]["rate"]["bf16"]["source"] == "lab-roofline"
    system = catalogue.system(str(path))
    assert system.chip.memory_bandwidth == pytest.approx(1e10)
    assert system.chip.rate("bf16") == pytest.approx(1e12)
    assert system.chip.memory_capacity == pytest.approx(made_up.machine.memory, rel=1e-5)
    assert system_of(made_up).chip.memory_bandwidth == system.chip.memory_bandwidth
    for arguments in (
        ["estimate", "llama-3.1-8b", "--batch", "1", "--context", "1024", "--ideal", "--json"],
        [
            "modes",
            "llama-3.1-8b",
            "--speed",
            "0.1",
            "--gpus",
            "1",
            "--input",
            "512",
            "--output",
            "128",
            "--usd-per-gpu-hour",
            "0.1",
        ],
        ["plan", "llama-3.1-8b", "--gpus", "1", "--input", "512", "--output", "128", "--usd-per-gpu-hour", "0.1"],
        ["cache", "llama-3.1-8b", "--usd-per-gpu-hour", "0.1"],
    ):
        result = CliRunner().invoke(cli, [*arguments, "--on", str(path)])
        assert result.exit_code == 0, result.output


def test_the_command_writes_the_record_or_nothing(tmp_path: Path) -> None:
    out, picture = tmp_path / "mine.toml", tmp_path / "roofline.svg"
    asked = ["lab", "roofline", "--small", "--seconds", "0.01", "--device", "cpu"]
    result = CliRunner().invoke(cli, [*asked, "--out", str(out), "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    assert "FLOP/s" in result.output
    assert catalogue.system(str(out)).chip.status == "measured"
    assert picture.stat().st_size > 5000
    refused = CliRunner().invoke(cli, [*asked, "--out", str(tmp_path / "mine.json")])
    assert isinstance(refused.exception, InputError)
    assert not (tmp_path / "mine.json").exists()


def test_errors_are_of_what_was_predicted(cpu: Machine) -> None:
    seen = ExperimentCurve(
        panel="p", name="n", across="x", up="s", x=[1, 2, 3], measured=[1.0, 2.0, 0.0], predicted=[2.0, 1.0, 1.0]
    )
    blind = ExperimentCurve(panel="p", name="m", across="x", up="s", x=[1], measured=[1.0])
    assert seen.errors == [1.0, -0.5]
    found = Experiment(name="e", title="t", machine=cpu, curves=[seen, blind])
    assert found.median_error == 0.75
    assert Experiment(name="e", title="t", machine=cpu, curves=[blind]).median_error is None
