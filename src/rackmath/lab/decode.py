"""A transformer with a KV cache on this machine: the lecture's two graphs, measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import torch

from rackmath.lab.budget import TimeLimit
from rackmath.lab.ceilings import Ceilings
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Timing, timed
from rackmath.lab.networks import DENSE, MIXTURE, Decoder, NetworkSizes, operations
from rackmath.lab.predicted import balance_batch, pass_time
from rackmath.lab.roofline import ceilings_of
from rackmath.lab.subjects import Subject, of_library, own, token_numbers
from rackmath.models.architecture import Experts
from rackmath.models.cache import kv_bytes_per_token
from rackmath.models.operators import distinct_experts

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192)
_SHORT, _FEW = 128, 8
"""Context of the curve over batches, and batch of the curve over contexts."""
_MOST = 0.5
"""Of the repeats of one point. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    batch: int
    context: int
    timing: Timing
    predicted: float


def experiment(
    ceilings: Ceilings,
    budget: TimeLimit,
    *,
    batches: Sequence[int] = BATCHES,
    contexts: Sequence[int] = CONTEXTS,
    sizes: Sequence[NetworkSizes] | None = None,
    prompt: int = 512,
    library: bool = True,
) -> Experiment:
    """Decode at many batches and contexts, dense and with experts; read a prompt; count experts.

    Parameters
    ----------
    sizes : sequence of NetworkSizes, optional
        Decoders; by default a dense one and a mixture that suit the device.
    prompt : int
        Tokens of the prompt that is read at once.
    library : bool
        Whether transformers' own classes are decoded as well, where they are installed.
    """
    start = perf_counter()
    device = ceilings.machine.device
    size_names = sizes or [table.get(device, table["cpu"]) for table in (DENSE, MIXTURE)]
    # One model after the other: what it takes to import and make those of a library is their own share's.
    makers: list[Callable[[], Subject | None]] = [partial(own, name, device) for name in size_names]
    if library:
        makers += [partial(of_library, name, device) for name in size_names]
    curves: list[ExperimentCurve] = []
    facts: dict[str, object] = {}
    findings: list[str] = []
    for place, make in enumerate(makers):
        part = budget.part(1 / (len(makers) - place))
        subject = make()
        if subject is None:
            continue
        # The first call loads kernels, which is nobody's time.
        subject.pass_of("decode", 1, _SHORT)()
        half = part.part(0.5)
        over_batch = [
            _point(ceilings, subject, "decode", batch, _SHORT, half, len(batches) - number)
            for number, batch in enumerate(half.sized(batches, float, f"{subject.name}, batches"))
        ]
        fitting = [context for context in contexts if _fits(ceilings, subject, context)]
        over_context = [
            _point(ceilings, subject, "decode", _FEW, context, part, len(fitting) - number)
            for number, context in enumerate(part.sized(fitting, float, f"{subject.name}, contexts"))
        ]
        curves += [*_batch_curves(subject, over_batch), _context_curve(subject, over_context)]
        prefill = _point(ceilings, subject, "prefill", 1, prompt, part, 1)
        facts[subject.name], sentences = _facts(ceilings, subject, over_batch, over_context, prefill)
        findings += sentences
        if subject.coverage is not None:
            curves.append(_coverage_curve(subject, [point.batch for point in over_batch]))
    if device == "cuda":
        curves.append(_graph_curve(ceilings, size_names[0], batches, budget.each(len(batches), _MOST)))
    return Experiment(
        name="decode",
        title="decoding with a KV cache",
        machine=ceilings.machine,
        curves=curves,
        facts=facts,
        findings=[*findings, *budget.notes()],
        ceilings=ceilings_of(ceilings),
        seconds=perf_counter() - start,
    )


def _fits(ceilings: Ceilings, subject: Subject, context: int) -> bool:
    """Whether caches leave half of the memory free."""
    return _FEW * context * kv_bytes_per_token(subject.architecture) < ceilings.machine.memory / 8


def _point(
    ceilings: Ceilings, subject: Subject, phase: str, batch: int, context: int, budget: TimeLimit, points: int
) -> _Point:
    """One pass; ``points`` share what is left of the budget."""
    budget.say(f"{subject.name}: {phase} of {batch} x {context}")
    work = subject.pass_of(phase, batch, context)
    time = timed(work, ceilings.machine.device, seconds=budget.each(points, _MOST))
    predicted = pass_time(
        ceilings, subject.architecture, phase=phase, batch=batch, context=context, operations=operations(work)
    )
    return _Point(batch=batch, context=context, timing=time, predicted=predicted)


def _batch_curves(subject: Subject, points: Sequence[_Point]) -> list[ExperimentCurve]:
    """Time of a pass, and time per token, against the batch."""

    def curve(panel: str, up: str, share: Callable[[_Point], float]) -> ExperimentCurve:
        return ExperimentCurve(
            panel=panel,
            name=subject.name,
            across="sequences",
            up=up,
            x=[p.batch for p in points],
            measured=[p.timing.median * share(p) for p in points],
            low=[p.timing.low * share(p) for p in points],
            high=[p.timing.high * share(p) for p in points],
            predicted=[p.predicted * share(p) for p in points],
        )

    return [
        curve(f"a pass at {_SHORT} tokens of context", "s", lambda _: 1.0),
        curve("time per token: what it costs", "s per token", lambda p: 1.0 / p.batch),
    ]


def _context_curve(subject: Subject, points: Sequence[_Point]) -> ExperimentCurve:
    return ExperimentCurve(
        panel=f"a pass of {_FEW} sequences",
        name=subject.name,
        across="tokens of context",
        up="s",
        x=[p.context for p in points],
        measured=[p.timing.median for p in points],
        low=[p.timing.low for p in points],
        high=[p.timing.high for p in points],
        predicted=[p.predicted for p in points],
    )


def _coverage_curve(subject: Subject, batches: Sequence[int]) -> ExperimentCurve:
    assert subject.coverage is not None, "only mixtures have experts"
    coverage = [subject.coverage(batch) for batch in batches]
    blocks = [f for layer in subject.architecture.layers for f in layer.feed_forwards]
    experts = next(f for f in blocks if isinstance(f, Experts))
    return ExperimentCurve(
        panel="distinct experts of a layer",
        name=subject.name,
        across="sequences",
        up="experts",
        x=list(batches),
        measured=coverage,
        predicted=[float(distinct_experts(experts.experts, experts.active, float(batch))) for batch in batches],
        log_up=False,
    )


def _facts(
    ceilings: Ceilings, subject: Subject, over_batch: Sequence[_Point], over_context: Sequence[_Point], prefill: _Point
) -> tuple[dict[str, float], list[str]]:
    """Floor, knee, slope of the cache, prompt against decode."""
    floor, last = over_batch[0], over_batch[-1]
    facts = {
        "floor": floor.timing.median,
        "floor_predicted": floor.predicted,
        "cost_of_batch_one": (floor.timing.median / 1) / (last.timing.median / last.batch),
        "cost_of_batch_one_predicted": floor.predicted / (last.predicted / last.batch),
        "knee_predicted": balance_batch(ceilings, subject.architecture, _SHORT),
        "prompt_token": prefill.timing.median / prefill.context,
        "prompt_token_predicted": prefill.predicted / prefill.context,
        "decode_over_prompt": (last.timing.median / last.batch) / (prefill.timing.median / prefill.context),
    }
    comparison = ""
    if last.batch > floor.batch:
        comparison = (
            f"; a token at batch 1 costs {facts['cost_of_batch_one']:.3g} times one at batch {last.batch} "
            f"({facts['cost_of_batch_one_predicted']:.3g} predicted)"
        )
    findings = [
        f"{subject.name}: a pass takes {floor.timing.median * 1e3:.3g} ms at batch 1 ({floor.predicted * 1e3:.3g} "
        f"predicted){comparison}.",
        f"{subject.name}: a token of a prompt takes {facts['prompt_token'] * 1e6:.3g} us "
        f"({facts['prompt_token_predicted'] * 1e6:.3g} predicted), a decoded one at batch {last.batch} "
        f"{facts['decode_over_prompt']:.3g} times that.",
    ]
    if len(over_context) > 1:
        slope, predicted = (_slope(over_context, get) for get in (_measured, _predicted))
        facts |= {"slope": slope, "slope_predicted": predicted}
        findings.append(
            f"{subject.name}: each token of context adds {slope * 1e9:.3g} ns to a pass of {_FEW} "
            f"({predicted * 1e9:.3g} predicted)."
        )
    return facts, findings


def _measured(point: _Point) -> float:
    return point.timing.median


def _predicted(point: _Point) -> float:
    return point.predicted


def _slope(points: Sequence[_Point], get: Callable[[_Point], float]) -> float:
    """Seconds per token of context, between the shortest and the longest."""
    return (get(points[-1]) - get(points[0])) / (points[-1].context - points[0].context)


def _graph_curve(ceilings: Ceilings, sizes: NetworkSizes, batches: Sequence[int], seconds: float) -> ExperimentCurve:
    """The dense decoder's passes replayed as CUDA graphs: no operation waits for the host."""
    model = Decoder(sizes, "cuda")
    timings: list[Timing] = []
    for batch in batches:
        cache, tokens = model.cache(batch, _SHORT), token_numbers(sizes.vocabulary, batch, 1, "cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(tokens, cache, _SHORT - 1)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(tokens, cache, _SHORT - 1)
        timings.append(timed(graph.replay, "cuda", seconds=seconds))
    return ExperimentCurve(
        panel=f"a pass at {_SHORT} tokens of context",
        name="dense, one CUDA graph",
        across="sequences",
        up="s",
        x=list(batches),
        measured=[t.median for t in timings],
        low=[t.low for t in timings],
        high=[t.high for t in timings],
        predicted=[
            pass_time(ceilings, sizes.architecture, phase="decode", batch=batch, context=_SHORT, operations=0)
            for batch in batches
        ],
    )
