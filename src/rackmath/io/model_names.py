"""Names of models: those of the catalogue, of releases with the same architecture, and of their variants."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from rackmath.io.names import DATA, plain, stems
from rackmath.io.paths import is_file, is_folder

_VARIANT = re.compile(r"(?:^meta-|[-_](?:instruct|chat|it|base|hf|thinking|preview|\d{4})(?=$|[-_]))", re.IGNORECASE)
"""Parts of a release's name that say how, when and by whom it was tuned; its architecture is the same."""
_VERSION = re.compile(r"[-_]v\d\.\d$", re.IGNORECASE)
_FORMAT = re.compile(
    r"[-_.](?:(?P<fp8>fp8)|(?P<mxfp4>mxfp4)|(?P<nvfp4>nvfp4|fp4)|(?P<bf16>bf16|fp16)|(?P<int8>int8|8bit|w8a8|w8a16)"
    r"|(?P<awq>awq)|(?P<gptq>gptq)|(?P<int4>int4|4bit|w4a16))(?=$|[-_.])",
    re.IGNORECASE,
)
"""Parts of a release's name that say how its weights are stored."""
_FILE = re.compile(
    r"[-_.](?:gguf|mlx|quantized|dynamic|static|pertensor|block|preview|bnb|unsloth|qat|i1)(?=$|[-_.])", re.IGNORECASE
)
"""Parts of a release's name that say with what tool its weights were stored."""


def stem_of(name: str) -> str | None:
    """Key of a catalogue model by its key, another name, or either with a variant behind it."""
    name = name.rsplit("/", maxsplit=1)[-1]
    stem = stems("models", ".json").get(plain(name))
    return stem or _release_of(name)[0]


def repository(name: str) -> str:
    """What an engine is told to load: the repository on Hugging Face of a release, or the folder of a path.

    A name with its owner stands for itself; a model that nobody published keeps its name.
    """
    path = Path(name)
    if is_folder(path):
        return name
    if path.suffix == ".json" or is_file(path):
        return str(path.parent)
    if "/" in name:
        return name
    stem = stems("models", ".json").get(plain(name))
    return str((_raw(stem).get("repository") if stem else _release_of(name)[1]) or name)


def without_format(name: str) -> tuple[str, str | None] | None:
    """``Llama-3.1-8B-Instruct-FP8`` -> the catalogue's model, and the format of weights that the name says.

    The format is None of a file whose name does not say it, as of ``Qwen3-8B-GGUF``; all is None where the name says
    nothing of its weights, or the rest is no model.
    """
    rest = _FILE.sub("", _FORMAT.sub("", name))
    stem = stem_of(rest) if rest != name else None
    if stem is None:
        return None
    formats = [match.lastgroup for match in _FORMAT.finditer(name)]
    return stem, formats[-1] if formats else None


def _release_of(name: str) -> tuple[str | None, str | None]:
    """Key of the catalogue and repository of a release that no key names; Nones for an unknown one."""
    releases = _releases()
    key = plain(name)
    if key in releases:
        return releases[key]
    base = _VARIANT.sub("", name)
    if base in ("", name):
        return None, None
    stem = stems("models", ".json").get(plain(base))
    return (stem, _raw(stem).get("repository")) if stem else _release_of(base)


@lru_cache(maxsize=1)
def _releases() -> dict[str, tuple[str, str | None]]:
    """Key and repository by the plain names of releases, as published and without their variants.

    ``aliases`` of a file are other names of its own repository, ``releases`` other repositories of one architecture.
    """
    entries: dict[str, tuple[str, str | None]] = {}
    short_names: dict[str, tuple[str, str | None]] = {}
    for stem in stems("models", ".json").values():
        raw = _raw(stem)
        own_repository = raw.get("repository")
        for name in (*raw.get("aliases", ()), *([own_repository] if own_repository else ())):
            entries[plain(name.rsplit("/", maxsplit=1)[-1])] = (stem, own_repository)
        for release in raw.get("releases", ()):
            name = release.rsplit("/", maxsplit=1)[-1]
            entries[plain(name)] = (stem, release)
            short_names.setdefault(plain(_VERSION.sub("", _VARIANT.sub("", name))), (stem, release))
    return short_names | entries


def _raw(stem: str) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((DATA / "models" / f"{stem}.json").read_text())
    return raw
