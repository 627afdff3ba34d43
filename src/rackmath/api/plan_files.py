"""A plan as a folder: launch commands, files for containers and clusters, what to expect, how to check it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rackmath.api.plan_launch import slug, workers_of
from rackmath.api.summary import plan_summary
from rackmath.errors import InputError
from rackmath.serving.deployment_files import Files, deployment_files
from rackmath.serving.engines import reads_own_files
from rackmath.serving.launch_boxes import COMMANDS

if TYPE_CHECKING:
    from rackmath.api.plan import PlanResult

_HOW = {
    "compose.yaml": "docker compose up -d",
    "kubernetes.yaml": "kubectl create secret generic hf-token-secret --from-literal=HF_TOKEN=$HF_TOKEN"
    " && kubectl apply -f kubernetes.yaml",
    "llm-d-values.yaml": "helm install {name} llm-d-modelservice/llm-d-modelservice -f llm-d-values.yaml",
    "dynamo.yaml": "VERSION=1.6.1 envsubst < dynamo.yaml | kubectl apply -f -",
}
"""How each file is used."""

_SCRIPTS = tuple(engine for engine in COMMANDS if not reads_own_files(engine))
"""Engines that a folder has scripts of."""


def write_plan(result: PlanResult, folder: Path) -> list[str]:
    """Write the best deployment of a plan as a folder, all of it or nothing.

    Returns
    -------
    list of str
        Names of the files.

    Errors: :class:`InputError` for a folder that is there already or cannot be written, and where nothing keeps the
    limits.
    """
    if folder.exists():
        raise InputError("--out", str(folder), "is there already: name another folder")
    place = result.plan.best
    if place is None:
        raise InputError("--out", str(folder), "nothing keeps the limits, so there is nothing to write")
    engine = result.question.space.engine
    if reads_own_files(engine):
        raise InputError("--out", str(folder), f"leave it out: {engine} is started by its launch line alone")
    name = slug(result.question.architecture.name)
    files = deployment_files(name, workers_of(result.question, result.plan, place), result.question.system)
    text = dict(files.text)
    facts, check = result.to_dict(), result.verification()
    for engine in _SCRIPTS:
        text[f"{engine}.sh"] = f"#!/bin/sh\nset -eu\n{facts['launch'][engine]}\n"
    text["check.sh"] = f"#!/bin/sh\nset -eu\n{check[_checked_by(result)]}\n{check['keep']}\n"
    text["plan.json"] = json.dumps({"command": check["again"], "best": facts["best"]}, indent=1, allow_nan=False) + "\n"
    text["README.md"] = "\n".join(_readme(name, result, facts, check, files)) + "\n"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".rackmath-"))
        try:
            for file, content in text.items():
                (beside / file).write_text(content, encoding="utf-8")
                (beside / file).chmod(0o755 if file.endswith(".sh") else 0o644)
            beside.chmod(0o755)
            beside.rename(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise InputError("--out", str(folder), f"cannot be written: {error.strerror}") from error
    return sorted(text)


def _checked_by(result: PlanResult) -> str:
    """Benchmark that asks the planned engine: SGLang's own, and vLLM's of any other."""
    return "sglang" if result.question.space.engine == "sglang" else "vllm"


def _readme(
    name: str, result: PlanResult, facts: Mapping[str, Any], check: Mapping[str, Any], files: Files
) -> Iterator[str]:
    """Lines of the folder's first page."""
    q, best = result.question, facts["best"]
    cost = tuple(best["usd_per_million_output_tokens" + end] for end in ("", "_low", "_high"))
    yield f"# {q.architecture.name} on {best['gpus']:g} x {q.system.name}"
    yield ""
    yield from plan_summary(facts)
    yield ""
    yield f"Requests of {q.work.input:,.0f} tokens in and {q.work.output:,.0f} out, {best['concurrency']:,.0f} at once."
    yield f"Weights at {best['weights']}, cache at {best['kv']}."
    yield from ("", "## What to expect", "")
    yield f"Users who come at any time get a first token after {best['time_to_first_token']:.4g} s and the next ones"
    yield f"after {best['time_per_output_token']:.4g} s each, as planned. Below: {check['expected_of']}."
    yield ""
    yield from ("| metric | expected | 90 % range |", "|---|---|---|")
    for row in check["expected"]:
        yield f"| {row['metric']} | {row['value']:.4g} | {row['low']:.4g} to {row['high']:.4g} |"
    if cost[0] is not None:
        yield f"| dollars per million output tokens | {cost[0]:.3g} | {cost[1]:.3g} to {cost[2]:.3g} |"
    yield from ("", "## Start it", "")
    for file, how in _HOW.items():
        if file in files.text:
            yield f"- `{file}`: `{how.format(name=name)}`"
        else:
            yield f"- `{file}` is not here: {files.missing[file]}"
    for engine in _SCRIPTS:
        yield f"- `{engine}.sh`: the commands of {engine}, box by box"
    yield from ("", "## Check it", "")
    engine = {"vllm": "vLLM", "sglang": "SGLang"}[_checked_by(result)]
    yield f"`check.sh` runs {engine}'s benchmark against the deployment, with as many users as the plan has requests at"
    yield "once. `rackmath evidence add` says of each metric whether it lies in its range and which term would explain"
    yield "what does not, and keeps it for the next plan."
    yield from ("", "## What was assumed", "")
    for note in (*q.notes, *facts["launch"]["notes"]):
        yield f"- {note}"
    yield from ("", "Planned by:", "", f"    {check['again']}")
