"""What rows say -> what is asked; what they do not say is refused by the name of the column."""

from __future__ import annotations

import csv

import pytest

from rackmath.errors import InputError, NotUnderstood, RackmathError
from rackmath.io import catalogue
from rackmath.models.counts import weight_bytes
from rackmath.validation.deployments import deployment
from rackmath.validation.precisions import model_at
from rackmath.validation.questions import question
from rackmath.validation.rows import COLUMNS, NUMBERS, read_row
from tests.conftest import SHARED
from tests.validation.rows import cells

MOE = catalogue.model("deepseek-v3")
ROWS = SHARED / "measured/rows.csv"


def asked(**changes: str):
    return question(read_row(cells(**changes), 2))


def spread(**changes: str):
    found = deployment(read_row({**cells(tp=""), **changes}, 2), MOE)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("columns", "layout", "workers"),
    [
        (dict(tp="4", pp="1", dp="1", dp_kind="attention", ep="4", n_gpus="4"), "tp4,ep4,pp1,dp1", 1),
        (dict(tp="1", dp="8", dp_kind="attention", ep="8", n_gpus="8"), "tp1,ep8,pp1,dp8", 1),
        # Slices of experts lie over groups as well: together the ranks hold one set.
        (dict(tp="1", dp="4", dp_kind="attention", ep="1", moe_tp="4", n_gpus="4"), "tp1,ep4,pp1,dp4", 1),
        # Only attention is data-parallel; its ranks share one set of experts.
        (dict(tp="1", dp="8", dp_kind="attention", n_gpus="8"), "tp1,ep8,pp1,dp8", 1),
        (dict(tp="8", ep="1", n_gpus="8"), "tp8,ep1,pp1,dp1", 1),
        (dict(tp="8", pp="2", n_gpus="16"), "tp8,ep1,pp2,dp1", 1),
        (dict(tp="2", n_gpus="8"), "tp2,ep1,pp1,dp1", 4),
        # Copies are replicas, not attention in parallel.
        (dict(tp="2", dp="4", dp_kind="replica", n_gpus="8"), "tp2,ep1,pp1,dp1", 4),
        (dict(pp="4", n_gpus="4", flags="layer_split"), "tp1,ep1,pp4,dp1", 1),
        (dict(n_gpus="1"), "tp1,ep1,pp1,dp1", 1),
    ],
)
def test_columns_of_parallelism_make_layouts(columns: dict[str, str], layout: str, workers: int) -> None:
    found = spread(**columns)
    assert (found.layout.text(), found.workers) == (layout, workers)


def test_pools_have_layouts_and_workers_of_their_own() -> None:
    found = spread(
        topology="disaggregated",
        n_gpus="24",
        **{"prefill_workers": "4", "prefill_gpus": "16", "prefill_tp": "1", "prefill_ep": "4", "prefill_dp": "4"},
        **{"decode_workers": "1", "decode_gpus": "8", "decode_tp": "1", "decode_ep": "8", "decode_dp": "8"},
    )
    assert found.prefill is not None
    assert (found.prefill.text(), found.prefill_workers) == ("tp1,ep4,pp1,dp4", 4)
    assert (found.layout.text(), found.workers) == ("tp1,ep8,pp1,dp8", 1)
    with pytest.raises(NotUnderstood, match="decode_gpus"):
        spread(topology="disaggregated", n_gpus="8", prefill_gpus="8")


def test_two_batch_overlap_is_a_flag() -> None:
    assert spread(tp="1", dp="8", dp_kind="attention", n_gpus="8", flags="two_batch_overlap").two_batch
    assert not spread(tp="1", dp="8", dp_kind="attention", n_gpus="8", flags="no_two_batch_overlap").two_batch


def test_widths_that_contradict_the_accelerators_are_refused() -> None:
    with pytest.raises(NotUnderstood, match="n_gpus = 8"):
        spread(tp="16", n_gpus="8")


def test_shares_are_the_rows_own() -> None:
    assert asked().scale == 1
    total = dict(metric="total_throughput", n_gpus="8", tp="8", statistic="")
    assert asked(**total, per="system").scale == 1
    assert asked(**total, per="gpu").scale == pytest.approx(1 / 8)
    assert asked(metric="decode_speed", phase="decode", per="user", statistic="").scale == pytest.approx(1 / 16)


@pytest.mark.parametrize(
    ("columns", "kind", "quantity"),
    [
        (dict(metric="tpot", statistic="mean"), "closed", "tpot"),
        (dict(metric="tpot", statistic="p50"), "closed", "tpot_median"),
        (dict(metric="itl", statistic="mean"), "closed", "itl"),
        (dict(metric="itl", arrivals="static_batch", batch="4"), "decode", "latency"),
        (dict(metric="ttft", statistic="mean"), "closed", "ttft"),
        (dict(metric="ttft", statistic="p50"), "closed", "ttft_median"),
        (dict(metric="e2e", statistic="mean"), "closed", "latency"),
        (dict(metric="output_throughput", arrivals="offline"), "full", "output"),
        (dict(metric="output_throughput", arrivals="all_at_once", num_requests="100"), "wave", "output"),
        (dict(metric="output_throughput", arrivals="all_at_once", concurrency=""), "full", "output"),
        (dict(metric="tpot", arrivals="constant", request_rate="5"), "open", "tpot"),
        (dict(metric="e2e", arrivals="poisson", request_rate="5"), "open", "latency"),
        (dict(metric="tpot", arrivals="static_batch", batch="4"), "decode", "latency"),
        (dict(metric="ttft", arrivals="single", batch="1"), "prefill", "latency"),
        (dict(metric="output_throughput", arrivals="static_batch", batch="4"), "static", "output"),
        (dict(metric="decode_speed", phase="decode"), "decode", "tokens"),
        (dict(metric="prefill_speed", phase="prefill"), "prefill", "tokens"),
        (dict(metric="tpot", flags="one_wave_suspected:x"), "wave", "tpot"),
    ],
)
def test_metrics_ask_for_what_they_name(columns: dict[str, str], kind: str, quantity: str) -> None:
    one = asked(**{"statistic": "", "per": "system", **columns})
    assert (one.kind, one.quantity) == (kind, quantity)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metric": "happiness"}, "metric"),
        ({"statistic": "p99"}, "percentiles are simulated"),
        ({"output_mean": "0"}, "output_mean"),
        ({"input_mean": ""}, "input_mean"),
        ({"concurrency": ""}, "arrivals"),
        ({"arrivals": "constant"}, "request_rate"),
        ({"arrivals": "now and then"}, "arrivals"),
        ({"model": "Nobody-7B"}, "Nobody-7B"),
        ({"hardware": "Abacus-3000"}, "Abacus-3000"),
        ({"weights": "fp3"}, "weights"),
        ({"flags": "power_capped"}, "power_cap_w"),
        (
            {
                "metric": "train_throughput",
                "phase": "training",
                "global_batch": "8",
                "sequence_length": "64",
                "weights": "",
            },
            "framework_precision",
        ),
        ({"per": "planet", "metric": "total_throughput"}, "per"),
        ({"metric": "time_to_train", "phase": "training"}, "samples to converge"),
        ({"metric": "train_throughput", "phase": "training"}, "global_batch"),
        (
            {
                "metric": "train_throughput",
                "phase": "training",
                "global_batch": "8",
                "sequence_length": "64",
                "tp": "0.3",
            },
            "tp",
        ),
        ({"flags": "offload_to_cpu"}, "host"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_column(changes: dict[str, str], word: str) -> None:
    changed = {**changes, **({"arrivals": ""} if changes == {"concurrency": ""} else {})}
    with pytest.raises(RackmathError, match=word):
        asked(**changed)


@pytest.mark.parametrize("name", ["n_gpus", "concurrency", "value", "input_mean"])
def test_bad_numbers_name_line_and_column(name: str) -> None:
    for text in ("nan", "-1", "many", "inf"):
        with pytest.raises(InputError, match=f"{name} in line 7"):
            read_row(cells(**{name: text}), 7)


def test_dates_and_families() -> None:
    def when(date: str) -> float:
        return read_row(cells(date=date), 2).when

    assert when("2025") == 2025.5
    assert when("2026-03-11") == pytest.approx(2026 + (2 + 11 / 31) / 12)
    assert when("2024-07") < when("2024-07-31") < when("2024-09")
    assert read_row(cells(engine="nim"), 2).family == "trtllm"
    assert read_row(cells(engine=""), 2).family == "other"
    assert read_row(cells(flags="immature;layer_split:why"), 2).stage == "immature"
    assert read_row(cells(flags="not_immature"), 2).stage == ""


def test_a_cached_prefix_is_whole_blocks_and_leaves_a_token() -> None:
    assert asked(shared_prefix_tokens="1000").cached_tokens == 992
    assert asked(shared_prefix_tokens="500").cached_tokens == 496
    assert asked().cached_tokens == 0


def test_engines_defaults_stand_where_a_row_is_silent() -> None:
    large, small = asked(), asked(hardware="L40S")
    assert (large.max_num_seqs, large.max_num_batched_tokens) == (1024, 8192)
    assert (small.max_num_seqs, small.max_num_batched_tokens) == (256, 2048)
    assert asked(max_num_seqs="64", max_num_batched_tokens="4096").max_num_seqs == 64
    assert asked(engine="sglang").max_num_seqs == float("inf")


def test_silent_layouts_are_inferred_and_said() -> None:
    one = asked(model="Llama-2-70B", n_gpus="8", tp="")
    assert one.deployment.inferred
    assert one.assumed


def test_trained_rows_ask_for_training() -> None:
    columns = dict(
        metric="train_throughput", phase="training", per="gpu", engine="megatron", model="Llama-3.1-70B", n_gpus="64"
    )
    one = asked(
        **columns, global_batch="128", sequence_length="8192", tp="4", pp="4", micro_batch="1", recompute="full"
    )
    assert one.run is not None
    assert (one.run.layout.text(), one.run.recompute) == ("tp4,ep1,pp4,dp4", 1.0)


def test_formats_of_files_have_their_bits() -> None:
    names = ("bf16", "q8_0", "q6_k", "ud-q5_k_xl", "ud-q4_k_xl", "q3_k_xl", "q3_k_s", "ud-iq2_m", "iq2_xxs")
    sizes = [sum(weight_bytes(model_at("Llama-3.1-8B", name, "")).values()) for name in names]
    assert sizes == sorted(sizes, reverse=True)


def test_types_of_other_quantisers_are_the_next_that_llama_cpp_has() -> None:
    for name, known in (
        ("ud-q4_k_xl", "q4_k_m"), ("q3_k_xl", "q3_k_l"), ("q8_k_xl", "q8_0"), ("q2_k_p", "q2_k"), ("q6_k_xl", "q6_k"),
        ("ud-q4_k_xl-qat", "q4_k_m"), ("UD-IQ4_NL", "iq4_nl"),
    ):  # fmt: skip
        assert model_at("Llama-3.1-8B", name, "") == model_at("Llama-3.1-8B", known, ""), name


def test_files_of_published_mxfp4_keep_the_rest_in_8_bits() -> None:
    file, checkpoint = (
        sum(weight_bytes(model_at("gpt-oss-20b", "mxfp4", "", family=f)).values()) for f in ("llama.cpp", "vllm")
    )
    assert file / 2**30 == pytest.approx(11.27, abs=0.006)
    assert checkpoint > 1.1 * file
    # So it is where a row states the checkpoint's formats, of experts and of all else; a file of 16 bits is another.
    both, wide = (
        sum(weight_bytes(model_at("gpt-oss-20b", form, "", "mxfp4", family="llama.cpp")).values())
        for form in ("bf16", "f16")
    )
    assert (both, wide) == (file, checkpoint)


def test_caches_have_the_bits_that_a_row_says() -> None:
    bits = {
        (text, family): model_at("Llama-3.1-8B", "", text, family=family).cache_format.bits
        for text, family in (
            ("", "vllm"), ("fp8", "vllm"), ("int8_per_token_head", "vllm"),
            ("", "llama.cpp"), ("f16", "llama.cpp"), ("q8_0", "llama.cpp"), ("q4_0", "llama.cpp"),
        )
    }  # fmt: skip
    assert list(bits.values()) == [16, 8, 8, 16, 16, 8.5, 4.5]
    assert model_at("nemotron-3-super", "q4_k_m", "", family="llama.cpp").cache_format.bits == 16
    for text in ("q8_0/turbo4", "turbo4"):
        with pytest.raises(NotUnderstood, match="kv"):
            model_at("Llama-3.1-8B", "", text, family="llama.cpp")


@pytest.mark.skipif(not ROWS.is_file(), reason="needs ../shared/measured/rows.csv")
def test_the_published_table_has_the_columns_that_are_read() -> None:
    with ROWS.open(newline="", encoding="utf-8") as lines:
        header = next(csv.reader(lines))
    assert set(COLUMNS) <= set(header)
    assert {"tp", "request_rate", "value", "micro_batch"} <= NUMBERS
