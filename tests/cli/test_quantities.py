"""One notation in every command: suffixes, units, fractions; a speed or a time, requests or tokens."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rackmath.api.rates import RequestRate, TokenRate, requests_per_second, tokens_per_second
from rackmath.cli.app import COMMANDS, cli
from rackmath.cli.quantities import NUMBER, SECONDS, SPEED, TIME_PER_TOKEN, WholeNumber
from rackmath.errors import RackmathError
from rackmath.units import parse

PLAN = ["plan", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "4", "--output", "300", "--one-pool"]


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def options_of(command: click.Command) -> list[click.Option]:
    found = [p for p in command.params if isinstance(p, click.Option)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += options_of(inner)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_of_every_command_takes_the_notation(name: str) -> None:
    command = cli.get_command(click.Context(click.Group()), name)
    assert command is not None
    for option in options_of(command):
        assert not isinstance(option.type, (click.types.FloatParamType, click.types.IntParamType)) or isinstance(
            option.type, (WholeNumber, click.FloatRange)
        ), (name, option.opts)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("128k", "1", 128e3), ("15T", "1", 15e12), ("70B", "1", 70e9), ("40GB", "B", 40e9), ("20ms", "s", 0.02),
        ("90PFLOP/s", "FLOP/s", 90e15), ("1/64", "1", 1 / 64), ("1/64 s", "s", 1 / 64), ("2mo", "s", 60 * 86_400.0),
        ("80%", "1", 0.8), ("2.5e3", "1", 2500.0), ("1_000", "1", 1000.0), ("5 min", "s", 300.0), ("1yr", "s", 31_557_600),
    ],
)  # fmt: skip
def test_units(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value)


@pytest.mark.parametrize("text", ["1/0", "1/", "1/2/3", "/2", "k", "1..2", "12 parsecs", "nan", "1e999"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(RackmathError):
        parse(text, "s")


def test_a_speed_or_a_time_per_token() -> None:
    assert TIME_PER_TOKEN.convert("20ms", None, None) == pytest.approx(0.02)
    assert TIME_PER_TOKEN.convert("50tok/s", None, None) == pytest.approx(0.02)
    assert TIME_PER_TOKEN.convert("50 tokens/s", None, None) == pytest.approx(0.02)
    assert SPEED.convert("50", None, None) == 50
    assert SPEED.convert("20ms", None, None) == pytest.approx(50)
    assert SPEED.convert("50 tok/s", None, None) == 50
    assert SECONDS.convert("2min", None, None) == 120
    assert NUMBER.convert(3, None, None) == 3
    for wrong in (TIME_PER_TOKEN, SPEED):
        with pytest.raises(RackmathError):
            wrong.convert("0 tok/s" if wrong is TIME_PER_TOKEN else "0ms", None, None)


def test_requests_or_tokens_per_second() -> None:
    assert requests_per_second(TokenRate(3000), 300) == 10
    assert requests_per_second(10, 300) == 10
    assert tokens_per_second(RequestRate(10), 300) == 3000
    assert tokens_per_second(3000, 300) == 3000


def test_a_plan_is_the_same_in_either_notation() -> None:
    plain = run(*PLAN, "--input", "3000", "--tpot", "0.02", "--ttft", "0.5", "--rate", "20", "--cached-prefix", "0.5")
    other = run(
        *PLAN, "--input", "3k", "--tpot", "50tok/s", "--ttft", "500ms", "--rate", "6000 tok/s", "--cached-prefix", "1/2"
    )
    assert {k: v for k, v in plain.items() if k != "seconds"} == {k: v for k, v in other.items() if k != "seconds"}


@pytest.mark.long
def test_other_commands_take_the_notation() -> None:
    base = ["estimate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--batch", "8"]
    assert run(*base, "--context", "128k")["time"] == run(*base, "--context", "128000")["time"]
    simulated = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--gpus", "1", "--input", "1k", "--output", "200"]
    slow = run(*simulated, "--requests", "1k", "--poisson", "2", "--ttft", "500ms")
    assert slow["requests"] == 1000
    assert (
        run(*simulated, "--requests", "1000", "--poisson", "400 tok/s", "--ttft", "0.5")["latency"] == slow["latency"]
    )
    solved = [run("solve", "throughput", "--for", "X", "B=2000", text)["value"] for text in ("t=1/64", "t=15.625ms")]
    assert solved[0] == pytest.approx(solved[1]) == pytest.approx(128_000)
    served = run("solve", "served-tokens", "--for", "N_tokens", "rate_served=500M", "lifetime=2mo")
    assert served["value"] == pytest.approx(2.592e15)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [(["--gpus", "1.5"], "--gpus"), (["--ttft", "5 GB"], "--ttft"), (["--input", "many"], "--input")],
)
def test_an_error_names_the_option(arguments: list[str], field: str) -> None:
    given = [*PLAN, "--input", "1000", *arguments]
    result = CliRunner().invoke(cli, given)
    assert isinstance(result.exception, RackmathError)
    assert field in str(result.exception)
