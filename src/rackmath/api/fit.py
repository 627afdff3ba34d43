"""Which models fit on accelerators, in which formats, and how fast each writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rackmath.api.estimate import computed_result, corrected_results
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.estimate_result import EstimateResult
from rackmath.api.fit_request import FitRequest
from rackmath.api.fit_table import OWN
from rackmath.api.near import all_measurements
from rackmath.api.result import Result
from rackmath.api.split import NOTES, Run, split_row, systems_of
from rackmath.api.subjects import system_of
from rackmath.engine.layout import expert_count
from rackmath.errors import DoesNotFit, InputError, NotUnderstood
from rackmath.figures import Figure, Panel, Series
from rackmath.hardware import System
from rackmath.hardware.chip import memory_kept_note
from rackmath.io import catalogue
from rackmath.io.constants_file import DEFAULT_ENGINE, FAMILIES
from rackmath.models.architecture import Architecture
from rackmath.models.counts import active_params, total_params, weight_bytes
from rackmath.models.formats import weight_format
from rackmath.models.requantise import requantise
from rackmath.serving.engines import engine_of_unlike_cards, multiplies_on_host, reads_own_files, vendor_notes
from rackmath.serving.offload import DESKTOP_BANDWIDTH, STREAMED, STREAMED_RANGE, Offload, offload
from rackmath.serving.variants import cache_as_read, file_of
from rackmath.units import counted

_FILES = ("f16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
"""Formats of llama.cpp's files, widest first."""
_KERNELS = (("fp8", "fp8-channel", 8.0), ("fp4", "nvfp4", 4.0), ("bf16", "awq", 4.0))
"""Precision that a chip needs, format, and bits of it: what engines of servers quantise to."""
_SURELY_TOO_LARGE = 2.0
"""Multiple of the memory beyond which weights at their format's mean width need no exact count. [1]"""


def run_fit(r: FitRequest, progress: Callable[[str], None] | None = None) -> Result:
    """Every model and format that fits, fastest first.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range.
    """
    system = system_of(r.on)
    if r.host_memory is not None and system.host_link is None:
        raise InputError(
            "--host-memory", r.host_memory, f"{system.name} shares its memory with the host, or names no link to one"
        )
    engine = r.engine or (engine_of_unlike_cards() if r.card else _most_measured(system))
    machine = [system] * (r.gpus or system.default_gpus) + (systems_of(r.card) if r.card else [])
    names = [name.strip() for name in r.models.split(",")] if r.models else catalogue.model_names()
    rows: list[dict[str, Any]] = []
    passes: list[_Pass] = []
    reasons: dict[str, str] = {}
    for count, name in enumerate(names):
        if progress is not None:
            progress(f"fit: {count} of {len(names)} models")
        model = catalogue.model(name)
        reasons[name] = _untrained(model, r.context)
        if reasons[name]:
            continue
        reasons[name] = "does not fit in any of the formats"
        for text, candidate in _candidates(r, model, machine, engine):
            try:
                if r.card:
                    run = Run(batch=r.batch, context=r.context, engine=engine, year=r.year, ideal=r.ideal)
                    rows.append(split_row(candidate, machine, run, name, text))
                elif (fit_pass := _computed(r, name, candidate, text, system, engine)) is not None:
                    passes.append(fit_pass)
            except (DoesNotFit, NotUnderstood) as error:
                reasons[name] = str(error)
    # Measurements near all of them are looked up in one go: formats of a model are near the same ones.
    results = corrected_results([fit_pass.result for fit_pass in passes])
    rows += [_facts(r, replace(p, result=result), system, engine) for p, result in zip(passes, results, strict=True)]
    if r.tpot is not None:
        reasons |= {row["model"]: f"slower than {r.tpot * 1e3:g} ms per token" for row in rows}
        rows = [row for row in rows if row["time"] <= r.tpot]
    fitting = {row["model"] for row in rows}
    left_out = [{"model": name, "reason": reason} for name, reason in reasons.items() if name not in fitting]
    rows.sort(key=lambda row: -row["tokens_per_second"])
    notes = _assumptions(r, system, engine, rows)
    return Result(request=r, facts=rows, draw=lambda: _figure(rows, system), details=(system, engine, left_out, notes))


def _most_measured(system: System) -> str:
    """The engine that most measurements on the chip are of, else on its generation.

    Without either: llama.cpp on accelerators that stand alone, which it runs on where other engines do not.
    """
    frame = all_measurements()
    for column, name in (("at_chip", system.chip.name), ("at_generation", system.chip.generation)):
        counts = dict(frame.filter(frame[column] == name)["engine"].value_counts().iter_rows())
        if any(counts.get(family) for family in FAMILIES):
            return max(FAMILIES, key=lambda family: counts.get(family, 0))
    return DEFAULT_ENGINE if system.domain > 1 else engine_of_unlike_cards()


def _untrained(model: Architecture, context: float) -> str:
    if model.max_context is None or context <= model.max_context:
        return ""
    return f"trained for {model.max_context:,} tokens"


def _candidates(
    r: FitRequest, model: Architecture, machine: list[System], engine: str
) -> Iterator[tuple[str, Architecture]]:
    """A model in each format in which its weights may find room."""
    room = sum(s.chip.usable_memory for s in machine) + (r.host_memory or 0.0)
    for text in _formats(r, model, machine[0], engine):
        if text != OWN and total_params(model) * weight_format(text).bits / 8 > _SURELY_TOO_LARGE * room:
            continue
        candidate = model if text == OWN else requantise(model, weights=weight_format(text))
        candidate = requantise(candidate, cache=cache_as_read(model, engine, r.kv)) if r.card else candidate
        if sum(weight_bytes(candidate).values()) <= 1.1 * room:
            yield text, candidate


def _formats(r: FitRequest, model: Architecture, system: System, engine: str) -> list[str]:
    """Formats to try: none wider than the model's own."""
    if r.weights:
        return [text.strip() for text in r.weights.split(",")]
    bits = model.narrowest_bits
    if reads_own_files(engine):
        narrower = [text for text in _FILES if weight_format(text).bits < bits + 0.5]
        own_format = file_of(model, engine) or OWN
        return [own_format, *narrower] if bits < 8 else narrower
    rates = dict(system.chip.rates)
    return [OWN, *(text for needs, text, width in _KERNELS if needs in rates and width < bits)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pass:
    """One model in one format that has room."""

    name: str
    text: str
    model: Architecture
    result: EstimateResult
    moved: Offload | None


def _computed(r: FitRequest, name: str, model: Architecture, text: str, system: System, engine: str) -> _Pass | None:
    """A step of one model in one format, by physics alone; None where it does not fit."""
    result = computed_result(
        EstimateRequest(
            model=model,
            on=system,
            gpus=r.gpus,
            batch=r.batch,
            context=r.context,
            kv=r.kv,
            engine=engine,
            year=r.year,
            ideal=r.ideal,
            no_evidence=r.no_evidence,
        )
    )
    apart = r.cpu_moe and bool(expert_count(model))
    if result.fits and not apart:
        return _Pass(name=name, text=text, model=model, result=result, moved=None)
    if r.host_memory is None or float(result.layout.data) > 1:
        return None
    offloading = offload(
        model,
        result.layout,
        system.chip.usable_memory,
        sequences=r.batch,
        context=r.context,
        all_experts=apart,
    )
    if not offloading.fits or offloading.bytes > r.host_memory:
        return None
    return _Pass(name=name, text=text, model=model, result=result, moved=offloading)


def _times(r: FitRequest, p: _Pass, system: System, engine: str) -> tuple[float, float, float]:
    """Time of a step, and its range. [s]"""
    times = (p.result.time, *p.result.time_range)
    if p.moved is None:
        return times
    if _multiplied_there(r, engine):
        bandwidth = r.host_bandwidth or system.host_dram_bandwidth or DESKTOP_BANDWIDTH
        parts = (STREAMED, STREAMED_RANGE[1], STREAMED_RANGE[0])
    else:
        bandwidth = (system.host_link or 0.0) * float(p.result.layout.gpus)
        parts = (0.85, 0.95, 0.6)
    value, low, high = (p.moved.time(time, part * bandwidth) for time, part in zip(times, parts, strict=True))
    return value, low, high


def _multiplied_there(r: FitRequest, engine: str) -> bool:
    """Whether the host's processor multiplies what stands in its memory, instead of the accelerator over the link."""
    return r.cpu_moe or multiplies_on_host(engine)


def _facts(r: FitRequest, p: _Pass, system: System, engine: str) -> dict[str, Any]:
    result, offloading, (time, low, high) = p.result, p.moved, _times(r, p, system, engine)
    memory, ranks = result.step.memory, float(result.layout.gpus)
    return {
        "model": p.name,
        "weights": p.text,
        "tokens_per_second": r.batch / time,
        "time": time,
        "time_low": low,
        "time_high": high,
        "memory": float(memory.total) - (offloading.bytes / ranks if offloading else 0.0),
        "offloaded_bytes": offloading.bytes if offloading else 0.0,
        "offloaded_layers": offloading.layers if offloading else 0,
        "offloaded_expert_layers": offloading.expert_layers if offloading else 0,
        "layout": result.layout.text(),
        "total_params": total_params(p.model),
        "active_params": active_params(p.model),
        "evidence": result.near.posterior.distance if result.near is not None else None,
    }


def _assumptions(r: FitRequest, system: System, engine: str, rows: list[dict[str, Any]]) -> list[str]:
    notes = [f"decode steps of {engine} of {r.year:.1f}, {counted(r.batch, 'request')} at {r.context:,.0f} tokens"]
    if not r.ideal:
        notes += vendor_notes(engine, system.chip.vendor)
    notes += memory_kept_note(system.chip)
    if r.card:
        notes += NOTES
    elif r.engine is None:
        notes.append(
            f"{engine}: the engine with most published measurements on {system.chip.name}; --engine changes it"
        )
    if any(row["offloaded_bytes"] for row in rows):
        if _multiplied_there(r, engine):
            bandwidth = r.host_bandwidth or system.host_dram_bandwidth or DESKTOP_BANDWIDTH
            low, high = STREAMED_RANGE
            first = "all experts" if r.cpu_moe else "experts of the last layers first"
            notes.append(
                f"on the host: {first}, then whole layers, read at {STREAMED:g} ({low:g} to {high:g}) of "
                f"{bandwidth / 1e9:.4g} GB/s while the accelerator waits; KTransformers' own figures are 0.42 on one "
                "socket and 0.29 on two"
            )
        else:
            notes.append("on the host: read over the link in each step, at 0.85 (0.6 to 0.95) of its bandwidth")
    return notes


def _figure(rows: list[dict[str, Any]], system: System) -> Figure:
    """Total parameters across, speed up, a point for each format."""
    names = sorted({row["weights"] for row in rows})
    series = [
        Series(
            name=name,
            x=[row["total_params"] for row in rows if row["weights"] == name],
            y=[row["tokens_per_second"] for row in rows if row["weights"] == name],
            kind="points",
            labels=[row["model"] for row in rows if row["weights"] == name],
        )
        for name in names
    ]
    return Figure(
        title=f"what fits on {system.chip.name}, and how fast it writes",
        panels=[Panel(across="parameters", up="tokens/s", series=series, log_across=True, log_up=True)],
    )
