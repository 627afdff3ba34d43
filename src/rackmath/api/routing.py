"""How tokens choose among experts, as requests say it: a power law, counts of a file, copies placed by load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from rackmath.api import kinds, options
from rackmath.api.adapters import AdapterFields
from rackmath.api.fields import Option
from rackmath.engine.layout import expert_count
from rackmath.errors import InputError
from rackmath.io import tables
from rackmath.models.architecture import Architecture
from rackmath.models.routing import INTERVAL, Routing

SKEW = Option(
    help="Popularity of the i-th expert: 1 / i^s (default: even, and the fitted imbalance of its ranks).",
    kind=kinds.NUMBER,
)
LOAD = Option(
    help="CSV of tokens by expert instead: columns expert, tokens, and layer where there are several.",
    metavar="FILE",
)
CORRELATION = Option(
    help="Correlation of two tokens' choices of an expert, 0 to 0.9: fewer distinct ones.", kind=kinds.NUMBER
)
REDUNDANT = Option(
    help="Copies of experts, all placed by their load as by EPLB (default: in order, no copies).",
    kind=kinds.whole(0, 100_000),
    names=("--redundant-experts", "--num-redundant-experts"),
    flags={"vllm": "--eplb-config", "sglang": "--ep-num-redundant-experts"},
)


INTERVAL_OPTION = Option(
    help="Steps between two placements of experts by load; the time to move them is spread over these steps.",
    kind=kinds.whole(1, 10**9),
    names=("--eplb-step-interval",),
    flags={"vllm": "--eplb-config", "sglang": "--eplb-rebalance-num-iterations"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFields(AdapterFields):
    """Fields of every request that serves a model: adapters, how tokens choose experts, whether steps are graphs."""

    expert_skew: Annotated[float | None, SKEW] = None
    expert_load: Annotated[str | None, LOAD] = None
    expert_correlation: Annotated[float, CORRELATION] = 0.0
    redundant_experts: Annotated[int | None, REDUNDANT] = None
    eplb_step_interval: Annotated[int, INTERVAL_OPTION] = INTERVAL
    enforce_eager: Annotated[bool, options.EAGER] = False


def routing_of(
    skew: float | None,
    load: str | None,
    correlation: float = 0.0,
    redundant: int | None = None,
    interval: int = INTERVAL,
) -> Routing | None:
    """How tokens choose; None where nothing is said.

    Errors: :class:`InputError` for numbers out of range, files that cannot be read, a law beside counts, and an
    interval at which nothing is placed.
    """
    if redundant is None and interval != INTERVAL:
        raise InputError("--eplb-step-interval", interval, "say how many copies are placed: --redundant-experts 0")
    if skew is not None and load is not None:
        raise InputError("--expert-load", load, "give it or --expert-skew, not both")
    if skew is None and load is None and not correlation and redundant is None:
        return None
    counts = () if load is None else counts_of(Path(load))
    return Routing(skew=skew or 0.0, counts=counts, correlation=correlation, redundant=redundant, interval=interval)


def with_routing(architecture: Architecture, r: ServedFields) -> Architecture:
    """The model with the routing of a request.

    Errors: :class:`InputError` as of :func:`routing_of`, and for models without experts.
    """
    routing = routing_of(r.expert_skew, r.expert_load, r.expert_correlation, r.redundant_experts, r.eplb_step_interval)
    if routing is None:
        return architecture
    experts = expert_count(architecture)
    if not experts:
        raise InputError("MODEL", architecture.name, "has no experts: leave options of experts out")
    if len(routing.counts) % experts:
        raise InputError("--expert-load", len(routing.counts), f"counts: {architecture.name} has {experts} experts")
    return replace(architecture, routing=routing)


def routing_note(architecture: Architecture) -> tuple[str, ...]:
    """What a reader has to know of it; nothing where nothing was said."""
    routing = architecture.routing
    if routing is None:
        return ()
    law = "experts as counted" if routing.counts else f"the i-th expert is wanted as 1 / i^{routing.skew:g}"
    placement_text = (
        "on ranks in order"
        if routing.redundant is None
        else f"on ranks by load, {routing.redundant} copies (EPLB), all of them moved every {routing.interval:,} steps"
    )
    together = f", choices correlated by {routing.correlation:g}" if routing.correlation else ""
    return (f"{law}{together}; {placement_text}; the fullest rank's work is computed, the fitted imbalance left out",)


def counts_of(path: Path) -> tuple[float, ...]:
    """Tokens of each expert, layer after layer, from a CSV file.

    Errors: :class:`InputError` for cells that are no numbers, experts that are said twice or left out.
    """
    rows = tables.read_csv(path, "--expert-load", ("expert", "tokens"))
    layers: dict[int, dict[int, float]] = {}
    for place, row in enumerate(rows, 2):
        try:
            layer, expert, tokens = int(row.get("layer") or 0), int(row["expert"]), float(row["tokens"])
        except ValueError as error:
            raise InputError(f"--expert-load line {place}", _cells(row), "write whole experts, and tokens") from error
        if expert in layers.setdefault(layer, {}):
            raise InputError(f"--expert-load line {place}", expert, "is there twice: give a column layer")
        layers[layer][expert] = tokens
    if not layers:
        raise InputError("--expert-load", str(path), "holds no rows")
    experts = max(max(layer) for layer in layers.values()) + 1
    for name, layer in layers.items():
        if sorted(layer) != list(range(experts)):
            raise InputError(
                "--expert-load", str(path), f"lacks experts of layer {name}: number them 0 to {experts - 1}"
            )
    return tuple(layers[layer][expert] for layer in sorted(layers) for expert in range(experts))


def _cells(row: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.items())


def eager_note(r: ServedFields) -> tuple[str, ...]:
    """What a reader has to know of steps that are no graphs; nothing where they are."""
    if not r.enforce_eager:
        return ()
    return (
        "steps run without CUDA graphs (--enforce-eager): times by physics alone, "
        "since measurements nearby are with graphs",
    )
