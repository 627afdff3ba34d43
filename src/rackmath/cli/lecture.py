"""``lecture``: the blackboard, the ledger of its claims, and studies that are one remark of the lecture each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from rackmath.cli.app import LazyGroup

_LINES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cache": ("rackmath.cli.cache", "Where a cache waits: hold, retrieve or compute again, tier by tier."),
        "claims": ("rackmath.cli.blackboard", "The lecture's claims, computed with its inputs and with real ones."),
        "context": ("rackmath.cli.context", "Cost of a token against its context, and where serving stops."),
        "experts": ("rackmath.cli.experts", "A mixture's experts on the accelerators of a rack, with copies."),
        "fleet": ("rackmath.cli.fleet", "From tokens per second worldwide to racks, megawatts and dollars."),
        "modes": ("rackmath.cli.modes", "What fast, standard and slow cost on a system, and why."),
        "racks": ("rackmath.cli.racks", "What fits in which scale-up domain, at what latency."),
        "solve": ("rackmath.cli.blackboard", "Solve an equation of the blackboard for any symbol."),
        "sparsity": ("rackmath.cli.sparsity", "The sparsity of least cost for a number of users."),
    }
)


@click.group(cls=LazyGroup, lines=_LINES, epilog="Example: rackmath lecture racks --on h100-sxm,gb200-nvl72")
def lecture() -> None:
    """Work through the lecture: its equations, what became of its claims, and the studies behind its remarks."""
