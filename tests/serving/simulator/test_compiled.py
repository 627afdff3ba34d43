"""Machine code is kept where it can be, and no folder to write to is no reason to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rackmath.serving.simulator import compiled


def test_without_a_folder_to_write_to_functions_are_compiled_for_this_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: object, function: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.caching.FunctionCache.__init__", nowhere)
    assert compiled.compiled(_twice)(21) == 42
    assert compiled.inlined(_twice)(4) == 8


def _twice(number: int) -> int:
    return number * 2


def test_machine_code_is_kept_in_the_folder_that_is_named(tmp_path: Path) -> None:
    script = tmp_path / "kept.py"
    script.write_text(
        "from rackmath.serving.simulator.compiled import compiled\n"
        "def once(number):\n    return number + 1\n"
        "assert compiled(once)(1) == 2\n",
        encoding="utf-8",
    )
    folder = tmp_path / "cache"
    subprocess.run([sys.executable, script], check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(folder)})
    assert list(folder.rglob("*.nbi"))
