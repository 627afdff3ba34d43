"""Request traces -> workloads: Azure's, Mooncake's and BurstGPT's files, tables that name their columns alike.

What load generators write of their requests is read as such a table (:mod:`rackmath.io.generator_files`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.io.generator_files import of_aiperf, read_sent
from rackmath.io.paths import is_file
from rackmath.serving.simulator.workload import LATEST, LONGEST, Arrivals

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


_ROWS = 500_000
"""Of a file that are read at a time: what stays of them is narrow."""


class _Columns(NamedTuple):
    """What a file calls what; None for what it does not have."""

    arrival: str
    prompt: str
    output: str
    rank: str | None
    blocks: str | None
    identity: str | None
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Piece:
    """The rows of a piece of a file that can be meant."""

    usable: NDArray[np.bool_]
    """Which those are. (rows read,)"""
    arrival: NDArray[np.float64]
    """Since some origin. [s]"""
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    named: pl.DataFrame
    """Ranks, blocks, ids and models, by these names, where the file has them."""


def read_table(path: Path, *, block: int = 512, repair: bool = False) -> tuple[Arrivals, list[str]]:
    """Read requests that come by themselves, and what had to be mended.

    The file is read in pieces, of which only arrays of a workload stay.

    Parameters
    ----------
    block : int
        Tokens of a prefix block, where the trace names blocks. [tokens]
    repair : bool
        Sort times that run backwards, drop rows whose numbers cannot be meant and the later ones of equal ids, instead
        of refusing the file.

    Errors: :class:`InputError` with the line of the first row that cannot be used.
    """
    if not is_file(path):
        raise InputError("--trace", str(path), "is no file")
    first = 1 if path.suffix in (".jsonl", ".ndjson", ".parquet") else 2
    drops: dict[str, int] = {}
    try:
        scan, failures = _scan(path)
        pieces = _pieces(scan, path, first, drops if repair else None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError("--trace", path, _where(path, error)) from error
    if not pieces:
        raise InputError("--trace", path, "holds no requests")
    notes = [f"{count:,} rows dropped: {quantity} cannot be meant" for quantity, count in drops.items()]
    notes += [f"{failures:,} requests without an answer are left out"] * bool(failures)
    usable = np.concatenate([piece.usable for piece in pieces])
    arrival = np.concatenate([piece.arrival for piece in pieces])
    name_columns = pl.concat([piece.named for piece in pieces])
    order = np.arange(len(arrival))

    def line(at: int) -> str:
        return f"{path.name}, line {np.flatnonzero(usable)[at] + first}"

    if "id" in name_columns.columns:
        is_new = name_columns["id"].is_first_distinct().to_numpy()
        again = np.flatnonzero(~is_new)
        if len(again) and not repair:
            why = "is there already: give --repair to keep the first"
            raise InputError(f"{line(again[0])}: id", name_columns["id"][int(again[0])], why)
        if len(again):
            order = np.flatnonzero(is_new)
            notes.append(f"{len(again):,} rows dropped: their id is there already")
    back = np.flatnonzero(np.diff(arrival[order]) < 0)
    if len(back) and not repair:
        why = "times must not run backwards: sort the file, or give --repair"
        raise InputError(f"{line(back[0] + 1)}: arrival", _shown(float(arrival[back[0] + 1])), why)
    if len(back):
        order = order[np.argsort(arrival[order], kind="stable")]
        notes.append(f"{len(back):,} times ran backwards: sorted")
    if not len(order):
        raise InputError("--trace", path, "no row can be used")
    span = float(arrival[order[-1]] - arrival[order[0]])
    if not span <= LATEST:
        why = f"lasts {span:.3g} s from its first request to its last: cut it to {LATEST:g} s, thirty years"
        raise InputError("--trace", path.name, why)
    start, blocks = _prefixes(name_columns, order)
    service, models = _services(name_columns, order)
    return (
        Arrivals(
            arrival=arrival[order] - arrival[order[0]],
            prompt=np.concatenate([piece.prompt for piece in pieces])[order],
            output=np.concatenate([piece.output for piece in pieces])[order],
            rank=_ranks(name_columns, order),
            start=start,
            blocks=blocks,
            block=block,
            service=service,
            names=models,
        ),
        notes,
    )


def _scan(path: Path) -> tuple[pl.LazyFrame, int]:
    """The rows of a file, and how many requests of a load generator's result are left out of them."""
    if path.suffix == ".json":
        table, failures = read_sent(path)
        return table.lazy(), failures
    if path.suffix == ".parquet":
        return pl.scan_parquet(path), 0
    if path.suffix in (".jsonl", ".ndjson"):
        scan = pl.scan_ndjson(path, infer_schema_length=None)
        if {"metadata", "metrics"} <= set(scan.collect_schema()):
            table, failures = of_aiperf(scan.collect())
            return table.lazy(), failures
        return scan, 0
    return pl.scan_csv(path, infer_schema_length=10_000, null_values=["", "NaN", "nan"]), 0


def _pieces(scan: pl.LazyFrame, path: Path, first: int, drops: dict[str, int] | None) -> list[_Piece]:
    """Read rows piece by piece; those that cannot be meant are counted in ``drops``, or refused for None."""
    schema = scan.collect_schema()
    has = _Columns(
        arrival=_need(schema, tuple(ARRIVAL), path, "arrival"),
        prompt=_need(schema, PROMPT, path, "prompt"),
        output=_need(schema, OUTPUT, path, "output"),
        rank=_column(schema, _RANK),
        blocks=next((name for name in _BLOCKS if isinstance(schema.get(name), pl.List)), None),
        identity=_column(schema, _NAMES),
        model=_column(schema, _MODELS),
    )
    pieces: list[_Piece] = []
    line, origin = first, 0
    for rows in scan.select(name for name in has if name is not None).collect_batches(chunk_size=_ROWS):
        when = _nanoseconds(rows[has.arrival])
        if not pieces and when is not None:
            times = when.drop_nulls()
            if not len(times):
                why = "write seconds, or 2023-11-16 18:17:03.98"
                raise InputError(f"{path.name}, line {first}: arrival", rows[has.arrival][0], why)
            origin = int(times[0])
        numbers = {
            "arrival": _floats(rows[has.arrival]) * ARRIVAL[has.arrival] if when is None
            else _floats(when - origin) * 1e-9,
            "prompt": _floats(rows[has.prompt]),
            "output": _floats(rows[has.output]),
        }  # fmt: skip
        pieces.append(_piece(rows, has, numbers, f"{path.name}, line", line, drops))
        line += len(rows)
    return pieces


def _piece(
    rows: pl.DataFrame,
    has: _Columns,
    numbers: Mapping[str, NDArray[np.float64]],
    place: str,
    line: int,
    drops: dict[str, int] | None,
) -> _Piece:
    """What can be meant of rows that begin at a line."""
    usable = np.ones(len(rows), dtype=bool)
    for quantity, values in numbers.items():
        low, high = (-np.inf, np.inf) if quantity == "arrival" else (1, LONGEST)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)) & usable)
        if len(wrong) and drops is None:
            limits = "a time" if quantity == "arrival" else f"1 to {LONGEST:,} tokens"
            raise InputError(
                f"{place} {wrong[0] + line}: {quantity}", _shown(float(values[wrong[0]])), f"write {limits}"
            )
        if len(wrong) and drops is not None:
            usable[wrong] = False
            drops[quantity] = drops.get(quantity, 0) + len(wrong)
    texts = {"rank": has.rank, "blocks": has.blocks, "id": has.identity, "model": has.model}
    name_columns = rows.select(pl.col(name).alias(quantity) for quantity, name in texts.items() if name is not None)
    if has.rank is not None:
        name_columns = name_columns.with_columns(pl.col("rank").cast(pl.Int64, strict=False).fill_null(0))
    if has.model is not None:
        name_columns = name_columns.with_columns(pl.col("model").cast(pl.String).fill_null("").cast(pl.Categorical))
    return _Piece(
        usable=usable,
        arrival=numbers["arrival"][usable],
        prompt=numbers["prompt"][usable].astype(np.int32),
        output=numbers["output"][usable].astype(np.int32),
        named=name_columns.filter(usable) if name_columns.width else name_columns,
    )


def _where(path: Path, error: Exception) -> str:
    """The first line of JSON that cannot be read, or the reader's own words."""
    if path.suffix in (".jsonl", ".ndjson"):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    json.loads(line)
                except (ValueError, RecursionError) as wrong:
                    return f"line {number} is no JSON: {wrong}"
    return str(error).splitlines()[0]


def _column(schema: pl.Schema, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in schema), None)


def _need(schema: pl.Schema, names: Sequence[str], path: Path, noun: str) -> str:
    column = _column(schema, names)
    if column is None:
        have = ", ".join(schema)
        raise InputError(f"{path.name}: {noun}", have, f"name a column one of {', '.join(names)}")
    return column


def _nanoseconds(column: pl.Series) -> pl.Series | None:
    """Of dates; None for a column of numbers."""
    if column.dtype == pl.String:
        column = column.str.to_datetime(_ISO, time_unit="ns", strict=False)
    return column.dt.timestamp("ns") if column.dtype.is_temporal() else None


def _floats(column: pl.Series) -> NDArray[np.float64]:
    return np.asarray(column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy(), dtype=float)


def _ranks(name_columns: pl.DataFrame, order: NDArray[np.int64]) -> NDArray[np.int32]:
    if "rank" not in name_columns.columns:
        return np.zeros(len(order), np.int32)
    # Classes are numbered from the most urgent, whatever numbers the trace gives them.
    return np.unique(name_columns["rank"].to_numpy()[order], return_inverse=True)[1].astype(np.int32)


def _services(name_columns: pl.DataFrame, order: NDArray[np.int64]) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """What requests ask for, by the names that the trace gives."""
    if "model" not in name_columns.columns:
        return None, ()
    names = name_columns["model"].gather(order)
    distinct_names = names.unique().cast(pl.String).sort()
    return names.cast(pl.Enum(distinct_names)).to_physical().to_numpy().astype(np.int32), tuple(distinct_names)


def _prefixes(name_columns: pl.DataFrame, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if "blocks" not in name_columns.columns:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lists = name_columns["blocks"].gather(order)
    counts = lists.list.len().fill_null(0).to_numpy()
    blocks = lists.list.explode().drop_nulls()
    # Names of blocks are only compared: texts, and numbers beyond 64 bit, are numbered as they come.
    if not blocks.dtype.is_signed_integer():
        blocks = blocks.cast(pl.String).cast(pl.Categorical).to_physical()
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), blocks.cast(pl.Int64).to_numpy()


def _shown(value: float) -> object:
    return int(value) if np.isfinite(value) and float(value).is_integer() else float(value)
