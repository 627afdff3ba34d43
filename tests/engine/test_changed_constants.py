"""Constants of an engine at other values: what ``--set engine.host=0.5x`` changes, and nothing beside it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from click.testing import CliRunner

import rackmath as rm
from rackmath.cli.app import cli
from rackmath.engine.losses import Losses
from rackmath.engine.term import LOG
from rackmath.engine.terms import OF_LOSSES, OF_SCHEDULING, TERM
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file


def constants(name: str, family: str = "sglang", year: float = 2023.0, *, eager: bool = False) -> dict[str, Any]:
    """All constants of an engine on a system of that name: an old one, which has most of them."""
    system = catalogue.system(name)
    engine = constants_file.engine_of(system, family, year, eager)
    losses = constants_file.losses_of(system, engine, "time per token")
    values = {f.name: getattr(losses, f.name) for f in fields(Losses) if f.name in (*OF_LOSSES, "started")}
    scheduling = constants_file.scheduling_of(engine)
    return values | {name: getattr(scheduling, name) for name in OF_SCHEDULING}


@pytest.mark.parametrize("name", [n for n in (*OF_LOSSES, *OF_SCHEDULING) if TERM[n].scale == LOG])
def test_twice_a_constant_is_twice_and_no_other_moves(name: str) -> None:
    usual, other = constants("h100-sxm"), constants(f"h100-sxm[engine.{name}=2x]")
    assert other[name] == pytest.approx(2 * usual[name])
    assert {key for key in usual if usual[key] != other[key]} <= {name}
    assert usual[name] > 0 or name in ("unfused", "remote", "remote_sequence")


def test_a_value_of_its_own_has_a_unit() -> None:
    assert constants("h100-sxm[engine.host=2ms]")["host"] == 2e-3
    assert constants("h100-sxm[engine.queueing=0.3]")["queueing"] == 0.3
    assert constants("h100-sxm[engine.network=2]", "vllm", 2026.0)["network"] == 2
    # Kernels that are started one by one in decode steps take what those of a prompt do.
    slow = constants("h100-sxm[engine.dispatch=1ms]", eager=True)
    assert slow["started"] == slow["dispatch"] == 1e-3


def test_changes_follow_each_other() -> None:
    usual = constants("h100-sxm")["host"]
    assert constants("h100-sxm[engine.host=2x;engine.host=3x]")["host"] == pytest.approx(6 * usual)
    system = rm.load_system("h100-sxm").set(**{"engine.host": "2x", "bandwidth": "2x"}).system
    engine = constants_file.engine_of(system, "sglang", 2023.0)
    assert constants_file.losses_of(system, engine, "time per token").host == pytest.approx(2 * usual)
    assert system.chip == replace(
        catalogue.system("h100-sxm").chip, memory_bandwidth=2 * catalogue.system("h100-sxm").chip.memory_bandwidth
    )


@pytest.mark.parametrize("text", ["engine.nobody=2x", "engine.queueing=1.5", "engine.software=0.5", "engine.host=-1",
                                  "engine.host=x", "engine.host=1e400"])  # fmt: skip
def test_what_no_engine_has_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=text.partition("=")[0].replace(".", r"\.")):
        constants(f"h100-sxm[{text}]", "vllm", 2026.0)


def run(line: str) -> Any:
    return CliRunner().invoke(cli, line.split())


def test_commands_answer_with_it() -> None:
    asked = "estimate llama-3.1-8b --on h100-sxm --gpus 1 --batch 1 --context 1k --json"
    usual, slow = (json.loads(run(asked + more).stdout)["time"] for more in ("", " --set engine.host=20ms"))
    assert slow > usual + 0.003
    burst = "simulate llama-3.1-8b --on h100-sxm --gpus 1 --users 50 --requests 50 --input 100 --output 5 --json"
    usual, slow = (
        json.loads(run(burst + more).stdout)["time_to_first_token"]["mean"]
        for more in ("", " --set engine.frontend=0.1 --set engine.reception=0.4")
    )
    # Fifty come at once: the mean one waits until all are received, and for half of the others to be passed on.
    assert slow - usual == pytest.approx((0.4 + 0.6 / 2) * 49 * 0.1, rel=0.15)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("estimate llama-3.1-8b --on h100-sxm --batch 1 --context 1k --ideal --set engine.host=2x", "without --ideal"),
        ("memory llama-3.1-8b --on h100-sxm --set engine.host=2x", "no engine to change"),
        ("lecture racks --on h100-sxm --set engine.host=2x", "no engine to change"),
    ],
)
def test_where_there_is_no_engine_it_is_refused(line: str, reason: str) -> None:
    error = run(line).exception
    assert isinstance(error, InputError)
    assert reason in str(error)
