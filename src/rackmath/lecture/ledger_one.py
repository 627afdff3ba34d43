"""Claims of chapters 1 to 3: batches, racks, pipelines."""

from __future__ import annotations

from rackmath.io import catalogue
from rackmath.lecture import real, real_training
from rackmath.lecture.entry import Entry, said
from rackmath.lecture.solve import evaluate
from rackmath.models.counts import weight_bytes
from rackmath.training.routed import LAWS, effective_size

_SMALL = 0.1
"""Part of a cost below which a saving is nearly none. [1]"""


def _span(values: list[float], scale: float = 1.0) -> tuple[float, float]:
    return min(values) * scale, max(values) * scale


def _lecture_ratio(chip: str, precision: str) -> float:
    c = catalogue.system(chip).chip
    width = {"bf16": 2, "fp8": 1}[precision]
    return evaluate("hardware-ratio", "R", F=c.rate(precision), M=c.memory_bandwidth, w=width)


def _two_batches() -> tuple[float, float]:
    balance = evaluate("balance-batch", "B_star", R=300, S=8)
    return 2 * balance, 3 * balance


def _fast_mode_lecture() -> float:
    """2.5x the speed leaves the compute bound at once: below the balance batch cost goes as 1/B."""
    # At 2.5 times the balance batch a step takes 2.5 floors, so the floor itself is 2.5x as fast at equal cost;
    # a further factor needs a batch of a sixth of the balance batch, where nothing is faster any more.
    floor = evaluate("latency-floor", "t_floor", N_total=8e11, w=1, M=2.7e13)
    slow = evaluate("step-time", "t", B=6000, N_active=1e11, C=8.1e15, N_total=8e11, w=1, L=0, kv=0, M=2.7e13)
    return (floor / 2400) / (slow / 6000)


def _weights_tb(name: str) -> float:
    return sum(weight_bytes(catalogue.model(name)).values()) / 1e12


def _fits_five_trillion() -> str:
    rack, node = catalogue.system("gb300-nvl72"), catalogue.system("h200-sxm")
    stored_bytes = 5e12 * 1.0
    return "yes/no" if stored_bytes < rack.domain_capacity and stored_bytes > node.domain_capacity else "otherwise"


ENTRIES: dict[str, Entry] = {
    "batch-ratio": Entry(
        lambda: _lecture_ratio("h100-sxm", "fp8"),
        lambda: _span(real.ratios(real.FLAGSHIPS)),
        lambda: (
            "300 is H100 and a fair centre, but flagships span "
            f"{min(real.ratios(real.FLAGSHIPS)):.0f} (A100) to "
            f"{max(real.ratios(real.FLAGSHIPS)):.0f} (GB300 at fp4): compute it."
        ),
        command="rackmath systems",
    ),
    "batch-ratio-stable": Entry(
        lambda: (_lecture_ratio("a100-sxm", "bf16"), _lecture_ratio("h100-sxm", "fp8")),
        lambda: _span(real.ratios(real.FLAGSHIPS)),
        said("Halving the bytes doubles the rate, so the ratio holds until a format gets extra FLOP: fp4 on GB300."),
        command="rackmath systems",
    ),
    "batch-optimum": Entry(
        lambda: evaluate("balance-batch", "B_star", R=300, S=8),
        real.balance_batch,
        lambda: (
            f"DeepSeek-V3 is {real.sparsity():.1f} times sparse by parameters and 32 by experts, not 8, "
            f"and R of GB200 is {real.rack().chip.ratio('fp8'):.0f}."
        ),
        command="rackmath lecture solve balance-batch --for B_star R=312.5 S=17.87",
    ),
    "batch-practice": Entry(
        _two_batches,
        real.standard_batch,
        lambda: (
            f"{real.BASELINE}: {real.standard_batch():,.0f} sequences in decode; two to three times the balance batch "
            f"with true sparsity would be {2 * real.balance_batch():,.0f} to {3 * real.balance_batch():,.0f}."
        ),
        command="rackmath lecture modes deepseek-v3 --on gb200-nvl72 --gpus 72 --input 4000 --output 1000 --ttft 2 "
        "--one-pool",
    ),
    "batch-one-penalty": Entry(
        lambda: evaluate("balance-batch", "B_star", R=300, S=8),
        real.batch_one_penalty,
        lambda: (
            "At batch 1 only 8 of 256 experts are read, and cache and network do not amortise, so not batching costs "
            f"{real.batch_one_penalty():.0f} times the floor on GB200 NVL72 at 8 k context."
        ),
    ),
    "drain-rubin": Entry(
        lambda: evaluate("drain-time", "t_drain", H=288e9, M=20e12) * 1e3,
        lambda: real.drain_times(("vr200-nvl72",))[0] * 1e3,
        said("Announced bandwidth has since risen from 20 to 22 TB/s."),
    ),
    "drain-stable": Entry(
        lambda: evaluate("drain-time", "t_drain", H=288e9, M=20e12) * 1e3,
        lambda: _span(real.drain_times(real.LISTED), 1e3),
        lambda: (
            f"Only Rubin and TPU v5e stay under 20 ms; the catalogue's median is {real.drain_median() * 1e3:.0f} and "
            f"its longest {max(real.drain_times()) * 1e3:.0f} ms."
        ),
        command="rackmath systems",
    ),
    "train-worst-wait": Entry(
        lambda: evaluate("worst-wait", "t_worst", t=20e-3) * 1e3,
        lambda: evaluate("worst-wait", "t_worst", t=real.rack().chip.drain_time) * 1e3,
        said("Twice the period by construction; the natural period of GB200 is its drain time of 24 ms."),
    ),
    "throughput-rack": Entry(
        lambda: evaluate("throughput", "X", B=2000, t=1 / 64),
        lambda: float(real.decode(2000.0).tokens_per_second),
        lambda: (
            "The ideal step of DeepSeek-V3 at 8 k context is shorter than 1/64 s: "
            f"{float(real.decode(2000.0).time) * 1e3:.1f} ms with one expert group of 72."
        ),
        command="rackmath estimate deepseek-v3 --on gb200-nvl72 --gpus 72 --batch 2000 --context 8192 --ideal",
    ),
    "share-of-gemini": Entry(
        lambda: (
            evaluate("throughput", "X", B=2000, t=1 / 64) / 5e8,
            evaluate("throughput", "X", B=2000, t=1 / 64) / 1e8,
        ),
        lambda: float(real.decode(2000.0).tokens_per_second) / 5e8,
        said("One rack is about a thousandth of the largest reported traffic on either count."),
    ),
    "goldilocks-2x": Entry(
        lambda: evaluate("context-utilisation", "u", L=2, L_star=1),
        real.goldilocks,
        said("Llama-3.1-70B on H200 at twice its balanced context; products of attention are left out on both sides."),
    ),
    "fast-mode": Entry(
        _fast_mode_lecture,
        real.fast_price,
        lambda: (
            f"{real.BASELINE}: 2.5x the speed costs {real.fast_price():.2g}x with other parallelism, "
            f"{real.fast_price_by_batch():.2g}x with a smaller batch alone. 6x is a price, and price pages have since "
            "gone to 2x."
        ),
        command="rackmath lecture modes deepseek-v3 --on gb200-nvl72 --gpus 72 --input 4000 --output 1000 --ttft 2 "
        "--one-pool",
    ),
    "slow-mode": Entry(
        lambda: "small",
        lambda: "small" if real.slow_saving() < _SMALL else f"{real.slow_saving():.0%} of the cost",
        lambda: (
            f"{real.BASELINE}: a larger batch saves {real.slow_saving():.0%} of the cost, then nothing more: there the "
            "floor is. What else a slow mode can sell is capacity that stands idle."
        ),
        command="rackmath lecture modes deepseek-v3 --on gb200-nvl72 --gpus 72 --input 4000 --output 1000 --ttft 2 "
        "--one-pool",
    ),
    "sparse-sqrt": Entry(
        lambda: (
            evaluate("sparse-attention", "t_kv", B=1, kv=1, L=4e5, L_dense=1000, M=1)
            / evaluate("sparse-attention", "t_kv", B=1, kv=1, L=1e5, L_dense=1000, M=1)
        ),
        lambda: real.sparse_time_ratio(1e5, 4e5),
        lambda: (
            "DeepSeek sparse attention reads a 128-wide index of every token and 2,048 entries: linear with a "
            f"small slope, {real.sparse_time_ratio(1e5, 4e5):.2f}x from 100 k to 400 k, not a root."
        ),
        command="rackmath model deepseek-v3.2 --explain",
    ),
    "routed-64x": Entry(
        lambda: float(effective_size(370e6, 64, LAWS["s-base"])),
        lambda: (
            float(effective_size(370e6, 64, LAWS["rl-r"])),
            float(effective_size(370e6, 64, LAWS["s-base"])),
        ),
        said("True for the S-Base router only; RL-R and Hash reach 1.0 to 1.1 B, at 20 times the memory."),
    ),
    "moe-experts-per-gpu": Entry(
        lambda: evaluate("experts-per-gpu", "experts_each", E=256, G=64),
        lambda: float(-(-256 // 72)),
        said("72 accelerators hold 4 experts on the fullest as well: 8 of them idle or keep spare copies."),
    ),
    "moe-two-racks": Entry(
        lambda: evaluate("tokens-leaving", "f_leave", n=2),
        lambda: evaluate("tokens-leaving", "f_leave", n=2),
        said("Holds for even routing; DeepSeek limits each token to 4 of 8 groups: fewer copies, the same share."),
    ),
    "moe-two-racks-slowdown": Entry(
        lambda: evaluate("two-racks", "slowdown", n=2, r=8),
        real.two_racks,
        said("r is 9 on GB200 with 800 Gb/s, and one rack keeps 1/72 of its traffic local."),
    ),
    "hopper-memory": Entry(
        lambda: evaluate("domain-memory", "H", G=8, H_gpu=80e9) / 1e9,
        lambda: catalogue.system("h100-sxm").domain_capacity / 1e9,
        said("8 x 80 GB; an H200 node of the same generation holds 1,128 GB."),
    ),
    "blackwell-memory": Entry(
        lambda: (
            evaluate("domain-memory", "H", G=72, H_gpu=192e9) / 1e12,
            evaluate("domain-memory", "H", G=72, H_gpu=288e9) / 1e12,
        ),
        lambda: (
            catalogue.system("gb200-nvl72").domain_capacity / 1e12,
            catalogue.system("gb300-nvl72").domain_capacity / 1e12,
        ),
        said("13.8 TB for GB200 and 20.7 TB for GB300, 2 to 3 % less of it usable."),
    ),
    "five-t-fits": Entry(
        lambda: "yes/no" if 5e12 * 0.5 < 72 * 192e9 and 5e12 * 0.5 > 8 * 80e9 else "otherwise",
        _fits_five_trillion,
        said("At one byte per parameter 5 TB leave 15 TB of a GB300 rack for caches; an H200 node has 1.1 TB."),
    ),
    "pipeline-ratio": Entry(
        lambda: evaluate("pipeline-ratio", "rho", r=8, k=8, l_stage=1),
        real.pipeline_ratio,
        said("With fp8 on the way out and r = 9 one layer per stage gives less than 2; two layers pass easily."),
    ),
    "pipeline-kv-cancels": Entry(
        lambda: (
            evaluate("pipeline-memory", "bytes_gpu", N_total=0, w=1, E_width=8, P=8, B_micro=8, L=8192, kv=1)
            / evaluate("pipeline-memory", "bytes_gpu", N_total=0, w=1, E_width=8, P=1, B_micro=8, L=8192, kv=1)
        ),
        lambda: real.pipeline_cache_ratio(8),
        said("Stages hold 1/P of the layers for P times the sequences; exact where P divides the layers."),
    ),
    "pipeline-weights-shrink": Entry(
        lambda: "1/P",
        lambda: "1/P" if abs(real.pipeline_weight_ratio(8) - 1) < 0.03 else f"{real.pipeline_weight_ratio(8):.2f}/P",
        said("Layers divide exactly; embedding and head stay whole on the first and last stage."),
        command="rackmath estimate llama-3.1-70b --on gb200-nvl72 --layout tp8,pp8 --batch 64 --context 8192",
    ),
    "pipeline-latency": Entry(
        lambda: evaluate("pipeline-latency", "t_token", t=20e-3, hops=4, t_hop=2.5e-3) * 1e3,
        lambda: real_training.token_time(20e-3 / 4, 4, real.hop_time()) * 1e3,
        lambda: (
            f"On the wire a hop of 256 tokens takes {real.hop_time() * 1e3:.2f} ms; 2 to 3 ms are software that "
            "schedules and copies, and need not be."
        ),
    ),
    "pipeline-bubble": Entry(
        lambda: evaluate("pipeline-bubble", "bubble", P=4, m=4),
        lambda: real_training.bubble(4, 4),
        said("Exact for all-forward, all-backward with equal stages; 1F1B has the same bubble and less memory."),
    ),
    "trillion-fits": Entry(
        lambda: 1e12 * 1.0 / 1e12,
        lambda: _weights_tb("kimi-k2"),
        said("Kimi K2 has 1.03e12 parameters, at fp8 with scales and a 16-bit head."),
    ),
    "scaleup-bandwidth": Entry(
        lambda: (72 / 8 * 1.5, 72 / 8 * 2),
        lambda: catalogue.system("gb200-nvl72").domain_bandwidth / catalogue.system("h100-sxm").domain_bandwidth,
        said("9 times the accelerators at 2.4 times the bandwidth of an H100; 1.7 times that of an H200."),
    ),
    "memory-capex": Entry(
        lambda: 0.5,
        lambda: _memory_share(),
        said(
            "Published bills: 5 to 10 % of a Blackwell rack at memory prices of 2024 and 2025, 25 to 30 % of a Rubin"
            " rack at those of 2026. Half is not reached by racks alone."
        ),
        command="rackmath lecture racks --on gb200-nvl72,vr200-nvl72",
    ),
}


def _memory_share() -> tuple[float, float]:
    """Smallest and largest part of a rack's price that goes to memory, as published."""
    shares = [share for bill in catalogue.bills().values() for share in bill.memory_share]
    return min(shares), max(shares)
