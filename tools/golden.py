"""What every command prints with ``--json``, kept so that a change of form shows where it changes a number.

``python tools/golden.py`` writes ``tests/golden/expected.json`` from ``tests/golden/commands.txt``; what is
not named there has no such record. ``tests/test_golden.py`` holds the file against the code.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

# As the command line sets it, before NumPy is imported; and no record sees measurements that are kept on this machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["RACKMATH_DATA"] = "nobody"

from rackmath.cli.app import cli

FOLDER = Path(__file__).parents[1] / "tests/golden"
DIGITS = 9
"""Of a float; sums in another order differ in later ones."""
LONGEST = 8
"""Entries of a list that are kept; of a longer one its ends and its length."""
CLOCKS = ("seconds",)
"""Keys that say how long a command took here."""


def lines() -> list[str]:
    """Command lines in their order."""
    text = (FOLDER / "commands.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def printed(line: str) -> Any:
    """What a command prints as JSON, without clocks; a refusal as its text."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*shlex.split(line.replace("{out}", folder)), "--json"]
        result = CliRunner().invoke(cli, words)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            return {"refused": str(result.exception).replace(folder, "{out}")}
        return rounded(json.loads(result.stdout))


def rounded(value: Any) -> Any:
    """The same to :data:`DIGITS` digits, without clocks and the middle of long lists."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items() if key not in CLOCKS}
    if isinstance(value, list):
        half = LONGEST // 2
        kept = value if len(value) <= LONGEST else [*value[:half], f"{len(value)} entries", *value[-half:]]
        return [rounded(inner) for inner in kept]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Places where two outputs differ; floats by more than their last digit."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key not in before or key not in after:
                yield f"{path}.{key} {'is new' if key in after else 'is gone'}"
            else:
                yield from differences(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}[{i}]")
    elif isinstance(before, (int, float)) and isinstance(after, (int, float)):
        if abs(before - after) > 10 ** (1 - DIGITS) * 10 * max(abs(before), abs(after)):
            yield f"{path}: {before!r} is {after!r} now"
    elif before != after:
        yield f"{path}: {str(before)[:80]!r} is {str(after)[:80]!r} now"


def main() -> None:
    """Write all outputs."""
    text = json.dumps({line: printed(line) for line in lines()}, separators=(",", ":"))
    (FOLDER / "expected.json").write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
