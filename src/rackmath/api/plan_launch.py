"""A point of a plan as launch commands."""

from __future__ import annotations

from typing import Any

from rackmath.api.plan_question import PlanQuestion
from rackmath.engine.layout import Layout, expert_count
from rackmath.engine.sharding import USABLE
from rackmath.io import model_names
from rackmath.models.architecture import Architecture
from rackmath.models.eagle import EAGLE3
from rackmath.serving.choice import launched_sequences
from rackmath.serving.deployment_files import dynamo_yaml
from rackmath.serving.engines import reads_own_files
from rackmath.serving.launch import ENCODERS, ENGINES, LaunchedWorker, longest_request, notes
from rackmath.serving.launch_boxes import COMMANDS, launch_script
from rackmath.serving.launch_drafts import HEAD, OWN, TEXT
from rackmath.serving.launch_llama import VERSION, llama_notes
from rackmath.serving.plan import Plan
from rackmath.serving.startup.held import memory_shares


def workers_of(question: PlanQuestion, result: Plan, place: int) -> list[tuple[LaunchedWorker, int]]:
    """Each kind of worker of a point of a plan, and how many there are."""
    a, work = question.architecture, question.work
    p, search, space = result.search.points, result.search, result.space
    variant = space.variants[int(p.variant[place])]
    native = variant.weights == space.variants[0].weights and variant.architecture.groups == a.groups
    drafter = question.request.draft_model
    chunk, decode_chunk, units = float(p.chunk[place]), float(p.decode_chunk[place]), int(p.units[place])

    def server(layout: Layout, role: str, batch: float, chunk: float) -> LaunchedWorker:
        weights, activations = memory_shares(variant.architecture, question.system, [layout], [chunk])
        return LaunchedWorker(
            model=repository(question.request.model),
            layout=layout,
            role=role,
            batch=batch,
            chunk=chunk,
            longest=longest_request(work.input + work.output, a.max_context),
            draft_tokens=float(p.draft_tokens[place]),
            draft=_drafter(drafter) if drafter else OWN if a.mtp else TEXT,
            eagle=space.draft is not None and space.draft.target_hidden is not None,
            experts=int(expert_count(a)),
            quantise="" if native else variant.weights,
            cache=variant.kv,
            prefix_caching=work.cached_prefix > 0,
            memory=USABLE,
            activations=float(activations[0, 0]),
            weights=float(weights[0, 0]),
            redundant=0 if a.routing is None else a.routing.redundant or 0,
            interval=None if a.routing is None or a.routing.redundant is None else a.routing.interval,
            adapters=a.adapters,
            eager=question.request.enforce_eager,
            encoder_data=variant.architecture.images is not None and variant.architecture.images.tp_mode == "data",
        )

    decode = search.layouts[int(p.layout[place])]
    sequences = launched_sequences(question.system, work, space, search, place)
    if p.prefill[place] < 0:
        return [(server(decode, "", sequences, chunk), units)]
    prefill = search.layouts[int(p.prefill[place])]
    # Every stage of a pipeline reads a pass of its own.
    together = max(1.0, chunk // work.read) * float(prefill.data * prefill.pipeline)
    return [
        (server(prefill, "prefill", together, chunk), units * int(p.prefill_workers[place])),
        (server(decode, "decode", sequences, decode_chunk), units * int(p.workers[place])),
    ]


def launched(question: PlanQuestion, result: Plan, place: int) -> dict[str, Any]:
    """Scripts of engines for all servers of a point, the resource for two pools, and what flags do not say.

    An engine that deals whole layers and reads files of its own is launched as itself, others as any of three.
    """
    workers, has_own_files = workers_of(question, result, place), reads_own_files(question.space.engine)
    names = [name for name in COMMANDS if reads_own_files(name) == has_own_files]
    written_for = VERSION if has_own_files else ENGINES
    remarks = [note for worker, _ in workers for note in (llama_notes(worker) if has_own_files else notes(worker))]
    encoders = int(result.search.points.encoders[place])
    if encoders:
        remarks.append(f"{encoders} accelerators encode images, {ENCODERS}")
    name = slug(question.architecture.name)
    apart = any(worker.layout.ffn for worker, _ in workers)
    pools = {"kubernetes": dynamo_yaml(name, workers, question.system)} if len(workers) > 1 and not apart else {}
    return {
        "instances": int(result.search.points.units[place]),
        "engines": written_for,
        **{engine: launch_script(engine, workers, question.system) for engine in names},
        **pools,
        "notes": list(dict.fromkeys([f"flags of {written_for}", *remarks])),
    }


def _drafter(model: str | Architecture) -> str:
    """What an engine loads to draft; a typical head has no repository."""
    return HEAD if model == EAGLE3 else repository(model)


def repository(model: str | Architecture) -> str:
    """What an engine is told to load."""
    return model_names.repository(model.name if isinstance(model, Architecture) else str(model))


def slug(name: str) -> str:
    """A name as Kubernetes takes it."""
    return name.replace("/", "-").replace(".", "-").lower()
