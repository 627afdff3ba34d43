"""A row -> the question it asks of the engine, or the reason why it cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.errors import InputError, NotUnderstood
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.io.model_names import stem_of, without_format
from rackmath.models.architecture import Architecture
from rackmath.models.eagle import typical_head
from rackmath.serving.engines import (
    default_max_num_batched_tokens,
    default_max_num_seqs,
    sequences_of_stages,
)
from rackmath.serving.workload import Limits
from rackmath.training import TrainingRun
from rackmath.validation.deployments import RowDeployment, deployment, inferred_deployment
from rackmath.validation.kinds import SERVICE, TIMES, kind_of
from rackmath.validation.precisions import model_at
from rackmath.validation.rows import Row
from rackmath.validation.training_rows import training_run

_DRAFTS = 3.0
"""Tokens drafted per step where a row says only that it speculates (MTP-3 is the engines' default)."""

_SCENARIOS = ("server", "interactive")
"""Of MLPerf, in which requests arrive by themselves and limits are kept."""

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a row asks, in terms of the engine. Lengths in tokens, loads in sequences."""

    row: Row
    architecture: Architecture
    system: System
    kind: str
    """closed, wave (all at once), full (as many as memory holds), server (as many as limits allow), open (at a rate),
    pools, decode, prefill, static, train."""
    quantity: str
    """tpot, tpot_median, itl, ttft, ttft_median, output, total, requests, tokens, speed or latency."""
    deployment: RowDeployment
    load: float
    """Sequences of the whole deployment; infinite where memory decides."""
    rate: float
    """Requests of the whole deployment, for the kind open. [requests/s]"""
    input: float
    output: float
    cached_tokens: float
    """Tokens of a prompt that the cache holds. [tokens]"""
    max_num_seqs: float
    """Sequences that an engine runs at once at most. [sequences]"""
    max_num_batched_tokens: float
    """Tokens that an engine puts into one pass at most. [tokens]"""
    varied: bool
    """Whether lengths differ from request to request."""
    context: float
    draft_tokens: float
    looks: float
    """Steps from one look of the engine at new requests to the next. [steps]"""
    scale: float
    """The row's number is the quantity in SI times this."""
    run: TrainingRun | None = None
    """How a training step is spread, for the kind train."""
    limits: Limits = NO_LIMITS
    """What the slowest one in a hundred of a server's requests keeps."""
    assumed: tuple[str, ...] = ()

    @property
    def rounds(self) -> float:
        """Requests of each user of a closed loop; not a number where the row does not count requests. [1]"""
        users, requests = self.row.concurrency, self.row.num_requests
        return requests / users if self.kind == "closed" and users and requests else float("nan")

    @property
    def draft(self) -> Architecture | None:
        """Head that drafts tokens, a typical one of the model; None where its own layers do, or what costs nothing."""
        by_head = self.row.speculative == "eagle" and self.draft_tokens > 0 and not self.architecture.mtp
        return typical_head(self.architecture) if by_head else None


def question(row: Row) -> Question:
    """Translate a row.

    Errors: any :class:`~rackmath.errors.RackmathError` is the reason to decline it.
    """
    kind, quantity = kind_of(row)
    if row.flag("offload_to_cpu") or row.flag("weights_offloaded_to_host"):
        raise NotUnderstood("flags", "offload_to_cpu", "weights in the host's memory are not predicted")
    if row.flag("power_capped") and row.power_cap_w is None:
        raise NotUnderstood("power_cap_w", row.power_cap_w, "accelerators under a power cap need its watts")
    system = catalogue.system(row.hardware)
    if kind == "train":
        return _training(row, system)
    cache = row.kv or _usual_cache(row)
    architecture = model_at(_model(row), row.weights, cache, row.expert_weights, family=row.family)
    answer = deployment(row, architecture)
    assumptions = [] if cache == row.kv else [f"{cache} cache, as the quantised releases for this engine have"]
    if answer is None:
        answer = inferred_deployment(row, system, architecture, alone=kind not in ("full", "server"))
    if answer.inferred:
        assumptions.append(answer.inferred)
    length, limits, remarks = _of_benchmark(row, kind, architecture)
    assumptions += remarks
    _check(row, kind, length, limits)
    if kind == "closed" and answer.prefill is not None:
        kind = "pools"
    context = row.context
    if kind == "decode" and context is None:
        context = (length or 0.0) + (row.output_mean or 0) / 2
    engines = answer.workers * float(answer.layout.data)
    return Question(
        row=row,
        architecture=architecture,
        system=system,
        kind=kind,
        quantity=quantity,
        deployment=answer,
        load=_most(row, kind),
        rate=row.request_rate or 0.0,
        input=length or 0.0,
        output=row.output_mean or 0.0,
        cached_tokens=_cached(row, length or 0.0),
        max_num_seqs=sequences_of_stages(
            row.family, row.max_num_seqs or default_max_num_seqs(row.family, system.chip), float(answer.layout.pipeline)
        )
        * engines,
        max_num_batched_tokens=row.max_num_batched_tokens or default_max_num_batched_tokens(row.family, system.chip),
        varied=_varied(row),
        context=context or 0.0,
        draft_tokens=_draft_tokens(row),
        looks=max(row.scheduler_interval or 1.0, 1.0),
        scale=_scale(row, quantity),
        limits=limits,
        assumed=tuple(assumptions),
    )


VARIED = 0.5
"""Spread of lengths over their mean from which they are taken as exponential. [1]"""


def _varied(row: Row) -> bool:
    """Whether answers differ in length as in conversations: by their spread, else by a mean that is not whole."""
    if row.length_cv is not None:
        return row.length_cv > VARIED
    return (row.output_mean or 0.0) % 1 != 0


_BLOCK = 16
"""Tokens of a block of vLLM's cache: the last one of a cached prompt is computed again."""


def _cached(row: Row, length: float) -> float:
    prefix = min(row.shared_prefix_tokens or 0.0, max(length - 1, 0.0))
    return prefix // _BLOCK * _BLOCK


def _model(row: Row) -> str:
    """Name of the model in the catalogue: as the row says, else its id on Hugging Face.

    The format of weights in a name, as of ``Llama-3.1-8B-Instruct-FP8``, is what the column says.
    """
    for name in (row.model, row.model_hf):
        base_name = without_format(name) if row.weights else None
        name = name if base_name is None or stem_of(name) else base_name[0]
        try:
            catalogue.model(name)
        except InputError:
            continue
        return name
    return row.model_hf or row.model


def _of_benchmark(row: Row, kind: str, architecture: Architecture) -> tuple[float | None, Limits, list[str]]:
    """Tokens of a prompt and limits of a row, from the published workload of its benchmark where it leaves them out."""
    benchmark = catalogue.benchmarks().get(architecture.name) if row.benchmark.startswith("mlperf-inference") else None
    if benchmark is None or kind not in ("full", "server"):
        return row.input_mean, NO_LIMITS, []
    limits = benchmark.limits.get(row.scenario, NO_LIMITS)
    if row.input_mean is not None:
        return row.input_mean, limits, []
    return benchmark.input, limits, [f"prompts of {benchmark.input:g} tokens in the mean: {benchmark.name}"]


def _check(row: Row, kind: str, length: float | None, limits: Limits) -> None:
    """Refuse a row that leaves out what its question needs, by the name of the column."""

    def need(name: str, value: object, why: str) -> None:
        if not value:
            raise NotUnderstood(name, getattr(row, name), why)

    if kind in SERVICE or (kind == "static"):
        need("input_mean", length, "a service needs the mean tokens of its prompts")
        need("output_mean", row.output_mean, "a service needs the mean tokens of its answers")
    if kind == "closed":
        need("concurrency", row.load, "a closed loop needs its concurrency")
    if kind == "wave":
        need("num_requests", row.num_requests or row.load, "requests at once need their number")
    if kind == "open":
        need("request_rate", row.request_rate, "requests that arrive by themselves need their rate")
    if kind == "server" and limits == NO_LIMITS:
        raise NotUnderstood("benchmark, scenario", row.scenario, "a server's rate needs the limits that it keeps")
    if kind in ("decode", "static"):
        need("batch", row.load, "a decode pass needs its batch")
    if kind == "decode" and row.context is None:
        need("context", length, "a decode pass needs its context")
    if kind == "prefill":
        need("input_mean", length, "a prompt needs its length")


def _most(row: Row, kind: str) -> float:
    """Sequences of the whole deployment at most."""
    if kind == "wave":
        return row.num_requests or row.load or 1.0
    if kind in ("full", "server", "open"):
        return row.load if row.load is not None else float("inf")
    return row.load or 1.0


def _training(row: Row, system: System) -> Question:
    if not row.framework_precision and not row.weights:
        raise NotUnderstood("framework_precision", "", "a training row needs the format that it multiplies in")
    architecture = model_at(_model(row), row.framework_precision or row.weights, "")
    run, assumptions = training_run(row, architecture)
    return Question(
        row=row,
        architecture=architecture,
        system=system,
        kind="train",
        quantity="tokens",
        deployment=RowDeployment(layout=run.layout, workers=1.0),
        run=run,
        load=row.global_batch or 1.0,
        rate=0.0,
        input=row.sequence_length or 1.0,
        output=0.0,
        cached_tokens=0.0,
        max_num_seqs=float("inf"),
        max_num_batched_tokens=default_max_num_batched_tokens(row.family, system.chip),
        varied=False,
        context=row.sequence_length or 1.0,
        draft_tokens=0.0,
        looks=1.0,
        scale=_scale(row, "tokens"),
        assumed=assumptions,
    )


def _scale(row: Row, quantity: str) -> float:
    """From SI of the whole system to the row's per."""
    if quantity in (*TIMES, "speed"):
        return 1.0
    per = {"gpu": 1 / row.gpus, "system": 1.0, "user": 1 / (row.load or 1.0), "request": 1.0, "": 1.0}
    if row.per not in per:
        raise NotUnderstood("per", row.per, f"write one of {', '.join(p for p in per if p)}")
    return per[row.per]


def _usual_cache(row: Row) -> str:
    """Format of the cache where a row says nothing: 8-bit releases for TensorRT-LLM quantise it too."""
    narrow = "fp8" in row.weights or "fp4" in row.weights
    return "fp8" if narrow and row.family == "trtllm" else ""


def _draft_tokens(row: Row) -> float:
    """Tokens speculated per step, as far as the row says."""
    if row.speculative in ("", "none"):
        return 0.0
    return row.draft_tokens if row.draft_tokens else _DRAFTS
