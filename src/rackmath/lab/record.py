"""A machine's ceilings as a file that every command takes for a system."""

from __future__ import annotations

from datetime import date

from rackmath.hardware.chip import FALLBACK
from rackmath.lab.ceilings import Ceilings

SOURCE = "lab-roofline"
"""Id under which the numbers name where they come from."""


def record(ceilings: Ceilings, day: date) -> str:
    """TOML of a system with one accelerator, this machine; every number says how it was measured."""
    stream = ceilings.streams[-1]
    lines = [
        f"# Written by `rackmath lab roofline` on {day}: what this machine reached, not what a data sheet says.",
        f'name = "{_plain(ceilings.machine.text())}"',
        "domain = 1",
        'fabric = "none"',
        "",
        "[chip]",
        f'name = "{_plain(ceilings.machine.name)}"',
        'vendor = "this machine"',
        f"year = {day.year}",
        'status = "measured"',
        "",
        "[chip.memory]",
        f"capacity = {_cited(ceilings.machine.memory, 'B', 'as the system reports it', day)}",
        f"bandwidth = {_cited(stream.bandwidth, 'B/s', f'sum over {stream.size / 2**20:.0f} MiB', day)}",
        "",
        "[chip.rate]",
    ]
    for precision in ceilings.precisions:
        if precision in FALLBACK:
            best = max(
                (product for product in ceilings.products if product.precision == precision),
                key=lambda product: product.rate,
            )
            shape = f"product of {best.rows} x {best.inner} and {best.inner} x {best.columns}"
            lines.append(f"{precision} = {_cited(best.rate, 'FLOP/s', shape, day)}")
    return "\n".join(lines) + "\n"


def _cited(value: float, unit: str, note: str, day: date) -> str:
    return f'{{ value = "{value:.6g} {unit}", source = "{SOURCE}", note = "{note}", date = {day} }}'


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")
