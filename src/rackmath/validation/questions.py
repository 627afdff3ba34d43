"""A row -> the question it asks of the engine, or the reason why it cannot be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rackmath import catalogue
from rackmath.engine import Layout
from rackmath.engine.sharding import memory
from rackmath.errors import NotUnderstood
from rackmath.hardware import System
from rackmath.models.architecture import Architecture
from rackmath.serving.workload import Limits
from rackmath.training import TrainingRun
from rackmath.validation.deployments import Deployment, attention_split, deployment
from rackmath.validation.launches import looks
from rackmath.validation.precisions import model_at
from rackmath.validation.rows import Row
from rackmath.validation.training_rows import training_run

SERVICE = ("closed", "wave", "full", "server", "pools")
"""Kinds of question that are a service under load; the others are single passes or training."""

TIMES = ("tpot", "ttft", "ttft_median", "latency")
"""Quantities that are times; the others are rates."""

_LENGTHS = 0.9
"""Mean of lengths drawn uniformly from 0.8 to 1.0 of nominal."""

_DRAFTS = 3.0
"""Tokens drafted per step where a row says only that it speculates (MTP-3 is the engines' default)."""

_WEIGHTS = 2 / 3
"""Of an accelerator's memory that weights take at most where a layout is chosen for throughput. [1]"""

_SCENARIOS = ("server", "interactive")
"""Of MLPerf, in which requests arrive by themselves and limits are kept."""

NO_LIMITS = Limits()

_SCALES = {"ms": 1e3, "s": 1.0, "tok/s": 1.0, "queries/s": 1.0, "samples/s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a row asks, in terms of the engine. Lengths in tokens, loads in sequences."""

    row: Row
    architecture: Architecture
    system: System
    kind: str
    """closed, wave, full (as many as memory holds), server (as many as limits allow), pools, decode, prefill, static,
    train."""
    quantity: str
    """tpot, ttft, ttft_median, output, total, tokens, speed or latency."""
    deployment: Deployment
    load: float
    """Sequences of the whole deployment; infinite where memory decides."""
    input: float
    output: float
    context: float
    drafted: float
    looks: float
    """Steps from one look of the engine at new requests to the next. [steps]"""
    scale: float
    """The row's number is the quantity in SI times this."""
    run: TrainingRun | None = None
    """How a training step is spread, for the kind train."""
    limits: Limits = NO_LIMITS
    """What the slowest one in a hundred of a server's requests keeps."""
    assumed: tuple[str, ...] = ()


def question(row: Row) -> Question:
    """Translate a row.

    Errors: any :class:`~rackmath.errors.RackmathError` is the reason to decline it.
    """
    kind, quantity = _asked(row)
    system = catalogue.system(row.hardware)
    if kind == "train":
        return _training(row, system)
    cache = row.cache or _usual_cache(row)
    architecture = model_at(row.model, row.weights, cache)
    found = deployment(row.parallelism, row.gpus, architecture)
    if "enables attention_dp and ep for MoE" in row.notes and found is not None:
        found = attention_split(found, architecture)
    assumed = [] if cache == row.cache else [f"{cache} cache, as the quantised releases for this engine have"]
    if found is None:
        found = _inferred(row, system, architecture, alone=kind not in ("full", "server"))
        assumed.append(found.inferred)
    part = _LENGTHS if "uniform 0.8-1.0" in row.notes else 1.0
    length, limits, named = _of_benchmark(row, kind, architecture)
    assumed += named
    _check(row, kind, length, limits)
    if kind == "closed" and (row.at_once or _in_house(row)):
        kind = "wave"
    if kind == "closed" and found.prefill is not None:
        kind = "pools"
    seldom = 1.0
    if kind == "closed":
        spread = float(found.layout.data) > 1
        seldom = looks(row.family, system.chip.generation, row.load or 1.0, spread, f"{row.source} {row.notes}")
    if seldom > 1:
        assumed.append(f"{row.family} looks for requests every {seldom:g} steps, as InferenceX starts it")
    context = row.context
    if kind == "decode" and context is None:
        context = (length or 0.0) + (row.output or 0) / 2
    return Question(
        row=row,
        architecture=architecture,
        system=system,
        kind=kind,
        quantity=quantity,
        deployment=found,
        load=_most(row, found) if kind in ("full", "server") else (row.load or 1.0),
        input=(length or 0.0) * part,
        output=(row.output or 0.0) * part,
        context=context or 0.0,
        drafted=_drafted(row),
        looks=seldom,
        scale=_scale(row, quantity),
        limits=limits,
        assumed=tuple(assumed),
    )


def _in_house(row: Row) -> bool:
    """Whether a sweep of NVIDIA's own under SGLang, which sent one wave of requests (measured/README.md)."""
    return (row.note("origin") or "").startswith("NVIDIA in-house") and row.family == "sglang"


def _of_benchmark(row: Row, kind: str, architecture: Architecture) -> tuple[float | None, Limits, list[str]]:
    """Tokens of a prompt and limits of a row, from the published workload that it names where it leaves them out."""
    named = catalogue.benchmarks().get(architecture.name) if row.notes.startswith("MLPerf") else None
    if named is None or kind not in ("full", "server"):
        return row.input, NO_LIMITS, []
    limits = named.limits.get(_scenario(row), NO_LIMITS)
    if row.input is not None:
        return row.input, limits, []
    return named.input, limits, [f"prompts of {named.input:g} tokens in the mean: {named.name}"]


def _check(row: Row, kind: str, length: float | None, limits: Limits) -> None:
    """Refuse a row that leaves out what its question needs."""
    if kind in SERVICE and (length is None or not row.output):
        raise NotUnderstood("input_len, output_len", (row.input, row.output), "a service needs both lengths")
    if kind == "closed" and row.load is None:
        raise NotUnderstood("batch_or_concurrency", row.load, "a loaded service needs its concurrency")
    if kind == "server" and limits == NO_LIMITS:
        raise NotUnderstood("metric", row.metric, "a server's rate needs the limits that it keeps")
    if kind in ("decode", "static") and row.load is None:
        raise NotUnderstood("batch_or_concurrency", row.load, "a decode pass needs its batch")
    if kind == "decode" and row.context is None and length is None:
        raise NotUnderstood("context_len", row.context, "a decode pass needs its context")
    if kind == "prefill" and length is None:
        raise NotUnderstood("input_len", length, "a prompt needs its length")


def _scenario(row: Row) -> str:
    return next((name for name in _SCENARIOS if name in row.metric.lower()), "")


def _most(row: Row, found: Deployment) -> float:
    """Sequences of the whole deployment at most, as the engines are configured."""
    if row.load is None:
        return float("inf")
    engines = found.workers * float(found.layout.data) if "configured maximum per engine" in row.notes else 1.0
    return row.load * engines


def _training(row: Row, system: System) -> Question:
    architecture = model_at(row.model.removesuffix("-LoRA"), row.weights, "")
    run, assumed = training_run(row, architecture)
    return Question(
        row=row,
        architecture=architecture,
        system=system,
        kind="train",
        quantity="tokens",
        deployment=Deployment(layout=run.layout, workers=1.0),
        run=run,
        load=row.load or 1.0,
        input=row.input or 1.0,
        output=0.0,
        context=row.input or 1.0,
        drafted=0.0,
        looks=1.0,
        scale=_scale(row, "tokens"),
        assumed=assumed,
    )


def _asked(row: Row) -> tuple[str, str]:
    """Kind and quantity of a metric."""
    metric = row.metric.lower()
    if metric == "time_to_train":
        raise NotUnderstood("metric", row.metric, "depends on the samples to converge, which the row does not state")
    if re.match(r"(queries|samples)", metric):
        raise NotUnderstood("metric", row.metric, "queries per second need their lengths; give tokens per second")
    if "cache hits" in metric or "kv-cache hits" in metric:
        raise NotUnderstood("metric", row.metric, "a rate with cache hits needs the hit rate")
    if re.search(r"p9\d", metric):
        raise NotUnderstood("metric", row.metric, "the slowest requests are not predicted; give the mean or the median")
    if metric.startswith("ttft") and (row.output or 0) <= 1:
        return "prefill", "latency"
    for pattern, kind, quantity in (
        (r"^train_throughput", "train", "tokens"),
        (r"^(tpot|itl)", "closed", "tpot"),
        (r"^ttft batch1", "prefill", "latency"),
        (r"^ttft_(median|p50)", "closed", "ttft_median"),
        (r"^ttft", "closed", "ttft"),
        (r"^user_speed", "closed", "speed"),
        (r"^decode_(speed|throughput)", "decode", "tokens"),
        (r"^prefill_(speed|throughput)", "prefill", "tokens"),
        (r"^e2e_latency", "static", "latency"),
        (r"static batch", "static", "output"),
        (r"^total_throughput", "closed", "total"),
        (r"offline", "full", "output"),
        (r"^(output_)?throughput|max-load|server|interactive", "closed", "output"),
    ):
        if re.search(pattern, metric):
            return (_load_of(row) if kind == "closed" else kind), quantity
    raise NotUnderstood("metric", row.metric, "write tpot, ttft, output_throughput, decode_speed or prefill_speed")


def _load_of(row: Row) -> str:
    """How requests reach a service: by themselves, as many as it holds, or as others are answered."""
    if _scenario(row):
        return "server"
    return "full" if "max-load" in row.metric.lower() else "closed"


def _scale(row: Row, quantity: str) -> float:
    """From SI of the whole system to the row's unit and per."""
    if row.unit not in _SCALES:
        raise NotUnderstood("unit", row.unit, f"write one of {', '.join(_SCALES)}")
    scale = _SCALES[row.unit]
    if quantity in (*TIMES, "speed"):
        return scale
    per = {"gpu": 1 / row.gpus, "system": 1.0, "node": 8 / row.gpus, "user": 1 / (row.load or 1.0), "": 1.0}
    if row.per not in per:
        raise NotUnderstood("per", row.per, f"write one of {', '.join(p for p in per if p)}")
    return scale * per[row.per]


def _usual_cache(row: Row) -> str:
    """Format of the cache where a row says nothing: 8-bit releases for TensorRT-LLM quantise it too."""
    narrow = re.search(r"fp8|fp4", row.weights.lower())
    return "fp8" if narrow and row.family == "trtllm" else ""


def _drafted(row: Row) -> float:
    """Tokens speculated per step, as far as the row says."""
    spec = (row.note("spec") or "none").lower()
    return 0.0 if spec.startswith(("none", "unlabelled")) or not spec else _DRAFTS


def _inferred(row: Row, system: System, architecture: Architecture, *, alone: bool) -> Deployment:
    """Layout that engines choose when nothing is said.

    Tensor parallel inside a domain for users who wait; where only throughput counts, as many copies as leave a third of
    their memory to the cache, in stages where a domain is too small for that.
    """
    layout = Layout(tensor=min(row.gpus, system.domain))
    if not alone:
        widths = (w for w in range(1, int(layout.tensor) + 1) if layout.tensor % w == 0)
        stages = (s for s in range(2, row.gpus + 1) if row.gpus % (s * layout.tensor) == 0)
        choices = [*(Layout(tensor=w) for w in widths), *(Layout(tensor=layout.tensor, pipeline=s) for s in stages)]
        layout = next((one for one in choices if _roomy(architecture, system, one)), layout)
    if row.gpus % int(layout.gpus):
        raise NotUnderstood("parallelism", row.parallelism, f"state it: {row.gpus} GPUs do not divide into domains")
    staged = f" in {layout.pipeline} stages" if layout.pipeline > 1 else ""
    return Deployment(
        layout=layout,
        workers=row.gpus / float(layout.gpus),
        inferred=f"tensor parallel over {layout.tensor} GPUs{staged}: the row does not say",
    )


def _roomy(architecture: Architecture, system: System, layout: Layout) -> bool:
    """Whether weights leave a third of the memory to the cache."""
    room = memory(architecture, layout, 1.0, 1.0, 1.0, system.chip.memory_capacity)
    return float(room.weights) <= _WEIGHTS * float(room.capacity)
