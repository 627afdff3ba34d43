"""The function from a request for one pass to its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rackmath.api.apart import apart_note
from rackmath.api.drafts import draft_model_of, drafting
from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.estimate_result import EstimateResult
from rackmath.api.fastest import fastest_layout
from rackmath.api.images import image_tokens, prompt_notes, served_model
from rackmath.api.near import corrected, near_each
from rackmath.api.near_pass import configuration_of_pass, question_of
from rackmath.api.subjects import Cluster, Engine, engine_of, system_of
from rackmath.engine import Layout
from rackmath.engine.encoding import timed_again, timed_pass
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.io.constants_file import engine_of as version_of
from rackmath.io.constants_file import losses_of
from rackmath.models.architecture import Architecture
from rackmath.serving.engine_limits import draft_notes
from rackmath.serving.engines import micro_batch_tokens
from rackmath.serving.variants import as_read


def estimate(
    model: str | Architecture,
    on: str | System | Cluster,
    layout: str | Layout | None = None,
    *,
    batch: float | str,
    context: float | str,
    engine: Engine | str | None = None,
    **more: Any,
) -> EstimateResult:
    """Estimate one decode or prefill pass, as ``rackmath estimate`` does with the options of the same names.

    Parameters
    ----------
    model, on
        Names of the catalogue, repositories on Hugging Face, paths, or what :func:`load_model` and :func:`load_system`
        return.
    layout
        As tp8,ep8,pp1,dp1; by default the fastest that fits.
    batch
        Sequences of the whole deployment. [sequences]
    context
        Tokens that each new token sees; of a prompt its length. [tokens]
    engine
        Whose losses: by default a measured engine's; :meth:`Engine.ideal` is the bound.
    **more
        Other fields of :class:`EstimateRequest`.

    Errors: :class:`~rackmath.errors.InputError` for what is unknown or out of range,
    :class:`~rackmath.errors.DoesNotFit` where no layout exists.

    >>> bound = estimate("llama-3.1-8b", "h100-sxm", "tp1", batch=8, context="4k", engine=Engine.ideal())
    >>> f"{bound.time * 1e3:.2f} ms, bound by {bound.bound_by}"
    '5.75 ms, bound by weights'
    """
    options: dict[str, Any] = engine_of(engine).options if engine is not None else {}
    if isinstance(on, Cluster):
        options = {"gpus": on.gpus} | options
    request: Any = {"model": model, "on": system_of(on), "layout": layout, "batch": batch, "context": context}
    return run_estimate(EstimateRequest(**(request | options | more)))


def run_estimate(request: EstimateRequest) -> EstimateResult:
    """Answer a request.

    Errors: as of :func:`estimate`.
    """
    return corrected_results([computed_result(request)])[0]


def corrected_results(results: Sequence[EstimateResult]) -> list[EstimateResult]:
    """Computed passes, those that measurements may correct with what the nearest say.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    places = [
        i
        for i, (r, layout) in enumerate((result.request, result.layout) for result in results)
        if not (r.ideal or r.no_evidence or r.enforce_eager or layout.ffn > 0)
    ]
    questions = [results[i] for i in places]
    nearest = near_each([configuration_of_pass(e.request, e.architecture, e.system, e.layout) for e in questions])
    answers = list(results)
    for i, e, at in zip(places, questions, nearest, strict=True):
        phase = e.request.phase
        settings = {**e.settings, "losses": corrected(e.settings["losses"], {phase: at}, phase)}
        step = timed_again(e.computed, e.architecture, e.system, e.layout, settings)
        answers[i] = replace(e, step=step, near=at, settings=settings)
    return answers


def computed_result(request: EstimateRequest) -> EstimateResult:
    """Answer a request by physics and the constants of its engine alone.

    Errors: as of :func:`estimate`.
    """
    r, system = request, system_of(request.on)
    family = "" if r.ideal else r.engine
    architecture, file_note = as_read(served_model(r, r.model, system), family, r.weights, r.kv)
    r = replace(r, context=r.context + image_tokens(architecture))
    version = version_of(system, r.engine, r.year, r.enforce_eager)
    if r.draft_tokens and r.phase != "decode":
        raise InputError(
            "--draft-tokens", r.draft_tokens, "drafts are verified in decode: leave it out of --phase prefill"
        )
    draft = draft_model_of(r.draft_model, architecture)
    drafts = drafting(architecture, version, r.draft_tokens, r.acceptance, draft)
    settings: dict[str, Any] = {
        "batch": r.batch,
        "context": r.context,
        "phase": r.phase,
        "cached_tokens": r.cached_tokens,
        "piece": micro_batch_tokens(family),
        "draft_tokens": r.draft_tokens,
        "draft": draft,
        "accepted_tokens": drafts.accepted if r.draft_tokens else None,
        "losses": None if r.ideal else losses_of(system, version, question_of(r.phase, version)),
    }
    layout, notes, fastest = fastest_layout(architecture, system, r.gpus, r.layout, family, settings)
    if "[" in system.name:
        notes += (
            f"{system.name}: numbers as set; parts of its peaks that kernels reach as measured of the chip itself",
        )
    if architecture.max_context is not None and r.context > architecture.max_context:
        limit = f"{architecture.name} was trained for {architecture.max_context:,} tokens"
        notes += (f"{limit}: beyond them it computes, and nobody knows how well it answers",)
    first_answer = fastest or timed_pass(architecture, system, layout, settings)
    return EstimateResult(
        request=r,
        architecture=architecture,
        system=system,
        layout=layout,
        step=first_answer,
        computed=first_answer,
        near=None,
        tokens_per_step=drafts.accepted if r.phase == "decode" else None,
        price=catalogue.price_of(system, r.usd_per_gpu_hour),
        notes=(
            *notes,
            *file_note,
            *([drafts.note] if r.draft_tokens else []),
            *draft_notes(family, layout, r.draft_tokens),
            *prompt_notes(r, architecture, r.batch),
            *apart_note(layout),
        ),
        settings=settings,
    )
