"""What a report of a simulation has to say of its numbers."""

from __future__ import annotations

from rackmath.api.adapters import adapter_note
from rackmath.api.apart import apart_note
from rackmath.api.routing import eager_note, routing_note
from rackmath.api.simulation.fleet import loading
from rackmath.api.simulation.setup import Setup
from rackmath.caching.tiers import LIFETIME
from rackmath.hardware.power import cap_note
from rackmath.io import catalogue, constants_file
from rackmath.serving.engine_limits import pool_notes
from rackmath.serving.engines import layout_notes
from rackmath.serving.startup.rules import memory_note


def assumptions(setup: Setup) -> list[str]:
    """What a report has to say of its numbers."""
    r, last = setup.request, setup.groups[-1]
    systems = {group.system.name: group.system for group in setup.groups}
    layouts = [group.deployment.layout for group in setup.groups]
    worst = max(group.deployment.times.error for group in setup.groups)
    is_shared = bool(setup.cache.tiers) and setup.cache.tiers[0].shared
    return [
        *setup.notes,
        *(note for system in systems.values() for note in catalogue.price_note(system, r.usd_per_gpu_hour)),
        "the bound, without losses" if last.software is None
        else f"step times of {r.engine} of {r.year:g}",
        *dict.fromkeys(note for group in setup.groups if group.software is not None
                       for note in constants_file.unseen_notes(group.system, group.software, "time per token")),
        *dict.fromkeys(text for group in setup.groups if group.near is not None for text in group.near.sentences),
        *dict.fromkeys(note for group in setup.groups for note in group.notes),
        *dict.fromkeys(note for group in setup.groups
                       for note in (*adapter_note(group.architecture), *routing_note(group.architecture))),
        *dict.fromkeys(note for group in setup.groups for note in cap_note(group.system.chip)),
        *memory_note("" if last.software is None else r.engine),
        *eager_note(r),
        *dict.fromkeys(note for layout in layouts for note in apart_note(layout)),
        *dict.fromkeys(note for layout in layouts
                       for note in layout_notes(layout, "" if last.software is None else r.engine)),
        *(pool_notes("" if last.software is None else r.engine, last.architecture, *layouts)
          if setup.transfer is not None else ()),
        *_scaling_note(setup),
        *_upgrade_note(setup),
        f"tables within {worst:.1%} of the engine where they were checked",
        *(f"a replica of {group.deployment.layout.text()} holds {group.batching.memory:,} tokens of cache in blocks of "
          f"{group.batching.block}; a step takes at most {group.batching.max_num_seqs:,} sequences and "
          f"{group.batching.max_num_batched_tokens:,} tokens" for group in setup.groups),
        f"{last.batching.policy}, {last.batching.preemption}, {r.router}; seed {r.seed}",
        *(["a step is scheduled when the one before begins; --no-async-scheduling waits for its end"]
          if last.batching.ahead else []),
        *(["each of a layout's data-parallel groups is a replica; the others are taken to be as busy"]
          if any(int(layout.data) > 1 for layout in layouts) else []),
        *(["each micro-batch of a pipeline is a replica whose step passes all stages; all wait for those that read"]
          if any(group.deployment.groups > int(group.deployment.layout.data) for group in setup.groups) else []),
        *(["prefixes stay in the memory that running requests leave; --tiers says otherwise"]
          if is_shared and r.tiers is None else []),
        *([f"devices of tiers at catalogue prices over {LIFETIME / (365.25 * 86_400):g} years"]
          if any(tier.price for tier in setup.cache.tiers) else []),
        *(["the traffic names no prefix blocks: prefix caches stay empty"]
          if r.tiers and not len(setup.work.start) else []),
        *(["a replica that fails loses its caches; what it held is read again elsewhere, nothing is lost"]
          if r.mtbf else []),
    ]  # fmt: skip


def _scaling_note(setup: Setup) -> list[str]:
    """How the fleet grows and shrinks; nothing where it does not."""
    rules = setup.fleet(setup.groups[0]).scaling
    if rules is None:
        return []
    units = {"concurrency": "requests in flight", "queue": "queued requests", "rate": "requests per second"}
    aim = (
        f"{rules.target:.3g} {units[rules.metric]} per replica"
        if rules.metric in units
        else (f"as many replicas as keep {rules.limit:.3g} s per token")
    )
    loading_time = _loading_text(setup)
    return [
        f"autoscaler: every {rules.interval:g} s it aims at {aim}, "
        f"between {rules.least} and {rules.most} replicas; a replica starts in {rules.startup:.4g} s{loading_time}, "
        f"scale-down waits for {rules.window:g} s of lower load"
    ]


def _loading_text(setup: Setup) -> str:
    """How much of a start the loading of weights takes; nothing where nobody says where they come from."""
    seconds = loading(setup.request, setup.groups[0])
    return f" ({seconds:.3g} s of it to load weights from {setup.request.weights_from})" if seconds else ""


def _upgrade_note(setup: Setup) -> list[str]:
    """How the fleet is upgraded; nothing where it is not."""
    rules = setup.fleet(setup.groups[0]).upgrade
    if rules is None:
        return []
    return [
        f"rolling upgrade from {rules.begin:g} s on: {rules.at_a_time} out at a time; a replica ends its requests and "
        f"starts again in {rules.restart:.4g} s{_loading_text(setup)}, its prefix cache empty"
    ]
