"""A plan that can be checked: the benchmark of its best deployment, what to expect of it, how to keep the result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from rackmath.api.deployment import deployment_of
from rackmath.api.fields import words_of
from rackmath.api.plan_launch import repository
from rackmath.api.plan_question import PlanQuestion
from rackmath.api.simulated_rows import MOST
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.simulation.result import run_simulation
from rackmath.engine.layout import Layout, parse_layout
from rackmath.errors import RackmathError
from rackmath.models.eagle import EAGLE3
from rackmath.serving.launch_boxes import FRONT

_ROUNDS = 10
"""Requests of each user, so that the first and the last weigh little."""
_FEWEST = 64
_SEED = 0
RESULT = "result.json"
"""File that a benchmark writes and ``rackmath evidence add`` reads."""
_BENCHMARKED = ("vllm", "sglang")
"""Engines with a benchmark of their own, by which ``rackmath evidence add`` knows them."""
_METRICS = {
    "time_to_first_token": "mean time to first token [s]",
    "time_per_output_token": "mean time per output token [s]",
    "tokens_per_second_per_gpu": "output tokens per second and accelerator",
}
"""Keys of a point of a plan, and what they are called."""


def verification(question: PlanQuestion, point: Mapping[str, Any], layout: Layout | None) -> dict[str, Any]:
    """Commands that measure a point of a plan, and the range expected of each metric.

    Parameters
    ----------
    point : mapping
        The point, as in ``rackmath plan --json``.
    layout : Layout or None
        Of its workers; None for two pools, whose rows state both.

    Benchmarks are those of vLLM and SGLang, and guidellm (0.7) before either; before another engine vLLM's, which asks
    by OpenAI's protocol. They write what ``rackmath evidence add`` reads: a closed loop of as many users as the point
    has requests, prompts and answers of the planned lengths, ten requests a user. What is expected is that loop
    simulated: users of equal requests who begin together stay together, and wait for one another's prompts, which those
    of the plan do not.
    """
    work, users = question.work, max(round(point["concurrency"]), 1)
    prompts = max(_ROUNDS * users, _FEWEST)
    prefix = round(work.cached_prefix * work.input)
    model, engine = repository(question.request.model), question.space.engine
    has_own = engine in ("", *_BENCHMARKED)
    port = FRONT["vllm" if has_own else engine]
    vllm = [
        "vllm bench serve",
        f"--model {shlex.quote(model)} --base-url http://127.0.0.1:{port}",
        f"--dataset-name random --random-input-len {ceil(work.input) - prefix} --random-output-len {ceil(work.output)}",
        *([f"--random-prefix-len {prefix}"] if prefix else []),
        f"--num-prompts {prompts} --max-concurrency {users} --num-warmups {users} --ignore-eos --seed {_SEED}",
        f"--save-result --result-filename {RESULT}",
    ]
    sglang = [
        "python -m sglang.bench_serving",
        f"--backend sglang --model {shlex.quote(model)} --base-url http://127.0.0.1:{FRONT['sglang']}",
        f"--dataset-name random --random-input-len {ceil(work.input)} --random-output-len {ceil(work.output)}",
        f"--random-range-ratio 1 --num-prompts {prompts} --max-concurrency {users} --seed {_SEED}",
        f"--output-file {RESULT}",
    ]
    data: dict[str, Any] = {
        "kind": "synthetic_text",
        "prompt_tokens": ceil(work.input) - prefix,
        "output_tokens": ceil(work.output),
    }
    if prefix:
        data["prefix_buckets"] = [{"prefix_count": 1, "prefix_tokens": prefix}]
    guidellm = [
        "guidellm run",
        f"--backend kind=openai_http,target=http://127.0.0.1:{port},model={shlex.quote(model)}",
        f"--profile kind=concurrent,streams={users},warmup={1 / _ROUNDS:g}",
        f"--constraint kind=max_requests,count={prompts}",
        f"--data {shlex.quote(json.dumps(data))}",
        f"--seed kind=static,value={_SEED} --output kind=json,path={RESULT}",
    ]
    return {
        "vllm": " \\\n  ".join(vllm),
        **({"sglang": " \\\n  ".join(sglang)} if has_own else {}),
        "guidellm": " \\\n  ".join(guidellm),
        **_expected(question, point, users, prompts),
        "keep": _keep(question, point, layout),
        "again": _again(question),
    }


def _expected(question: PlanQuestion, point: Mapping[str, Any], users: int, prompts: int) -> dict[str, Any]:
    """Each metric of the benchmark with its range, and what they are metrics of."""
    values: dict[str, Mapping[str, float | None]] = {
        name: {"value": point[name], "low": point[f"{name}_low"], "high": point[f"{name}_high"]} for name in _METRICS
    }
    requests = min(prompts, MOST)
    run: dict[str, Any] = {"users": users, "requests": requests, "no_evidence": question.near is None}
    try:
        run = deployment_of(question.request, point, {}).simulated | run
        facts = run_simulation(SimulateRequest(**run)).to_dict()
        subject = f"the benchmark, simulated: {requests:,} requests of {users:,} users who begin together"
        for name in ("time_to_first_token", "time_per_output_token"):
            if facts[name] is not None:
                mean = facts[name]["mean"]
                low, high = facts[name].get("mean_range", (mean, mean))
                values[name] = _widened(values[name], mean, low, high)
        rate = facts["throughput"] / point["gpus"]
        values["tokens_per_second_per_gpu"] = _widened(values["tokens_per_second_per_gpu"], rate, rate, rate)
    except RackmathError as error:
        subject = f"a service whose users come at any time, as planned; the benchmark cannot be simulated: {error}"
    return {
        "expected": [{"metric": text, **values[name]} for name, text in _METRICS.items()],
        "expected_of": subject,
    }


def _widened(plan_facts: Mapping[str, float | None], value: float, low: float, high: float) -> dict[str, float]:
    """A simulated value with the wider of its own range and the plan's. The latter says how far off rows are."""
    middle = plan_facts["value"] or value
    return {
        "value": value,
        "low": min(low, value * (plan_facts["low"] or middle) / middle),
        "high": max(high, value * (plan_facts["high"] or middle) / middle),
    }


def _again(question: PlanQuestion) -> str:
    """The same plan; models and systems that are records by their names."""
    r = question.request
    model = r.model if isinstance(r.model, str) else question.architecture.name
    system = r.on if isinstance(r.on, str) else question.system.name
    return shlex.join(["rackmath", "plan", *words_of(replace(r, model=model, on=system))])


def _keep(question: PlanQuestion, point: Mapping[str, Any], layout: Layout | None) -> str:
    """The command that says whether the result lies inside, and keeps it."""
    r, engine = question.request, question.space.engine
    columns: dict[str, object] = {
        "hardware": question.system.name,
        "n_gpus": f"{point['gpus']:g}",
        "weights": point["weights"],
        "kv": point["kv"],
    }
    if engine and engine not in _BENCHMARKED:
        columns["engine"] = engine
    if point["draft_tokens"]:
        default_source = "mtp" if question.architecture.mtp else "ngram"
        source = default_source if r.draft_model is None else "eagle" if r.draft_model == EAGLE3 else "draft"
        columns |= {"speculative": source, "draft_tokens": f"{point['draft_tokens']:g}"}
    if layout is not None:
        # Groups that share no experts are servers of their own.
        groups = float(layout.expert_groups)
        copies = point["units"] * float(layout.data) / groups
        columns |= {"tp": layout.tensor, "pp": layout.pipeline, "replicas": f"{copies:g}"}
        columns |= {"max_num_seqs": point["max_num_seqs"], "max_num_batched_tokens": f"{point['chunk']:g}"}
        if groups > 1:
            columns |= {"dp": f"{groups:g}", "dp_kind": "attention"}
        if layout.expert > 1:
            columns["ep"] = layout.expert
    elif point["pools"] is not None:
        columns["topology"] = "disaggregated"
        columns |= _pool_columns(question, point)
    pairs = " ".join(f"--set {name}={value}" for name, value in columns.items())
    return f"rackmath evidence add {RESULT} {pairs}"


def _pool_columns(question: PlanQuestion, point: Mapping[str, Any]) -> dict[str, object]:
    """Columns of both pools: all accelerators of each, its workers, and the widths of one."""
    pools, columns = point["pools"], dict[str, object]()
    reading = float(pools["reading_gpus"])
    for pool, text, gpus in (
        ("prefill", pools["read"], reading),
        ("decode", pools["write"], point["gpus"] - reading - point.get("encoders", 0.0)),
    ):
        layout = parse_layout(text, None, question.architecture)
        widths = {"workers": gpus / float(layout.gpus), "tp": layout.tensor, "dp": layout.data, "ep": layout.expert}
        columns |= {f"{pool}_gpus": f"{gpus:g}"} | {f"{pool}_{name}": f"{width:g}" for name, width in widths.items()}
    return columns
