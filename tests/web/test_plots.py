"""Figures for notebooks are those of the commands; the example notebook runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import CliRunner
from nbclient import NotebookClient

from rackmath import plots
from rackmath.cli.app import cli
from rackmath.errors import InputError

NOTEBOOK = Path(__file__).parent.parent.parent / "docs/notebooks/rackmath.ipynb"
SYSTEM = {"on": "h200-sxm", "gpus": 8}

CASES: list[tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = [
    (plots.estimate, ("llama-3.1-70b",), {**SYSTEM, "batch": 8, "context": 4096}),
    (plots.estimate, ("llama-3.1-70b",), {**SYSTEM, "batch": 8, "context": 4096, "picture": "roofline"}),
    (plots.plan, ("llama-3.1-70b",), {**SYSTEM, "input": 1000, "output": 100, "one_pool": True}),
    (plots.context, ("llama-3.1-70b",), SYSTEM),
    (plots.racks, (), {}),
    (plots.cache, ("llama-3.1-70b",), {"on": "h200-sxm"}),
    (plots.agent, ("claude-opus-5-5",), {"turns": 10}),
    (plots.price_page, ("anthropic",), {}),
    (plots.decoded, (), {"input": 0.6, "output": 2.5}),
    (plots.token_costs, ("llama-3.1-70b",), SYSTEM),
    (plots.budget, (), {"law": "besiroglu", "loss": 2.0, "inference_tokens": "10T"}),
    (plots.depth, ("llama-3.1-70b",), {}),
    (plots.simulate, ("llama-3.1-8b",), {**SYSTEM, "poisson": 5, "input": 500, "output": 50, "requests": 100}),
]


@pytest.mark.parametrize(("draw", "arguments", "options"), CASES)
def test_every_function_draws(draw: Callable[..., Any], arguments: tuple[str, ...], options: dict[str, Any]) -> None:
    figure = draw(*arguments, **options)
    assert len(figure.data) >= 1
    assert figure.layout.title.text
    json.loads(figure.to_json())


def test_facts_are_the_command_s() -> None:
    typed = json.loads(CliRunner().invoke(cli, ["model", "deepseek-v3", "--json"]).stdout)
    assert plots.facts("model", "deepseek-v3") == typed
    assert plots.facts("train budget", law="besiroglu", loss=2.0)["law"] == "besiroglu"
    with pytest.raises(InputError, match="lama"):
        plots.facts("model", "lama")


def test_the_example_notebook_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) == 6
    assert sum("application/vnd.plotly.v1+json" in one.outputs[0]["data"] for one in shown) == 5
