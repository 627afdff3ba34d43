"""Training of adapters: what backward passes skip, memory against closed forms and published runs."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from rackmath.api.train import run_training
from rackmath.api.train_request import TrainRequest
from rackmath.cli.app import cli
from rackmath.engine import Layout
from rackmath.engine.timer import engine_timer
from rackmath.errors import InputError
from rackmath.io import catalogue
from rackmath.models.counts import total_params
from rackmath.models.formats import BF16, weight_format
from rackmath.training import TrainingRun, step_time
from rackmath.training.frozen import frozen, with_one_adapter
from rackmath.training.memory import training_memory
from rackmath.training.options import Recipe, options_of
from rackmath.training.run import model_flops
from tests.conftest import SHARED, tool

LLAMA = catalogue.model("llama-3.1-8b")
H100 = catalogue.system("h100-sxm")
TUNED = with_one_adapter(LLAMA, 16, ("all-linear",))
PARAMS = 41_943_040


def test_what_is_frozen() -> None:
    """Of 8 B parameters 0.52 % are trained; at short lengths nearly all FLOPs are products with frozen weights."""
    left = frozen(TUNED, 64.0, BF16)
    assert left.trained_part == PARAMS / total_params(LLAMA)
    matrices = total_params(LLAMA) - 128_256 * 4096 - 65 * 4096
    attention = 32 * 4 * 4096 * 32.5
    assert left.part == pytest.approx(2 * matrices / (2 * matrices + attention + 2 * PARAMS), rel=1e-4)
    whole = frozen(LLAMA, 64.0, BF16)
    assert (whole.part, whole.trained_part, whole.expansion) == (0.0, 1.0, 0.0)
    # Two products of frozen matrices, three of everything else.
    assert model_flops(TUNED, 64.0) / model_flops(LLAMA, 64.0) == pytest.approx((3 - left.part) / 3)


def test_narrow_weights_are_frozen_ones() -> None:
    assert frozen(TUNED, 64.0, weight_format("nf4")).expansion > 2
    with pytest.raises(InputError, match="--lora-rank"):
        frozen(LLAMA, 64.0, weight_format("nf4"))


def test_time_without_gradients_of_weights() -> None:
    """Forward, gradients of inputs, nothing else: on one accelerator at the ideal bound, to the last digit."""
    timer = engine_timer(LLAMA, H100, None)
    forward = timer("train", Layout(), 1.0, 2048.0, 0.0)
    for part, trained in ((0.0, 1.0), (1.0, 0.0), (0.9, 0.005)):
        run = TrainingRun(layout=Layout(), sequences=4.0, length=2048.0, frozen_part=part, trained_part=trained)
        update = trained * 10 * 16.06e9 / H100.chip.memory_bandwidth
        assert step_time(LLAMA, H100, run, timer) == pytest.approx(4 * (3 - part) * forward + update, rel=1e-3)


def test_sharded_weights_still_travel() -> None:
    """Frozen weights are gathered twice per micro-batch, and their gradients never summed."""
    timer = engine_timer(LLAMA, H100, None)
    layout = Layout(data=8)

    def exchange(trained: float, sharded: float) -> float:
        run = TrainingRun(layout=layout, sequences=8.0, length=2048.0, trained_part=trained, sharded=sharded)
        hidden = step_time(LLAMA, H100, run, timer, 0.0)
        return float(step_time(LLAMA, H100, run, timer, 1.0) - hidden)

    assert exchange(0.0, 1.0) == pytest.approx(2 / 3 * exchange(1.0, 1.0), rel=1e-6)
    assert exchange(0.0, 0.0) == 0


def one(architecture: object, stored: str, *, shared: str = "none", gpus: int = 1) -> dict[str, float]:
    recipe = Recipe(sequences=8.0, length=512.0, recompute=("full",), sharded=(shared,), stored=weight_format(stored))
    options = options_of(architecture, [(Layout(data=gpus), 1)], recipe)  # type: ignore[arg-type]
    held = training_memory(architecture, H100, options, recipe)  # type: ignore[arg-type]
    return {name: float(np.ravel(getattr(held, name))[0]) for name in ("weights", "gradients", "optimizer", "total")}


def test_memory_by_parts() -> None:
    """16-bit weights once; gradients and states of the adapter alone; NF4 at 4.127 bits, norms and embedding at 16."""
    lora, full, narrow = one(TUNED, "bf16"), one(LLAMA, "bf16"), one(TUNED, "nf4")
    assert lora["weights"] == 2 * (total_params(LLAMA) + PARAMS)
    assert lora["gradients"] == 4 * PARAMS
    assert lora["optimizer"] == 12 * PARAMS
    assert full["optimizer"] == 12 * total_params(LLAMA)
    linear = 32 * (4096 * (4096 + 1024) * 2 + 3 * 4096 * 14_336)
    rest = total_params(LLAMA) - linear
    assert narrow["weights"] == pytest.approx(linear * 4.127 / 8 + 2 * (rest + PARAMS), rel=1e-4)


def test_sharing_divides_what_is_frozen() -> None:
    all_of_it = one(TUNED, "bf16", shared="all", gpus=8)
    assert all_of_it["weights"] == pytest.approx(2 * total_params(LLAMA) * (1 / 8 + 2 / 32) + 2 * PARAMS, rel=0.01)
    assert all_of_it["optimizer"] == 12 * PARAMS / 8


def test_qlora_fits_where_its_paper_says() -> None:
    """65 B parameters on one accelerator of 48 GB, and more than 780 GB in full. Source: arXiv:2305.14314.

    At its rank of 64 the optimizer's states are paged to the host, which is not modelled; at 16 all lies on the device.
    """
    big = catalogue.model("llama-2-70b")
    assert one(with_one_adapter(big, 16, ("all-linear",)), "nf4")["total"] < 48 * 2**30
    assert one(big, "bf16")["total"] > 780e9


def test_published_runs() -> None:
    """Memory and time of 24 runs of Qwen's README, and MLPerf's, by the tool that writes the page."""
    finetuning = tool("finetuning")
    with finetuning.RUNS.open(encoding="utf-8") as file:
        runs = [run for run in finetuning.single(list(csv.DictReader(file))) if "Qwen" in run.group]
    assert len(runs) == 24
    assert all(0.75 < run.memory < 1.05 for run in runs)
    assert np.median([abs(np.log(run.seconds)) for run in runs]) < np.log(1.25)
    path = SHARED / "measured/rows.csv"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with path.open(encoding="utf-8") as file:
        timed = list(finetuning.mlperf([row for row in csv.DictReader(file) if row["task"] == "lora"]))
    assert len(timed) >= 50
    # Evaluations are not counted.
    assert 0.7 < np.median([run.seconds for run in timed]) < 1.0


def test_command() -> None:
    words = "train llama-3.1-8b --on rtx-4090 --gpus 1 --tokens 1M --batch-tokens 16k --length 2k --lora-rank 16 --json"
    facts = json.loads(CliRunner().invoke(cli, words.split()).output)
    assert facts["fits"]
    assert facts["trained_params"] == PARAMS
    assert any("0.52%" in line for line in facts["assumptions"])
    with pytest.raises(InputError, match="--lora-rank"):
        run_training(TrainRequest(model="llama-3.1-8b", on="h100-sxm", gpus=1, tokens=1e9, base_weights="nf4"))
