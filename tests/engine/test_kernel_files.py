"""Curves of kernels as the package holds them, against the timings that they were fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rackmath.engine import Layout, estimate
from rackmath.engine.kernel_curves import WIDTHS, KernelCurve, KernelLoad
from rackmath.engine.kernels import CHOOSING
from rackmath.engine.roofline import stored_width
from rackmath.io import catalogue, constants_file, kernel_files
from rackmath.models.formats import weight_format

GGML = Path(__file__).parents[1] / "data" / "ggml_timings.csv"


def load(chip, flops: float, moved: float, **numbers: float) -> KernelLoad:
    usual = {"rows": 1.0, "narrowness": 0.0, "launches": 1.0, "depth": 0.0, "matrices": 0.0}
    return KernelLoad(compute=flops / chip.rate("bf16"), memory=moved / chip.memory_bandwidth, **{**usual, **numbers})


def test_no_kernel_nears_a_printed_peak_that_heat_keeps_it_from() -> None:
    """Of untimed kernels, those whose peak asks for 1.4 TFLOP/J or more: another power moves a chip over the bound."""
    product = {name: kernel_files.kernels(catalogue.system(name).chip, "vllm").curves["product.wide"] for name in (
        "gaudi-3", "gaudi-3[power=1200W]", "gaudi-3[power=1400W]", "rtx-3090", "rx-7900-xtx", "h100-sxm", "b200-sxm",
    )}  # fmt: skip
    # 1,835 TFLOP/s at 900, 1,200 and 1,400 W are 2.04, 1.53 and 1.31 TFLOP/J.
    assert [curve.most for curve in product.values()] == [0.85, 0.85, 1.0, 1.0, 1.0, 1.0, 1.0]
    curves = kernel_files.kernels(catalogue.system("mi350x").chip, "vllm").curves
    assert (curves["product.wide"].most, curves["attention.prompt"].most) == (1.0, 0.85)


@pytest.mark.parametrize(
    ("system", "kind", "width", "precision", "m", "n", "k", "seconds"),
    [
        # Published: AITER at e4048607a5, the quickest kernel of a shape.
        ("mi355x", "product.byte", 1.0, "fp8", 16, 20480, 4096, 18.2e-6),
        ("mi355x", "product.byte", 1.0, "fp8", 8192, 7168, 8192, 384.8e-6),
        ("mi355x", "product.wide", 2.0, "bf16", 16, 6144, 7168, 17.8e-6),
        ("mi355x", "product.wide", 2.0, "bf16", 4096, 16384, 6656, 594.4e-6),
        ("mi355x", "product.nibble", 0.53, "fp4", 16, 16384, 8192, 20.1e-6),
        ("mi355x", "product.nibble", 0.53, "fp4", 4096, 14336, 8192, 207.4e-6),
    ],
)
def test_products_of_amd_take_about_what_was_timed(
    system: str, kind: str, width: float, precision: str, m: int, n: int, k: int, seconds: float
) -> None:
    chip = catalogue.system(system).chip
    flops = 2 * m * n * k * chip.rate("bf16") / chip.rate(precision)
    shape = load(chip, flops, width * n * k + 2 * m * (n + k), rows=m, narrowness=1 / n + 1 / k, depth=k)
    assert kernel_files.kernels(chip, "vllm").curve(kind).seconds(shape).total == pytest.approx(seconds, rel=0.4)


@pytest.mark.parametrize(
    ("system", "m", "n", "k", "seconds"),
    [
        # Published: aiconfigurator-core 0.12.0, gemm_perf, vLLM, 16 bit.
        ("h100-sxm", 1, 8192, 8192, 51.6e-6),
        ("h100-sxm", 64, 4096, 4096, 14.8e-6),
        ("h100-sxm", 1024, 8192, 8192, 164.0e-6),
        ("h100-sxm", 8192, 8192, 8192, 1541.7e-6),
        ("h100-sxm", 16, 1024, 8192, 10.4e-6),
        ("h100-sxm", 16, 8192, 1024, 8.5e-6),
    ],
)
def test_products_take_about_what_was_timed(system: str, m: int, n: int, k: int, seconds: float) -> None:
    chip = catalogue.system(system).chip
    shape = load(chip, 2 * m * n * k, 2 * (n * k + m * (n + k)), rows=m, narrowness=1 / n + 1 / k, depth=k)
    found = kernel_files.kernels(chip, "vllm").curve("product.wide").seconds(shape).total
    assert found == pytest.approx(seconds, rel=0.2)


EXPERTS = {"bfloat16": ("wide", "bf16", 2.0), "fp8_block": ("byte", "fp8", 1.0), "nvfp4": ("nibble", "fp4", 0.5625)}


def test_experts_take_about_what_was_timed_whole_and_sliced() -> None:
    """aiconfigurator-core 0.12.0, moe_perf: DeepSeek-R1's and Qwen3-235B-A22B's mixtures, 4 to 16,384 tokens."""
    ratios: dict[str, list[float]] = {}
    for row in pl.read_csv(Path(__file__).parents[1] / "data/expert_timings.csv").iter_rows(named=True):
        chip = catalogue.system(row["chip"]).chip
        width, precision, size = EXPERTS[row["format"]]
        slots, wide = row["tokens"] * row["topk"] / row["ranks"], row["inter"] / row["slices"]
        met = max(min(row["experts"] / row["ranks"], slots), 1.0)
        compute = 6 * slots * row["hidden"] * wide / chip.rate(precision)
        moved = met * 3 * row["hidden"] * wide * size + slots * (2 * row["hidden"] + 3 * wide) * 2
        timed = KernelLoad(
            compute=compute, memory=moved / chip.memory_bandwidth, rows=slots / met,
            narrowness=1 / wide + 1 / row["hidden"], launches=1.0, depth=0.0, matrices=met,
        )  # fmt: skip
        if row["ms"] / 1e3 < max(timed.compute, timed.memory):
            # It read fewer experts than even routing meets.
            continue
        curve = kernel_files.kernels(chip, row["engine"]).curve(f"experts.{width}")
        ratios.setdefault(f"{row['engine']} on {row['chip']}", []).append(curve.seconds(timed).total * 1e3 / row["ms"])
    assert len(ratios) == 6
    for name, values in ratios.items():
        error = np.abs(np.log(values))
        assert np.median(error) < 0.25, name
        assert error.max() < np.log(1.8), name


def test_attention_over_a_cache_takes_about_what_was_timed() -> None:
    """Eight heads of a cache, batch 64, 4,096 tokens: 353.7 us by FlashAttention 3 on an H100."""
    chip = catalogue.system("h100-sxm").chip
    moved = 64 * 4096 * 8 * 2 * 128 * 2
    shape = load(chip, 4 * 64 * 8 * 128 * 4096, moved, rows=4096, narrowness=1 / 128, matrices=64 * 8)
    found = kernel_files.kernels(chip, "vllm").curve("attention.decode").seconds(shape).total
    assert found == pytest.approx(353.7e-6, rel=0.12)


def test_long_prompts_reach_what_kernels_reach() -> None:
    """Attention over 16,384 keys: 0.53 to 0.61 of peak on an H100, 0.5 to 0.66 on A100 and B200 (op-efficiency.csv)."""
    for system, low, high in (("h100-sxm", 0.4, 0.65), ("a100-sxm", 0.4, 0.7), ("b200-sxm", 0.25, 0.6)):
        chip = catalogue.system(system).chip
        keys, heads = 16_384, 32
        shape = load(chip, 4 * heads * 128 * keys * keys / 2, 2 * keys * heads * 128 * 4, rows=keys, narrowness=1 / 128)
        found = kernel_files.kernels(chip, "vllm").curve("attention.prompt").seconds(shape).total
        assert low < shape.compute / found < high, system


def test_a_chip_without_timings_takes_those_of_its_generation() -> None:
    own, near = (catalogue.system(name).chip for name in ("h100-sxm", "h100-pcie"))
    assert kernel_files.basis(own) == f"kernel timings of {own.name}"
    assert kernel_files.basis(near) == "kernel timings of other hopper chips"
    assert "none of this one" in kernel_files.basis(catalogue.system("gaudi-3").chip)
    parts = [
        kernel_files.kernels(catalogue.system(n).chip, "vllm").curve("product.wide").part
        for n in ("h100-sxm", "h200-sxm")
    ]
    mean = kernel_files.kernels(near, "vllm").curve("product.wide").part
    assert min(parts) <= mean <= max(parts)


@pytest.mark.parametrize("name", catalogue.system_names())
def test_every_chip_has_every_kind_of_kernel(name: str) -> None:
    kernels = kernel_files.kernels(catalogue.system(name).chip, "vllm")
    kinds = {f"{kind}.{width}" for kind in ("product", "experts") for width in WIDTHS}
    attention = ("attention", "latent", *CHOOSING, "sparse_index", "compressed_sparse_index", "block_sparse_index")
    kinds |= {f"{kind}.{phase}" for kind in attention for phase in ("prompt", "decode")}
    assert kinds | {"recurrence.prompt", "attention.decode_byte", "hyper_connection", "other"} <= set(kernels.curves)
    assert 0 < kernels.wire <= 1 <= kernels.reduction_latency


def test_ggml_s_products_take_about_what_its_users_timed() -> None:
    """Every timing of the table, through the curve that llama.cpp's passes are built from."""
    table = pl.read_csv(GGML)
    ratios: list[float] = []
    for row in table.iter_rows(named=True):
        chip = catalogue.system(row["system"]).chip
        kind = "codebook" if row["format"].startswith(("iq2", "iq3")) else "expanded"
        shape = KernelLoad(
            compute=row["gigaflop"] * 1e9 / chip.rate("fp16"),
            memory=row["megabytes"] * 1e6 / chip.memory_bandwidth,
            rows=float(row["rows"]),
            narrowness=0.0,
            launches=float(row["products"]),
            depth=0.0,
            matrices=0.0,
        )
        seconds = kernel_files.kernels(chip, "llama.cpp").curve(f"product.{kind}").seconds(shape).total
        ratios.append(float(seconds) / (row["microseconds"] * 1e-6))
    errors = np.abs(np.log(ratios))
    assert np.median(errors) < np.log(1.1)
    assert np.max(errors) < np.log(1.65)


def test_kernels_by_row_are_for_few_rows_and_never_slower_than_tiles() -> None:
    tiles = KernelCurve(part=0.8, rows=55.0)
    both = KernelCurve(part=0.8, rows=55.0, by_row=0.04, expansion=1.0)
    rows = np.array([1.0, 2.0, 8.0, 512.0])
    shape = KernelLoad(compute=1.0, memory=0.0, rows=rows, narrowness=0.0, launches=0.0, depth=0.0, matrices=0.0)
    assert tiles.seconds(shape).compute == pytest.approx([70.0, 35.625, 9.84375, 1.384277])
    assert both.seconds(shape).compute == pytest.approx([50.0, 35.625, 9.84375, 1.384277])


def test_a_chip_that_does_not_state_its_rate_without_matrix_units_multiplies_in_tiles() -> None:
    told, silent = (catalogue.system(name).chip for name in ("rtx-4090", "mi300x"))
    assert kernel_files.kernels(told, "llama.cpp").curve("product.expanded").by_row == pytest.approx(
        0.3128 * 82.575 / 330.3
    )
    assert kernel_files.kernels(silent, "llama.cpp").curve("product.expanded").by_row == 0.0
    assert kernel_files.kernels(told, "vllm").curve("product.expanded").by_row == 0.0


def test_tables_of_weights_cost_llama_cpp_more_and_other_engines_the_same() -> None:
    chip = catalogue.system("strix-halo").chip
    shape = load(chip, 2 * 4096 * 14_336, 4096 * 14_336 * 2.4 / 8)
    ggml, vllm = (kernel_files.kernels(chip, family) for family in ("llama.cpp", "vllm"))
    assert (
        ggml.curve("product.codebook").seconds(shape).total > 1.4 * ggml.curve("product.expanded").seconds(shape).total
    )
    assert vllm.curve("product.codebook") == vllm.curve("product.expanded")


@pytest.mark.parametrize(("form", "kind"), [("iq2_xxs", "codebook"), ("q2_k", "expanded"), ("iq4_xs", "expanded")])
def test_formats_that_look_weights_up_have_kernels_of_their_own(form: str, kind: str) -> None:
    stored = weight_format(form)
    assert stored_width(stored.bits, stored.codebook, "fp16") == kind


def test_products_take_about_what_we_timed_ourselves() -> None:
    """On an H100 and with a library that no curve is fitted to (tests/data/h100_timings.csv)."""
    chip = catalogue.system("h100-sxm").chip
    rows = pl.read_csv(Path(__file__).parents[1] / "data/h100_timings.csv").filter(pl.col("kind") == "product.wide")
    m, n, k = (rows[name].cast(pl.Float64).to_numpy() for name in "mnk")
    load = KernelLoad(
        compute=2 * m * n * k / chip.rate("bf16"),
        memory=2 * (n * k + m * (n + k)) / chip.memory_bandwidth,
        rows=m,
        narrowness=1 / n + 1 / k,
        launches=1.0,
        depth=k,
        matrices=0.0,
    )
    ratio = kernel_files.kernels(chip, "").curve("product.wide").seconds(load).total / rows["seconds"].to_numpy()
    assert 0.93 < np.median(ratio) < 1.07
    assert np.quantile(np.abs(ratio - 1), 0.9) < 0.15


def test_a_pass_says_which_of_its_kernels_were_timed_elsewhere() -> None:
    """Nobody timed sparse attention on A100; its products were."""
    system = catalogue.system("a100-sxm")
    losses = constants_file.losses_of(system, constants_file.engine_of(system, "sglang", 2026.0), "time per token")
    note = "kernels that were timed on other chips or generations only: sparse, sparse index"
    for model, said in (("glm-5", True), ("llama-3.1-70b", False)):
        result = estimate(catalogue.model(model), system, Layout(tensor=8), batch=1, context=1000, losses=losses)
        assert (note in result.assumptions) is said


@pytest.mark.parametrize(
    ("system", "kinds"),
    [("mi300x", {"product", "attention"}), ("mi325x", {"product", "attention"}), ("mi350x", {"attention"}),
     ("h100-pcie", set()), ("gaudi-3", set())],
)  # fmt: skip
def test_a_generation_that_was_timed_in_part_lends_what_it_has(system: str, kinds: set[str]) -> None:
    """Of CDNA 3 mixtures alone were timed, of CDNA 4 products too, on Gaudi nothing, which is said as a whole."""
    borrowed = kernel_files.kernels(catalogue.system(system).chip, "vllm").borrowed
    used = {"product.wide", "experts.wide" if system == "mi300x" else "experts.byte", "attention.decode"}
    assert {kind.partition(".")[0] for kind in borrowed & used} == kinds


def test_experts_that_are_trained_one_by_one_are_products() -> None:
    """Megatron's experts: a product each, whose starts share four streams; servers' are grouped kernels."""
    chip = catalogue.system("gb300-nvl72").chip
    megatron, vllm = (kernel_files.kernels(chip, family) for family in ("megatron", "vllm"))
    # 64 experts of 4096 x 1536, 512 tokens each, forward.
    flops = 2 * 64 * 512 * 4096 * 1536
    load = KernelLoad(
        compute=flops / chip.rate("fp8"),
        memory=0.0,
        rows=512.0,
        narrowness=1 / 4096 + 1 / 1536,
        launches=1.0,
        depth=4096.0,
        matrices=64.0,
    )
    product = megatron.curve("product.byte")
    compute = load.compute / product.part * (1 + product.rows / 512) * (1 + product.side * load.narrowness)
    assert megatron.curve("experts.byte").seconds(load).total == pytest.approx(product.floor * (1 + 64 / 4) + compute)
    assert vllm.curve("experts.byte") != megatron.curve("experts.byte")
