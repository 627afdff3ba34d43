"""What rows say -> what is asked; what they do not say is refused with the reason."""

from __future__ import annotations

import pytest

from rackmath import catalogue
from rackmath.errors import InputError, NotUnderstood, RackmathError
from rackmath.validation.deployments import deployment
from rackmath.validation.precisions import model_at
from rackmath.validation.questions import TIMES, question
from rackmath.validation.rows import read_row
from tests.validation.rows import cells

MOE = catalogue.model("deepseek-v3")


def asked(**changes: str):
    return question(read_row(cells(**changes), 2))


@pytest.mark.parametrize(
    ("text", "gpus", "layout", "workers"),
    [
        ("agg;tp=4;pp=1;attention_dp=1;moe_tp=1;moe_ep=4", 4, "tp4,ep4,pp1,dp1", 1),
        ("agg;tp=1;pp=1;attention_dp=8;moe_tp=1;moe_ep=8", 8, "tp1,ep8,pp1,dp8", 1),
        ("agg;tp=1;pp=1;attention_dp=4;moe_tp=4;moe_ep=1", 4, "tp1,ep4,pp1,dp4", 1),
        ("agg;tp=8;ep=8;dp_attention=1", 8, "tp1,ep8,pp1,dp8", 1),
        ("agg;tp=8;ep=1;dp_attention=0", 8, "tp8,ep1,pp1,dp1", 1),
        ("attention_dp=4;ep=4", 4, "tp1,ep4,pp1,dp4", 1),
        ("ep=128;attention_dp=128;two-batch overlap", 128, "tp1,ep128,pp1,dp128", 1),
        # Only attention is data-parallel; its ranks share one set of experts. Two cores make a chip.
        ("tp=1;attention_dp=8 over 8 TensorCores (4 chips)", 4, "tp1,ep4,pp1,dp4", 1),
        ("tp=8;attention_dp=1 over 8 TensorCores (4 chips)", 4, "tp4,ep1,pp1,dp1", 1),
        ("tp=8;pp=2", 16, "tp8,ep1,pp2,dp1", 1),
        ("tp=2", 8, "tp2,ep1,pp1,dp1", 4),
        ("layer split over 4 GPUs", 4, "tp1,ep1,pp4,dp1", 1),
        ("", 1, "tp1,ep1,pp1,dp1", 1),
    ],
)
def test_every_spelling_of_parallelism(text: str, gpus: int, layout: str, workers: int) -> None:
    found = deployment(text, gpus, MOE)
    assert found is not None
    assert (found.layout.text(), found.workers) == (layout, workers)


def test_pools_have_layouts_and_workers_of_their_own() -> None:
    text = (
        "disagg;prefill[workers=4;tp=1;ep=1;dp_attention=1;gpus=16];decode[workers=1;tp=8;ep=8;dp_attention=1;gpus=8]"
    )
    found = deployment(text, 24, MOE)
    assert found is not None
    assert found.prefill is not None
    assert (found.prefill.text(), found.prefill_workers) == ("tp1,ep4,pp1,dp4", 4)
    assert (found.layout.text(), found.workers) == ("tp1,ep8,pp1,dp8", 1)


def test_tensor_widths_that_heads_do_not_divide_into_mean_data_parallel_attention() -> None:
    text = "disagg;prefill[workers=?;tp=48;ep=1;dp_attention=0;gpus=48];decode[workers=?;tp=48;ep=1;dp_attention=0;gpus=48]"
    found = deployment(text, 96, MOE)
    assert found is not None
    assert found.layout.text() == "tp1,ep48,pp1,dp48"


def test_two_batch_overlap_is_read_and_its_absence_too() -> None:
    yes = deployment("ep=8;attention_dp=8;two-batch overlap", 8, MOE)
    no = deployment("ep=8;attention_dp=8;no two-batch overlap", 8, MOE)
    assert yes is not None
    assert no is not None
    assert (yes.two_batch, no.two_batch) == (True, False)


def test_widths_that_contradict_the_accelerators_are_refused() -> None:
    with pytest.raises(NotUnderstood, match="n_gpus = 8"):
        deployment("tp=16", 8, MOE)


def test_units_and_shares_are_the_rows_own() -> None:
    assert asked().scale == 1e3
    assert asked(unit="s").scale == 1
    total = dict(metric="total_throughput (input+output)", unit="tok/s", n_gpus="8", parallelism="tp=8")
    assert asked(**total, per="system").scale == 1
    assert asked(**total, per="gpu").scale == pytest.approx(1 / 8)
    assert asked(**total, per="node").scale == pytest.approx(1.0)


def test_lengths_drawn_from_a_range_have_its_mean() -> None:
    one = asked(notes="lens=uniform 0.8-1.0 x nominal (mean 0.9x)")
    assert (one.input, one.output) == (900, 450)


@pytest.mark.parametrize(
    ("metric", "kind", "quantity"),
    [
        ("tpot_mean", "closed", "tpot"),
        ("itl_mean", "closed", "tpot"),
        ("ttft_mean", "closed", "ttft"),
        ("ttft_median", "closed", "ttft_median"),
        ("ttft_p50", "closed", "ttft_median"),
        ("output_throughput max-load", "full", "output"),
        ("decode_speed", "decode", "tokens"),
        ("prefill_speed", "prefill", "tokens"),
        ("total_throughput (input+output) offline batch", "closed", "total"),
        ("output_throughput static batch", "static", "output"),
    ],
)
def test_metrics_ask_for_what_they_name(metric: str, kind: str, quantity: str) -> None:
    unit = "ms" if quantity in TIMES else "tok/s"
    one = asked(metric=metric, unit=unit, per="system")
    assert (one.kind, one.quantity) == (kind, quantity)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metric": "happiness"}, "metric"),
        ({"metric": "ttft_p99"}, "slowest"),
        ({"output_len": "0"}, "output_len"),
        ({"model": "Nobody-7B"}, "Nobody-7B"),
        ({"hardware": "Abacus-3000"}, "Abacus-3000"),
        ({"precision_weights": "fp3"}, "precision_weights"),
        ({"unit": "furlongs"}, "furlongs"),
        ({"batch_or_concurrency": ""}, "concurrency"),
        ({"input_len": ""}, "input_len"),
        ({"metric": "time_to_train", "phase": "train"}, "converge"),
    ],
)
def test_what_a_row_does_not_say_is_named(changes: dict[str, str], word: str) -> None:
    with pytest.raises(RackmathError, match=word):
        asked(**changes)


@pytest.mark.parametrize("value", ["nan", "-1", "inf", "many"])
def test_cells_that_are_no_numbers_name_line_and_column(value: str) -> None:
    with pytest.raises(InputError, match="input_len in line 2"):
        asked(input_len=value)


def test_loads_per_accelerator_and_in_tokens_are_for_the_whole() -> None:
    assert read_row(cells(batch_or_concurrency="128/GPU", n_gpus="8"), 2).load == 1024
    assert read_row(cells(batch_or_concurrency="16384 tok/GPU", n_gpus="8", input_len="4096"), 2).load == 32
    assert read_row(cells(batch_or_concurrency="16M tokens", input_len="8192"), 2).load == 2048


def test_four_bit_releases_of_latent_attention_keep_it_wider() -> None:
    formats = {name: form.name for name, form in model_at("deepseek-v3", "fp4", "").layers[-1].formats}
    assert (
        formats[
            "mlp.experts.gate_up_proj"
            if "mlp.experts.gate_up_proj" in formats
            else next(n for n in formats if "experts" in n)
        ]
        == "nvfp4"
    )
    assert all(form != "nvfp4" for name, form in formats.items() if "self_attn" in name)
    published = catalogue.model("gpt-oss-120b")
    assert model_at("gpt-oss-120b", "mxfp4", "").layers == published.layers


def test_a_precision_that_a_source_presumes_is_taken() -> None:
    presumed, stated = (model_at("llama-3.1-8b", text, "") for text in ("fp8 (not stated in the file)", "fp8"))
    assert presumed == stated != model_at("llama-3.1-8b", "not stated", "")


INFERENCEX = {"engine": "sglang 0.5.9", "source": "a fork of SemiAnalysisAI/InferenceX-app", "model": "DeepSeek-R1",
              "n_gpus": "8", "parallelism": "tp=8", "metric": "ttft_median"}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"hardware": "B200-SXM", "batch_or_concurrency": "4"}, 10),
        ({"hardware": "B200-SXM", "batch_or_concurrency": "16"}, 30),
        ({"hardware": "MI300X", "batch_or_concurrency": "16"}, 4),
        ({"hardware": "H200-SXM-141GB"}, 1),
        ({"hardware": "B200-SXM", "engine": "vllm"}, 1),
        ({"hardware": "B200-SXM", "source": "somebody", "notes": "origin=InferenceX export"}, 30),
        ({"hardware": "B200-SXM", "source": "somebody"}, 1),
        ({"hardware": "B200-SXM", "parallelism": "tp=8;ep=8;dp_attention=1"}, 1),
    ],
)
def test_how_often_a_benchmark_lets_the_engine_look_for_requests(changes: dict[str, str], steps: float) -> None:
    one = asked(**{**INFERENCEX, **changes})
    assert one.looks == steps
    assert any("looks for requests" in note for note in one.assumed) is (steps > 1)


def test_the_engines_family_date_and_stage_are_read() -> None:
    row = read_row(cells(engine="dynamo-trt tensorrtllm-runtime:1.0", notes="date=2026-03-11;immature kernels"), 2)
    assert (row.family, row.stage) == ("trtllm", "immature")
    assert row.date == pytest.approx(2026 + 2.5 / 12)
    assert read_row(cells(), 2).date == 2025.5
    nemo = read_row(cells(engine="NGC Pytorch 25.04 HugeCTR Nemo 25.09, DGL 25.03", notes=""), 2)
    assert nemo.date == pytest.approx(2025 + 8.5 / 12)
    assert read_row(cells(engine="Megatron-Bridge 26.04.01 NeMo Container"), 2).date == pytest.approx(2026 + 3.5 / 12)
    assert read_row(cells(engine="trtllm 1.20.05", notes=""), 2).date == 2025.5
    for engine, notes, stage in (
        ("Megatron-Bridge 26.04 NeMo Container", "", "balanced"),
        ("sglang", "perfectly balanced MoE", "balanced"),
        ("NVIDIA NeMo Framework Release 25.01", "", ""),
    ):
        assert read_row(cells(engine=engine, notes=notes), 2).stage == stage


ALL_AT_ONCE = {
    "metric": "total_throughput (input+output)",
    "unit": "tok/s",
    "per": "system",
    "batch_or_concurrency": "8",
}


def test_requests_that_arrive_at_once_are_a_wave() -> None:
    noted = "elapsed_s=120.5;all requests submitted at once"
    assert asked(**ALL_AT_ONCE).kind == "closed"
    one = asked(**ALL_AT_ONCE, notes=noted)
    assert one.kind == "wave"
    assert one.row.elapsed == 120.5
    assert read_row(cells(notes="elapsed_s=soon"), 2).elapsed is None


def test_where_many_accelerators_say_nothing_the_layout_is_inferred_and_said() -> None:
    one = asked(parallelism="", n_gpus="8", hardware="H100-SXM-80GB")
    assert one.deployment.layout.text() == "tp8,ep1,pp1,dp1"
    assert "does not say" in one.assumed[0]


MLPERF = {
    "model": "Llama-2-70B", "n_gpus": "8", "parallelism": "", "batch_or_concurrency": "", "input_len": "",
    "output_len": "290", "unit": "tok/s", "per": "system", "notes": "MLPerf v5.1 closed/available;Offline;nodes=1",
}  # fmt: skip


def test_a_named_benchmark_says_what_its_rows_leave_out() -> None:
    one = asked(**MLPERF, metric="output_throughput offline")
    assert (one.kind, one.quantity, one.load) == ("full", "output", float("inf"))
    assert one.input == 221.3
    assert any("221.3 tokens" in note for note in one.assumed)
    served = asked(**MLPERF, metric="output_throughput interactive")
    assert (served.kind, served.quantity) == ("server", "output")
    limits = served.limits
    assert (limits.time_to_first_token, limits.time_per_output_token) == (0.45, 0.04)
    assert asked(**{**MLPERF, "unit": "ms"}, metric="tpot_mean server").limits.time_per_output_token == 0.2
    # What a row says itself is taken.
    assert asked(**{**MLPERF, "input_len": "300"}, metric="output_throughput offline").input == 300


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "Llama-3.1-8B"},
        {"notes": "our own run;Offline"},
        {"notes": "our own run", "input_len": "300", "metric": "output_throughput server"},
    ],
)
def test_other_rows_are_not_guessed(changes: dict[str, str]) -> None:
    with pytest.raises(NotUnderstood, match=r"both lengths|limits"):
        asked(**{**MLPERF, "metric": "output_throughput offline", **changes})


def test_the_largest_batch_is_per_engine_where_a_row_says_so() -> None:
    row = {**MLPERF, "parallelism": "tp=2;pp=1", "batch_or_concurrency": "1000"}
    assert asked(**row, metric="output_throughput offline").load == 1000
    row["notes"] += ";batch is the configured maximum per engine"
    assert asked(**row, metric="output_throughput offline").load == 4000


@pytest.mark.parametrize(
    ("hardware", "weights", "layout"),
    [
        ("H200-SXM-141GB", "fp8", "tp1,ep1,pp1,dp1"),
        ("H100-SXM-80GB", "fp8", "tp2,ep1,pp1,dp1"),
        ("B200-SXM", "fp4", "tp1,ep1,pp1,dp1"),
        ("H200-SXM-141GB", "bf16", "tp2,ep1,pp1,dp1"),
        ("L40S", "fp8", "tp1,ep1,pp4,dp1"),
    ],
)
def test_throughput_asks_for_as_many_copies_as_leave_room(hardware: str, weights: str, layout: str) -> None:
    row = {**MLPERF, "hardware": hardware, "precision_weights": weights}
    found = asked(**row, metric="output_throughput offline").deployment
    assert found.layout.text() == layout
    assert found.workers == 8 / float(found.layout.gpus)
    assert "does not say" in found.inferred
    # Users who wait are served by all of a domain.
    row |= {"batch_or_concurrency": "64", "input_len": "300"}
    assert asked(**row, metric="output_throughput").deployment.layout.tensor == (1 if hardware == "L40S" else 8)
