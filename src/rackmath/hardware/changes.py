"""A system with other numbers: what ``--set bandwidth=2x`` means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from rackmath.errors import InputError
from rackmath.hardware.chip import Chip
from rackmath.hardware.network import Link
from rackmath.hardware.power import capped_clock
from rackmath.hardware.system import System
from rackmath.units import parse

UNITS: Mapping[str, str] = MappingProxyType(
    {
        "bandwidth": "B/s",
        "memory": "B",
        "flops": "1",
        "power": "W",
        "power_cap": "W",
        "price": "USD/s",
        "scale_up": "B/s",
        "scale_out": "B/s",
        "scale_up_latency": "s",
        "scale_out_latency": "s",
        "host_link": "B/s",
        "host_dram": "B",
        "host_dram_bandwidth": "B/s",
        "domain": "1",
    }
)
"""What can be changed, and its unit."""

_OTHER_NAMES = {"capacity": "memory", "chip.capacity": "memory"}


def changed_system(system: System, key: str, value: float | str) -> System:
    """A system with one number changed.

    Parameters
    ----------
    key : str
        One of :data:`UNITS`, with or without ``chip.`` before it: ``bandwidth`` and ``memory`` of each accelerator,
        ``flops`` (a factor of every precision), ``power``, ``power_cap`` (lowers the clock), ``price``; ``scale_up``,
        ``scale_out`` and their ``_latency``; ``host_link``, ``host_dram``, ``host_dram_bandwidth``; ``domain``, in
        accelerators.
    value : float or str
        In SI, with a unit, or a factor such as "2x"; a bare price is per hour.

    What is measured of the chip's kernels, as parts of its peaks, is kept.
    Errors: :class:`InputError` for keys and values that there are not.
    """
    name = _OTHER_NAMES.get(key, key).removeprefix("chip.")
    if name not in UNITS:
        way_out = "of a model as model.experts=512, of the engine as engine.host=0.5x"
        raise InputError(key, value, f"change one of {', '.join(UNITS)}, or {way_out}")
    chip = system.chip
    if name == "flops":
        factor = _amount(key, name, value, 1.0) if isinstance(value, str) and value.endswith("x") else None
        if factor is None:
            raise InputError(key, value, "write a factor of every precision, such as 2x")
        return replace(system, chip=_faster(chip, factor))
    if name == "power_cap":
        clock = capped_clock(chip, _amount(key, name, value, chip.power))
        return replace(system, chip=replace(_faster(chip, clock / chip.clock), clock=clock))
    fields = {"bandwidth": "memory_bandwidth", "memory": "memory_capacity", "power": "power"}
    if name in fields:
        new_chip: Chip = replace(chip, **{fields[name]: _amount(key, name, value, getattr(chip, fields[name]))})
        if name == "memory":
            new_chip = replace(new_chip, visible_memory=None)
        return replace(system, chip=new_chip)
    link = name.removesuffix("_latency")
    if link in ("scale_up", "scale_out"):
        part = "bandwidth" if name == link else "latency"
        old: Link | None = getattr(system, link)
        if old is None:
            raise InputError(
                key, value, f"{system.name} has no such network: write a system file, `rackmath systems --schema`"
            )
        return replace(system, **{link: replace(old, **{part: _amount(key, name, value, getattr(old, part))})})
    amount = _amount(key, name, value, getattr(system, name))
    return replace(system, **{name: int(amount) if name == "domain" else amount})


def _faster(chip: Chip, factor: float) -> Chip:
    """The chip with every rate times a factor."""
    vector = None if chip.vector_rate is None else chip.vector_rate * factor
    return replace(chip, rates=tuple((name, rate * factor) for name, rate in chip.rates), vector_rate=vector)


def _amount(key: str, name: str, value: float | str, old: float | None) -> float:
    """A value, or a factor of the old one; above zero."""
    if isinstance(value, str) and value.rstrip().endswith("x"):
        if old is None:
            raise InputError(key, value, "nobody says what it is: write the value itself")
        amount = parse(value.rstrip()[:-1], "1", key) * old
    elif name == "price" and not (isinstance(value, str) and value.rstrip()[-1:].isalpha()):
        amount = parse(value, "1", key) / 3600
    else:
        amount = parse(value, UNITS[name], key)
    if not amount > 0:
        raise InputError(key, value, "write a positive number")
    return amount
