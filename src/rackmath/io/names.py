"""Names of the catalogue's files, and what is near a name that none of them has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

DATA: Traversable = files("rackmath") / "data"


@cache
def stems(folder: str, suffix: str) -> Mapping[str, str]:
    """Names of the catalogue's files in a folder, sorted, by what they are without case and signs."""
    names = sorted(
        entry.name.rsplit(".", maxsplit=1)[0] for entry in (DATA / folder).iterdir() if entry.name.endswith(suffix)
    )
    return {plain(name): name for name in names}


def plain(name: str) -> str:
    """A name without case and signs."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(maxsize=256)
def near(name: str, names: tuple[str, ...], command: str) -> str:
    """Say which names are near, or where all of them are."""
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    close += [key for key in names if plain(name) in plain(key) and key not in close][:3]
    hint = f"did you mean {', '.join(close)}?" if close else "unknown;"
    return f"{hint} `rackmath {command}` lists all"
