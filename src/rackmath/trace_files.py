"""Request traces -> workloads: Azure's, Mooncake's and BurstGPT's files, and tables that name their columns alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.workload import LONGEST, Workload

ARRIVAL: Mapping[str, float] = {
    "TIMESTAMP": 1.0, "Timestamp": 1.0, "timestamp": 1e-3, "arrival": 1.0, "arrival_time": 1.0, "arrived_at": 1.0,
    "time": 1.0,
}  # fmt: skip
"""Columns of arrival and their unit in seconds; Mooncake's lower-case timestamp counts milliseconds."""
PROMPT = (
    "ContextTokens", "Request tokens", "input_length", "input", "prompt", "prompt_tokens", "input_tokens",
    "num_prefill_tokens",
)  # fmt: skip
OUTPUT = (
    "GeneratedTokens", "Response tokens", "output_length", "output", "completion_tokens", "output_tokens",
    "num_decode_tokens",
)  # fmt: skip
_RANK, _BLOCKS, _NAMES = ("priority", "rank"), ("hash_ids", "block_ids"), ("id", "request_id")
_MODELS = ("model", "Model")
_ISO = "%Y-%m-%d %H:%M:%S%.f"


def read_trace(path: Path, *, block: int = 512, repair: bool = False) -> tuple[Workload, list[str]]:
    """Read a trace, and what had to be mended.

    Parameters
    ----------
    block : int
        Tokens of a prefix block, where the trace names blocks. [tokens]
    repair : bool
        Sort times that run backwards, drop rows whose numbers cannot be meant and the later ones of equal ids, instead
        of refusing the file.

    Errors: :class:`InputError` with the line of the first row that cannot be used.
    """
    table = _table(path)
    if table.is_empty():
        raise InputError("--trace", path, "holds no requests")
    first = 1 if path.suffix in (".jsonl", ".ndjson", ".parquet") else 2
    arrival = _arrivals(table, path, first)
    prompt, output = (_numbers(table, names, path, what) for names, what in ((PROMPT, "prompt"), (OUTPUT, "output")))
    keep = np.ones(len(table), dtype=bool)
    notes: list[str] = []
    for what, values, low, high in (
        ("arrival", arrival, -np.inf, np.inf), ("prompt", prompt, 1, LONGEST), ("output", output, 1, LONGEST),
    ):  # fmt: skip
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)) & keep)
        if len(wrong) and not repair:
            limits = "a time" if what == "arrival" else f"1 to {LONGEST:,} tokens"
            raise InputError(
                f"{path.name}, line {wrong[0] + first}: {what}", _shown(float(values[wrong[0]])), f"write {limits}"
            )
        if len(wrong):
            keep[wrong] = False
            notes.append(f"{len(wrong):,} rows dropped: {what} cannot be meant")
    keep, notes = _unique(table, path, first, keep, repair, notes)
    back = np.flatnonzero(np.diff(arrival[keep]) < 0)
    if len(back) and not repair:
        line = int(np.flatnonzero(keep)[back[0] + 1]) + first
        why = "times must not run backwards: sort the file, or give --repair"
        raise InputError(f"{path.name}, line {line}: arrival", _shown(float(arrival[keep][back[0] + 1])), why)
    order = np.flatnonzero(keep)
    if len(back):
        order = order[np.argsort(arrival[order], kind="stable")]
        notes.append(f"{len(back):,} times ran backwards: sorted")
    if not len(order):
        raise InputError("--trace", path, "no row can be used")
    start, blocks = _prefixes(table, order)
    times = arrival[order] - arrival[order[0]]
    service, models = _services(table, order)
    return (
        Workload(
            arrival=times,
            prompt=prompt[order].astype(np.int32),
            output=output[order].astype(np.int32),
            rank=_ranks(table, order),
            start=start,
            blocks=blocks,
            block=block,
            service=service,
            names=models,
        ),
        notes,
    )


def _table(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise InputError("--trace", path, "is no file")
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        if path.suffix in (".jsonl", ".ndjson"):
            return pl.read_ndjson(path, infer_schema_length=None)
        return pl.read_csv(path, infer_schema_length=10_000, null_values=["", "NaN", "nan"])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError("--trace", path, _where(path, error)) from error


def _where(path: Path, error: Exception) -> str:
    """The first line of JSON that cannot be read, or the reader's own words."""
    if path.suffix in (".jsonl", ".ndjson"):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    json.loads(line)
                except ValueError as wrong:
                    return f"line {number} is no JSON: {wrong}"
    return str(error).splitlines()[0]


def _column(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in table.columns), None)


def _need(table: pl.DataFrame, names: Sequence[str], path: Path, what: str) -> str:
    found = _column(table, names)
    if found is None:
        have = ", ".join(table.columns)
        raise InputError(f"{path.name}: {what}", have, f"name a column one of {', '.join(names)}")
    return found


def _arrivals(table: pl.DataFrame, path: Path, first: int) -> NDArray[np.float64]:
    name = _need(table, tuple(ARRIVAL), path, "arrival")
    column = table[name]
    if column.dtype == pl.String:
        read = column.str.to_datetime(_ISO, time_unit="ns", strict=False)
        if read.null_count() == len(read):
            raise InputError(
                f"{path.name}, line {first}: arrival", column[0], "write seconds, or 2023-11-16 18:17:03.98"
            )
        return _floats(read.dt.timestamp("ns").cast(pl.Float64) * 1e-9 - float(read.dt.timestamp("ns")[0]) * 1e-9)
    if column.dtype.is_temporal():
        return _floats(column.dt.timestamp("us").cast(pl.Float64) * 1e-6)
    return _floats(column.cast(pl.Float64, strict=False)) * ARRIVAL[name]


def _numbers(table: pl.DataFrame, names: Sequence[str], path: Path, what: str) -> NDArray[np.float64]:
    return _floats(table[_need(table, names, path, what)].cast(pl.Float64, strict=False))


def _floats(column: pl.Series) -> NDArray[np.float64]:
    return np.asarray(column.fill_null(float("nan")).to_numpy(), dtype=float)


def _unique(
    table: pl.DataFrame, path: Path, first: int, keep: NDArray[np.bool_], repair: bool, notes: list[str]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Refuse or drop the later ones of equal ids."""
    name = _column(table, _NAMES)
    if name is None:
        return keep, notes
    again = np.flatnonzero(~table[name].is_first_distinct().to_numpy() & keep)
    if len(again) and not repair:
        why = "is there already: give --repair to keep the first"
        raise InputError(f"{path.name}, line {again[0] + first}: {name}", table[name][int(again[0])], why)
    if len(again):
        keep = keep.copy()
        keep[again] = False
        notes = [*notes, f"{len(again):,} rows dropped: their {name} is there already"]
    return keep, notes


def _ranks(table: pl.DataFrame, order: NDArray[np.int64]) -> NDArray[np.int32]:
    name = _column(table, _RANK)
    if name is None:
        return np.zeros(len(order), np.int32)
    values = table[name].cast(pl.Int64, strict=False).fill_null(0).to_numpy()[order]
    # Classes are numbered from the most urgent, whatever numbers the trace gives them.
    return np.unique(values, return_inverse=True)[1].astype(np.int32)


def _services(table: pl.DataFrame, order: NDArray[np.int64]) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """What requests ask for, by the names that the trace gives."""
    name = _column(table, _MODELS)
    if name is None:
        return None, ()
    known, numbers = np.unique(table[name].cast(pl.String).fill_null("").to_numpy()[order], return_inverse=True)
    return numbers.astype(np.int32), tuple(str(one) for one in known)


def _prefixes(table: pl.DataFrame, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    name = _column(table, _BLOCKS)
    if name is None or not isinstance(table[name].dtype, pl.List):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lists = table[name].gather(order)
    counts = lists.list.len().fill_null(0).to_numpy()
    blocks = lists.list.explode().drop_nulls().cast(pl.Int64).to_numpy()
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), np.asarray(blocks, dtype=np.int64)


def _shown(value: float) -> object:
    return int(value) if np.isfinite(value) and float(value).is_integer() else float(value)
