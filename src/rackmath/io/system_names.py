"""Names of systems as drivers, clouds and load generators write them: ``NVIDIA A100-SXM4-40GB``, ``8xH100``."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from typing import NamedTuple

from rackmath.io.names import DATA, plain, stems

_BRANDS = {
    "nvidia", "amd", "intel", "google", "apple", "aws", "tesla", "geforce", "radeon", "instinct", "quadro", "gpu",
    "gpus", "accelerator", "graphics", "generation", "edition", "server", "workstation", "blackwell", "oam", "vf", "ac",
}  # fmt: skip
"""Words that name no chip: vendors, brands, and where a card is sold for."""
_MEMORIES = {"hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x", "gddr7"}
"""Kinds of memory, which few names need."""
_SOCKET = re.compile(r"^sxm\d$")
_CAPACITY = re.compile(r"^(\d+)(?:g|gb|gib)$")
_COUNT_BEFORE = re.compile(r"^(\d{1,5})\s*(?:[x*×]\s*|\s(?=\D))", re.IGNORECASE)
_COUNT_BEHIND = re.compile(r"\s*(?:[:*×]\s*|\bx\s*|(?<=\w)x)(\d{1,5})$", re.IGNORECASE)
_ROUNDING = 0.08
"""Names round capacities, or say what is on the board where the driver says what is left of it. [1]"""


class _Named(NamedTuple):
    """What a name says: its words without brands, together, and the capacity in it. [GB]"""

    words: str
    capacity: int | None


def stem_of(name: str) -> str | None:
    """Key of a catalogue system by its key or another name, however it is written.

    Words that name no chip do not count. A capacity chooses among chips of one name, and must be the chip's.
    """
    for words in ([name], _words(name), [word for word in _words(name) if word not in _MEMORIES]):
        key = plain("".join(words))
        stem = stems("systems", ".toml").get(key) or aliases().get(key)
        if stem is not None:
            return stem
    match = _named(name)
    choices = [(entry, stem) for entry, stem in _catalogue_names() if entry.words == match.words]
    if match.capacity is None:
        choices = sorted(choices, key=lambda choice: choice[0].capacity is not None)
    else:
        choices = [(entry, stem) for entry, stem in choices if _holds(stem, match.capacity)]
    return choices[0][1] if choices else None


def without_count(name: str) -> tuple[str, int] | None:
    """``8xH100`` or ``h100:8`` -> the name and the number of accelerators; None where a name says none."""
    for pattern in (_COUNT_BEFORE, _COUNT_BEHIND):
        match = pattern.search(name)
        rest = pattern.sub("", name)
        if match is not None and rest and stem_of(rest) is not None:
            return rest, int(match.group(1))
    return None


@lru_cache(maxsize=1)
def aliases() -> dict[str, str]:
    """Other names that catalogue systems go by, plain, and the key of each."""
    entries: dict[str, str] = {}
    for stem in stems("systems", ".toml").values():
        raw = tomllib.loads((DATA / "systems" / f"{stem}.toml").read_text())
        entries.update({plain(alias): stem for alias in raw.get("aliases", ())})
    return entries


def _words(name: str) -> list[str]:
    words = [_SOCKET.sub("sxm", word) for word in re.findall(r"[a-z0-9]+", name.lower())]
    return [word for word in words if word not in _BRANDS]


def _named(name: str) -> _Named:
    words = [word for word in _words(name) if word not in _MEMORIES]
    capacities = [match.group(1) for match in map(_CAPACITY.match, words) if match]
    chip = "".join(word for word in words if not _CAPACITY.match(word))
    return _Named(chip, int(capacities[0]) if len(capacities) == 1 else None)


@lru_cache(maxsize=1)
def _catalogue_names() -> tuple[tuple[_Named, str], ...]:
    """What every key and other name of the catalogue says, and the key of its system."""
    entries: list[tuple[_Named, str]] = []
    for stem in stems("systems", ".toml").values():
        raw = tomllib.loads((DATA / "systems" / f"{stem}.toml").read_text())
        entries += [(_named(name), stem) for name in (stem, *raw.get("aliases", ()))]
    return tuple(entries)


def _holds(stem: str, capacity: int) -> bool:
    """Whether the chip of a system has about so much memory. [GB]"""
    system = tomllib.loads((DATA / "systems" / f"{stem}.toml").read_text())
    chip = tomllib.loads((DATA / "chips" / f"{system['chip']}.toml").read_text())
    value, unit = chip["memory"]["capacity"]["value"].split()
    return unit == "GB" and abs(float(value) / capacity - 1) <= _ROUNDING
