"""The room that reads and writes tables: CSV rows in, CSV rows out, nothing half-written."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.request import urlopen

from rackmath.errors import InputError
from rackmath.io.paths import bounded_file

if TYPE_CHECKING:
    import polars as pl

_LARGEST_FILE = 512 * 2**20
_LARGEST_METRICS = 16 * 2**20
_PATIENCE = 10.0
"""Seconds that a server may take to answer."""


def read_csv(path: Path, field: str, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Read a CSV file with a header into rows of text.

    Parameters
    ----------
    path : Path
        The file.
    field : str
        Name of the option or argument that gave it, for errors.
    columns : sequence of str
        Columns that must be there.

    Errors: :class:`InputError` for a file that cannot be read, has no header, lacks a
    column, or has a row of another length, which it names by its line.
    """
    try:
        text = bounded_file(path, field, _LARGEST_FILE, "a table").read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(field, str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(field, str(path), "is no UTF-8 text: save it as UTF-8 CSV") from error
    if "\0" in text:
        raise InputError(field, str(path), "holds binary data: save it as UTF-8 CSV")
    reader = csv.DictReader(text.splitlines(), restkey="", restval=None)
    names = reader.fieldnames or []
    for name in columns:
        if name not in names:
            raise InputError(field, str(path), f"lacks the column {name}; needed are {', '.join(columns)}")
    rows: list[dict[str, str]] = []
    try:
        for row in reader:
            if "" in row or None in row.values():
                raise InputError(f"{field} line {reader.line_num}", str(path), f"has other than {len(names)} cells")
            rows.append({str(k): str(v) for k, v in row.items()})
    except csv.Error as error:
        raise InputError(field, str(path), f"is no CSV: {error}") from error
    return rows


def read_json(path: Path, field: str, largest: int = _LARGEST_FILE) -> Mapping[str, Any]:
    """Read one JSON object of at most ``largest`` bytes.

    Errors: :class:`InputError` for anything else.
    """
    try:
        data: Any = json.loads(bounded_file(path, field, largest, "such a file").read_text(encoding="utf-8"))
    except InputError:
        raise
    except OSError as error:
        raise InputError(field, str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(field, str(path), f"is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError(field, str(path), "must hold one JSON object")
    return cast(dict[str, Any], data)


def write_text(path: Path, text: str, field: str) -> None:
    """Write a text file: to a temporary file beside ``path``, which then takes its name.

    Errors: :class:`InputError` where the folder cannot be written.
    """
    with _replacing(path, field) as out:
        out.write(text)


def read_metrics(place: str, field: str) -> str:
    """Read text of at most 16 MiB from a file, or from an address that begins with http.

    Errors: :class:`InputError` for what cannot be read or is larger.
    """
    try:
        if place.startswith(("http://", "https://")):
            with urlopen(place, timeout=_PATIENCE) as answer:
                data: bytes = answer.read(_LARGEST_METRICS + 1)
        else:
            with bounded_file(Path(place), field, _LARGEST_METRICS, "a file of metrics").open("rb") as file:
                data = file.read(_LARGEST_METRICS + 1)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(field, place, f"cannot be read: {error}") from error
    if len(data) > _LARGEST_METRICS:
        raise InputError(field, place, f"metrics are smaller than {_LARGEST_METRICS >> 20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(field, place, "is no UTF-8 text") from error


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]], field: str) -> None:
    """Write rows as CSV: to a temporary file beside ``path``, which then takes its name.

    Errors: :class:`InputError` where the folder cannot be written.
    """
    with _replacing(path, field) as out:
        writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_table(path: Path, table: pl.DataFrame | pl.LazyFrame, field: str) -> None:
    """Write a table as CSV or Parquet, by the end of its name: whole or not at all; a lazy one piece by piece.

    Errors: :class:`InputError` where the folder cannot be written.
    """
    half = path.with_name(f".{path.name}.half")
    try:
        if path.suffix == ".csv":
            table.lazy().sink_csv(half)
        else:
            table.lazy().sink_parquet(half)
        half.replace(path)
    except OSError as error:
        raise InputError(field, str(path), f"cannot be written: {error.strerror}") from error
    finally:
        half.unlink(missing_ok=True)


@contextmanager
def _replacing(path: Path, field: str) -> Generator[IO[str]]:
    """Open a temporary file that becomes ``path`` when all went well, and goes away when not."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as out:
            temporary = Path(out.name)
            try:
                yield out
                out.flush()
                os.fsync(out.fileno())
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        # Temporary files are made for their owner only.
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise InputError(field, str(path), f"cannot be written: {error.strerror}") from error
