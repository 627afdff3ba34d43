"""First sentences of studies: they stand first, and their numbers are those of the answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from rackmath.cli.app import cli

LINES = {
    "prices decode gpt-5": ("{0[active_params][median]}", 1e-9),
    "prices agent gpt-5 --own llama-3.1-8b --on h100-sxm --layout tp1 --batch 4": ("{own[usd_per_session]}", 1.0),
    "lecture fleet llama-3.1-8b --on h100-sxm --gpus 1 --tokens-per-second 1e6 --input 500 --output 100": (
        "{gpus[value]}", 1.0,
    ),
    "prices cost llama-3.1-8b --on h100-sxm --gpus 2": ("{page[output]}", 1.0),
    "lecture modes llama-3.1-8b --on h100-sxm --gpus 2 --input 500 --output 100": (
        "{standard[tokens_per_second_per_user]}", 1.0,
    ),
    "prices trend": ("{scores[0][per_year]}", 0.0),
    "lecture sparsity --on h100-sxm --dense 70B": ("{best_experts[0]}", 1.0),
    "train budget --params 7B --tokens 15T": ("{loss}", 1.0),
    "train budget --law hoffmann --loss 2.1": ("{loss}", 1.0),
    "lecture cache llama-3.1-8b --on h100-sxm": ("{products[1 hour][recompute_usd_per_million]}", 1.0),
    "lecture context llama-3.1-8b --on h100-sxm --gpus 1": ("{0[cost][0]}", 1.0),
    "train rl llama-3.1-8b --on h100-sxm --gpus 64": ("{days}", 1.0),
    "lecture experts deepseek-v3 --on h200-sxm --ranks 32 --expert-skew 0.5": ("{heaviest_load}", 1.0),
    "compare llama-3.1-8b --on h100-sxm --gpus 1 --input 500 --output 100": ("{1[usd_per_million_at_speed]}", 1.0),
}  # fmt: skip


def printed(line: str) -> str:
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
    return result.stdout


def named(facts: Any, path: str) -> float:
    return float(path.format(*facts) if isinstance(facts, list) else path.format(**facts))


@pytest.mark.parametrize("line", LINES)
def test_sentences_stand_first_with_the_numbers_of_the_answer(line: str) -> None:
    first, *rest = printed(line).splitlines()[:5]
    assert not first.startswith(" ")
    assert rest[0].startswith("  ")
    block = " ".join(rest)
    path, unit = LINES[line]
    value = named(json.loads(printed(f"{line} --json")), path) * unit
    numbers = [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*\.?\d*", block)]
    assert not unit or any(number == pytest.approx(value, rel=6e-3) for number in numbers), (value, block)
