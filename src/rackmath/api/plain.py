"""Results -> plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, cast

import numpy as np


def to_plain(value: Any) -> Any:
    """Records, arrays and tuples -> what JSON holds; numbers that JSON lacks become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value)
        return {str(k): to_plain(v) for k, v in entries.items()}
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, (list, tuple, set)):
        return [to_plain(v) for v in cast("Iterable[Any]", value)]
    if isinstance(value, float):
        return (int(value) if value.is_integer() and abs(value) < 2**53 else value) if isfinite(value) else None
    return value
