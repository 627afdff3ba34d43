"""Published measurements as the package holds them, and the process over their residuals; read when first asked for.

``data/evidence.parquet`` has one row per measurement: facts with their source, what the row was of (columns that begin
with ``at_``), its residual under the shipped constants, and its own noise. ``data/evidence.toml`` has the
hyperparameters. Both are written by ``tools/evidence.py``.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rackmath.errors import InputError
from rackmath.evidence.configurations import AMOUNTS, NAMES, Book, Configurations, scaled
from rackmath.evidence.kernel import Part
from rackmath.evidence.posterior import Base, Process
from rackmath.io import paths, tables
from rackmath.io.paths import FOLDER

if TYPE_CHECKING:
    import polars as pl

_DATA = files("rackmath") / "data"
PREFIX = "at_"
"""Before the names of the columns that say what a row was of."""
FACTS = (
    "id", "run_id", "source", "date", "model", "hardware", "n_gpus", "engine", "weights", "kv", "arrivals",
    "concurrency", "request_rate", "batch", "input_mean", "output_mean", "context", "phase", "metric", "statistic",
    "per", "value", "confidence",
)  # fmt: skip
"""Columns of a row that are shown."""
OWN = "own"
"""Source of a user's answers and of a user's own measurements."""
_VERSION = 1


@lru_cache(maxsize=1)
def process() -> Process:
    """Hyperparameters of the process over residuals."""
    raw: dict[str, Any] = tomllib.loads((_DATA / "evidence.toml").read_text(encoding="utf-8"))
    parts = tuple(
        Part(name=p["name"], deviation=p["deviation"], differs=p["differs"], length=p.get("length", {}))
        for p in raw["part"]
    )
    return Process(
        parts=parts,
        noise=raw["noise"],
        unknown_source_weight=raw["unknown_source_weight"],
        quantile={
            distance: {kind: (below, above) for kind, (below, above) in kinds.items()}
            for distance, kinds in raw["quantile"].items()
        },
    )


@lru_cache(maxsize=1)
def published() -> pl.DataFrame:
    """All published measurements that the package holds."""
    import polars as pl

    with (_DATA / "evidence.parquet").open("rb") as file:
        return pl.read_parquet(file)


def base_of(frame: pl.DataFrame) -> tuple[Base, Book]:
    """Rows as the posterior takes them, and the book of their names."""
    book: dict[str, list[str]] = {}
    codes = np.empty((len(frame), len(NAMES)), dtype=np.int32)
    for i, name in enumerate(NAMES):
        texts, places = np.unique(frame[PREFIX + name].to_numpy().astype(str), return_inverse=True)
        book[name] = texts.tolist()
        codes[:, i] = np.where(texts[places] == "", -1, places)
    amounts = np.stack([frame[PREFIX + name].to_numpy() for name in AMOUNTS], axis=1)
    configurations = Configurations(codes, scaled(amounts))
    return Base(configurations, frame["residual"].to_numpy(), frame["noise"].to_numpy()), book


def own_path() -> Path:
    """File of a user's own measurements: see :func:`~rackmath.io.paths.own_folder`."""
    return paths.own_folder() / f"own-{_VERSION}.csv"


OwnVersion = tuple[str, int, int] | None
"""Path, time of the last change [ns] and size [B] of a user's own measurements; None where there are none."""


def own_version() -> OwnVersion:
    """What tells whether a user's own measurements are still those that were read."""
    path = own_path()
    try:
        facts = path.stat()
    except OSError:
        # What keeps it from being read is said by whoever reads it.
        return None
    return str(path), facts.st_mtime_ns, facts.st_size


def own_rows() -> list[dict[str, str]]:
    """A user's own measurements; none where there is no file.

    Errors: :class:`~rackmath.errors.InputError` for a file that is no table of measurements.
    """
    path = own_path()
    try:
        exists = path.is_file()
    except OSError as error:
        raise InputError(FOLDER, str(path), f"cannot be read: {error.strerror}") from error
    return tables.read_csv(path, FOLDER, ()) if exists else []


def write_own(rows: list[dict[str, str]]) -> Path:
    """Replace a user's own measurements.

    Errors: :class:`~rackmath.errors.InputError` where the folder cannot be written.
    """
    path = own_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(FOLDER, str(path.parent), f"cannot be made: {error.strerror}; name another folder") from error
    tables.write_csv(path, list(dict.fromkeys(key for row in rows for key in row)), rows, FOLDER)
    return path
