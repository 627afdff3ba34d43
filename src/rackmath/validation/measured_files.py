"""A file of measurements -> rows: CSV in the columns of a row, or the JSON that a serving benchmark writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rackmath.io import tables
from rackmath.validation import bench_json, guidellm_json
from rackmath.validation.rows import NEEDED


def columns_of(texts: Sequence[str]) -> dict[str, str]:
    """Columns that a file leaves out, from ``COLUMN=VALUE``."""
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def rows_of(path: Path, columns: Sequence[str], field: str) -> list[dict[str, str]]:
    """Rows of one file; ``columns`` say, as ``COLUMN=VALUE``, what the JSON of a benchmark leaves out.

    Errors: :class:`~rackmath.errors.InputError` for a file that is neither, and for unknown columns.
    """
    if path.suffix == ".json":
        data = tables.read_json(path, field)
        reader = guidellm_json.rows_of if guidellm_json.is_report(data) else bench_json.rows_of
        return reader(data, columns_of(columns))
    return tables.read_csv(path, field, NEEDED)
