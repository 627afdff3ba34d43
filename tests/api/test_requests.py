"""Requests: one declaration makes the option, the key of a sweep, the reading of its text, and the refusal."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rackmath import (
    AgentRequest,
    BudgetRequest,
    CacheRequest,
    ClaimsRequest,
    ContextRequest,
    CostRequest,
    DepthRequest,
    ExpertsRequest,
    FleetRequest,
    ModelRequest,
    PageRequest,
    PipelineRequest,
    RacksRequest,
    RlRequest,
    SolveRequest,
    SparsityRequest,
)
from rackmath.api import kinds
from rackmath.api.decode import PriceRequest
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.evidence import AddRequest, EvidenceRequest
from rackmath.api.fields import Option, field_named, fields_of, keys_of, plain_fields
from rackmath.api.plan_question import PlanRequest
from rackmath.api.predict import PredictRequest
from rackmath.api.rates import TokenRate
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.train_request import TrainRequest
from rackmath.cli.app import cli
from rackmath.engine.layout import Layout
from rackmath.errors import InputError
from rackmath.sweeps.grid_request import SweepRequest

COMMANDS = {
    "estimate": EstimateRequest,
    "plan": PlanRequest,
    "simulate": SimulateRequest,
    "train run": TrainRequest,
    "predict": PredictRequest,
    "evidence list": EvidenceRequest,
    "evidence add": AddRequest,
    "prices decode": PriceRequest,
    "prices page": PageRequest,
    "prices cost": CostRequest,
    "lecture cache": CacheRequest,
    "lecture context": ContextRequest,
    "lecture racks": RacksRequest,
    "prices agent": AgentRequest,
    "train budget": BudgetRequest,
    "train depth": DepthRequest,
    "train pipeline": PipelineRequest,
    "train rl": RlRequest,
    "lecture experts": ExpertsRequest,
    "lecture sparsity": SparsityRequest,
    "lecture fleet": FleetRequest,
    "model": ModelRequest,
    "lecture solve": SolveRequest,
    "lecture claims": ClaimsRequest,
}
LEAST: dict[type, dict[str, Any]] = {
    EstimateRequest: {"model": "llama-3.1-8b", "on": "h100-sxm", "batch": 1, "context": 1000},
    PlanRequest: {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 8, "input": 1000, "output": 100},
    SimulateRequest: {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 8},
    TrainRequest: {"model": "llama-3.1-8b", "on": "h100-sxm", "gpus": 8, "tokens": 1e12},
    PriceRequest: {},
}


def parameter_of(command: str, name: str) -> click.Parameter:
    """Option or argument of a command by Python's name."""
    current: click.Command = cli
    for word in command.split():
        assert isinstance(current, click.Group)
        inner = current.get_command(click.Context(current), word)
        assert inner is not None
        current = inner
    return next(parameter for parameter in current.params if parameter.name == name)


@pytest.mark.parametrize(("command", "request_type"), COMMANDS.items())
def test_every_field_is_an_option_of_its_command(command: str, request_type: type) -> None:
    for each in fields_of(request_type):
        parameter = parameter_of(command, each.name)
        assert parameter.required == each.required
        if isinstance(parameter, click.Option):
            assert parameter.help == each.option.help
            assert set(each.names) <= set(parameter.opts)


@pytest.mark.parametrize("request_type", COMMANDS.values())
def test_help_is_a_phrase_that_stands_alone(request_type: type) -> None:
    for each in fields_of(request_type):
        text = each.option.help
        assert text[0].isupper(), (each.name, text)
        assert text.endswith((".", ").", "].")), (each.name, text)
        assert len(text.split()) >= 2, (each.name, text)
        # What a colleague on the telephone would ask "of what?" about.
        assert not text.startswith(("Of ", "That ", "The same", "As ")), (each.name, text)


@pytest.mark.parametrize("request_type", LEAST)
def test_a_request_goes_through_json_and_back(request_type: type) -> None:
    request = request_type(**LEAST[request_type])
    assert request_type(**plain_fields(request)) == request


def test_text_is_read_as_on_the_command_line() -> None:
    request: Any = {**LEAST[SimulateRequest], "output": "1k", "ttft": "500ms", "tpot": "50tokens/s", "seed": "7"}
    read = SimulateRequest(**request, poisson="2000tokens/s", layout=Layout(tensor=2))
    assert (read.output, read.ttft, read.tpot, read.seed) == (1000.0, 0.5, 0.02, 7)
    assert isinstance(read.poisson, TokenRate)
    assert read.traffic.rate == 2.0
    assert read.layout == "tp2,ep1,pp1,dp1"
    # A request that is changed keeps what its rate was written in.
    assert replace(read, seed=8).traffic.rate == 2.0


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("gpus", 0, "--gpus = 0: write a whole number from 1 to 1,000,000"),
        ("gpus", 1.5, "--gpus = 1.5: write a whole number"),
        ("max_num_seqs", 0, "--max-num-seqs = 0: write a whole number from 1 to 65,536"),
        ("max_num_batched_tokens", 0, "--max-num-batched-tokens = 0: write a whole number from 1"),
        ("gpus", float("nan"), "--gpus"),
        ("policy", "fast", "--policy = 'fast': use one of chunked"),
        ("ideal", "yes", "--ideal = 'yes': write True or False"),
        ("ttft", "2 parsecs", "--ttft"),
        ("tpot", "0tokens/s", "--tpot"),
        ("requests", 2 * 10**12, "--requests"),
        ("weights", 8, "--weights = 8: write text"),
        ("trace", 3, "--trace = 3: give a path"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(field: str, value: object, said: str) -> None:
    with pytest.raises(InputError) as refused:
        SimulateRequest(**{**LEAST[SimulateRequest], field: value})
    assert str(refused.value).startswith(said)


NEEDS: list[tuple[str, str, str]] = [
    (f"simulate llama-3.1-8b --on h100-sxm --gpus 1 --poisson 5 --input 500 --output 50 {option}", option.split()[0], needed)
    for option, needed in (
        ("--think-time 5", "--users"), ("--turn-tokens 100", "--turns"), ("--limit 10", "--trace"), ("--repair", "--trace"),
        ("--day-start 6h", "--diurnal-amplitude"), ("--period 0.5", "--policy fixed-interval"), ("--ttl 9", "--eviction ttl"),
        ("--repair-time 9", "--mtbf"), ("--scale-on queue", "--scale-to"), ("--scale-target 9", "--scale-to"),
        ("--scale-interval 9", "--scale-to"), ("--scale-down-after 9", "--scale-to"), ("--max-unavailable 2", "--upgrade-at"),
        ("--startup 9", "--scale-to or --upgrade-at"), ("--image-size 64x64", "--images"),
    )
] + [
    (f"estimate llama-3.1-8b --on h100-sxm --batch 1 --context 500 {option}", option.split()[0], needed)
    for option, needed in (
        ("--max-lora-rank 8", "--adapters"), ("--adapter-skew 1", "--adapters"), ("--adapter-share 0.5", "--adapters"),
        ("--lora-target-modules q_proj", "--adapters"), ("--max-loras 3", "--adapters"),
        ("--mm-encoder-tp-mode data", "--images or --audio"),
    )
] + [
    (f"train budget --law hoffmann --params 7B --tokens 1T {option}", option.split()[0], "--model")
    for option in ("--gpus 8", "--serving-gpus 4", "--prompt 100", "--answer 100")
] + [
    ("train pipeline --schedule zb-h1 --stages 4 --microbatches 8 --passes 3", "--passes", "--schedule round-robin")
] + [
    (f"prices agent claude-sonnet-4-5 {option}", option.split()[0], "--own-model")
    for option in ("--layout tp1", "--weights fp8", "--kv fp8", "--batch 4", "--engine sglang", "--grid 400g")
]  # fmt: skip


@pytest.mark.parametrize(("words", "option", "needed"), NEEDS)
def test_an_option_that_says_nothing_without_another_is_refused(words: str, option: str, needed: str) -> None:
    refused = CliRunner().invoke(cli, words.split()).exception
    assert isinstance(refused, InputError)
    assert str(refused).startswith(f"{option} = ")
    assert str(refused).endswith(f"says nothing without {needed}") or needed in str(refused)


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8))
def test_no_value_gets_through_unread(number: float, text: str) -> None:
    for value in (number, text):
        try:
            made = replace(SimulateRequest(**LEAST[SimulateRequest]), max_num_seqs=value)  # type: ignore[arg-type]
        except InputError:
            continue
        assert made.max_num_seqs == int(made.max_num_seqs)


def test_fields_are_named_as_users_type_them() -> None:
    assert "poisson" in keys_of(SimulateRequest)
    assert field_named(SimulateRequest, "nothing") is None
    assert len(keys_of(SimulateRequest)) == len(fields(SimulateRequest)) - 1


OLDER = (
    (SimulateRequest, "seats budget block grows think swing burst spread first beside",
     "max_num_seqs max_num_batched_tokens block_size turn_tokens think_time diurnal_amplitude interarrival_cv length_cv"
     " limit add_replicas"),
    (AgentRequest, "first added think smaller own", "instructions turn_tokens think_time smaller_model own_model"),
    (BudgetRequest, "known", "published_models"),
    (PipelineRequest, "send overlapped kept", "send_time overlap_time weight_share"),
    (RlRequest, "trained straggle", "training_share straggler_ratio"),
    (EstimateRequest, "cached drafted num_speculative_tokens", "cached_tokens draft_tokens draft_tokens"),
    (PlanRequest, "drafted num_speculative_tokens", "draft_tokens draft_tokens"),
    (SimulateRequest, "drafted num_speculative_tokens", "draft_tokens draft_tokens"),
    (SweepRequest, "cached drafted", "cached_tokens draft_tokens"),
    (PriceRequest, "cached", "cached_input"),
)  # fmt: skip


@pytest.mark.parametrize(("request_type", "older", "newer"), OLDER)
def test_names_that_changed_are_still_taken(request_type: type, older: str, newer: str) -> None:
    """As options and as keys of ``--what-if`` and sweeps, with hyphens and without; help shows the newer one first."""
    for old, new in zip(older.split(), newer.split(), strict=True):
        for name in (old, f"--{old}", new, new.replace("_", "-"), f"--{new.replace('_', '-')}"):
            named = field_named(request_type, name)
            assert named is not None, name
            assert named.name == new
            assert named.names[0] == "--" + new.replace("_", "-")


def test_a_policy_that_changed_its_name_is_still_taken_by_the_request_and_by_the_command() -> None:
    made = replace(SimulateRequest(**LEAST[SimulateRequest]), policy="train")
    assert made.policy == "fixed-interval"
    words = "simulate llama-3.1-8b --on h100-sxm --gpus 1 --poisson 2 --input 300 --output 20 --requests 50 --no-evidence --json"
    older, newer = (
        json.loads(CliRunner().invoke(cli, [*words.split(), "--policy", name]).stdout)
        for name in ("train", "fixed-interval")
    )
    for facts in (older, newer):
        facts.pop("seconds")
    assert older == newer
    refused = CliRunner().invoke(cli, [*words.split(), "--policy", "bus"])
    assert refused.exit_code == 2
    assert "train" not in refused.output


def test_a_field_without_a_declaration_does_not_load() -> None:
    from dataclasses import dataclass

    @dataclass
    class Broken:
        declared: Annotated[float, Option(help="A number.", kind=kinds.NUMBER)]
        bare: Annotated[float, "no option"]

    # Types of a local class are no text.
    Broken.__annotations__ = {k: eval(v) if isinstance(v, str) else v for k, v in Broken.__annotations__.items()}
    with pytest.raises(TypeError, match="bare has no Option"):
        fields_of(Broken)


def test_records_do_not_leave_the_process() -> None:
    import rackmath as rm

    request = replace(SimulateRequest(**LEAST[SimulateRequest]), on=rm.load_system("h100-sxm").system)
    with pytest.raises(InputError, match="name or a path"):
        plain_fields(request)


FLAGS = json.loads((Path(__file__).parents[1] / "data/engine_flags.json").read_text(encoding="utf-8"))


def test_engines_have_the_flags_that_fields_name() -> None:
    named = [
        (engine, flag)
        for request_type in COMMANDS.values()
        for each in fields_of(request_type)
        for engine, flag in each.option.flags.items()
        if engine in FLAGS
    ]
    assert len(named) > 20
    assert [pair for pair in named if pair[1] not in FLAGS[pair[0]]["flags"]] == []


def test_the_nomenclature_names_flags_that_engines_have() -> None:
    page = (Path(__file__).parents[2] / "docs/nomenclature.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ") and "`--" in line]
    # Clients of benchmarks have flags of their own, which no server has.
    clients = {"--input-len", "--output-len", "--max-concurrency", "--request-rate", "--goodput"}
    for engine, column in (("vllm", 2), ("sglang", 3)):
        flags = {flag for row in rows for flag in re.findall(r"--[a-z-]+", row[column])} - clients
        assert len(flags) > 8
        assert flags - set(FLAGS[engine]["flags"]) == set()
