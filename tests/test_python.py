"""Python answers what the command answers, and imports nothing heavy until asked."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import rackmath
from rackmath.cli.app import cli
from rackmath.errors import InputError


@pytest.mark.parametrize("ideal", [False, True])
@pytest.mark.parametrize(
    ("phase", "more"),
    [("decode", {}), ("prefill", {}), ("decode", {"draft_tokens": 2}), ("decode", {"engine": "sglang"})],
)
def test_estimate_is_the_command_s(phase: str, more: dict[str, object], *, ideal: bool) -> None:
    asked = [
        "estimate",
        "deepseek-v3",
        "--on",
        "h200-sxm",
        "--gpus",
        "8",
        "--batch",
        "8",
        "--context",
        "4000",
        "--phase",
        phase,
    ]
    asked += [f"--{key.replace('_', '-')}={value}" for key, value in more.items()] + (["--ideal"] if ideal else [])
    said = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)
    answer = rackmath.estimate(
        "deepseek-v3", "h200-sxm", gpus=8, batch=8, context=4000, phase=phase, ideal=ideal, **more
    )  # type: ignore[arg-type]
    assert float(answer.step.time) == said["time"]
    assert float(answer.step.time_low) == said["time_low"]
    assert answer.layout.text() == said["layout"]
    assert answer.tokens_per_second_per_user == said["tokens_per_second_per_user"]
    assert answer.assumptions == said["assumptions"]


def test_the_bound_is_asked_for_by_name() -> None:
    same = {"batch": 8, "context": 4000, "gpus": 1}
    answer = rackmath.estimate("llama-3.1-8b", "h100-sxm", **same)
    bound = rackmath.estimate("llama-3.1-8b", "h100-sxm", **same, ideal=True)
    assert float(answer.step.time) > float(bound.step.time) == float(answer.step.time_ideal)
    with pytest.raises(InputError, match="--phase"):
        rackmath.estimate("llama-3.1-8b", "h100-sxm", **same, phase="train")


def test_the_reference_is_the_same_in_every_process() -> None:
    """A default that prints its place in memory would put the documents out of date at every run."""
    for name in rackmath.__all__:
        value = getattr(rackmath, name)
        if inspect.isfunction(value):
            assert " at 0x" not in str(inspect.signature(value)), name


def test_names_are_those_that_are_exported() -> None:
    for name in rackmath.__all__:
        assert getattr(rackmath, name) is not None
    assert (
        sorted(rackmath._MODULES)
        == sorted(set(rackmath.__all__) - {"__version__"})
        == sorted(set(dir(rackmath)) - {"__version__"})
    )
    with pytest.raises(AttributeError, match="no attribute"):
        _ = rackmath.nothing  # type: ignore[attr-defined]


def test_every_public_name_is_documented_and_no_other() -> None:
    page = (Path(__file__).parents[1] / "docs/generated/python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(rackmath.__all__) - {"__version__"}
    for name in set(rackmath.__all__) - {"__version__"}:
        assert (getattr(rackmath, name).__doc__ or "").strip(), name


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, rackmath; print(sorted({'numpy', 'pydantic', 'polars', 'sympy', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
