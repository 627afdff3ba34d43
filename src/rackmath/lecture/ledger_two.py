"""Claims of chapters 4 to 6: training, prices, ciphers and networks."""

from __future__ import annotations

from rackmath.io import catalogue
from rackmath.lecture import ciphers, real, real_training
from rackmath.lecture.entry import Entry, said
from rackmath.lecture.solve import evaluate

_TWO_MONTHS = 60 * 86_400.0


def _token_ratios(eff: float) -> tuple[float, float]:
    """Smallest and largest of RL and inference tokens over pre-training tokens at equal compute."""
    rl = [6 * eff / a for a in (2, 6)]
    inference = [3 * eff, 3 * 1.0]
    return min(rl + inference), max(rl + inference)


def _attention_span() -> tuple[float, float]:
    values = real.crossovers().values()
    return min(values), max(values)


def _float_error() -> float:
    """Largest error of (x, y) -> (x, y + f(x)) and back in 64-bit floats, relative to the values."""
    import numpy as np

    random = np.random.default_rng(6)
    x, y = random.standard_normal((2, 10_000))
    shift = np.tanh(3 * x) * 5
    return float(np.abs(((y + shift) - shift) - y).max())


ENTRIES: dict[str, Entry] = {
    "equal-costs": Entry(
        lambda: evaluate("power-optimum", "falling", p_exp=1, q_exp=1, rising=1),
        real_training.inference_over_pretraining,
        lambda: (
            "Equal only for equal exponents. Under the Chinchilla refit inference costs x^beta - 1 times pre-training "
            "at the optimum, x the over-training: {:.1f} at 10x, {:.1f} at 100x, equal at {:.1f}x.".format(
                *real_training.inference_over_pretraining(), real_training.overtraining_of_equal_costs()
            )
        ),
        command="rackmath train budget --law besiroglu --loss 2 --inference-tokens 1e13",
    ),
    "tokens-equal": Entry(
        lambda: _token_ratios(0.3),
        lambda: _token_ratios(real.decode_utilisation()),
        lambda: (
            f"Decode of DeepSeek-V3 with 32 sequences per GPU at 8 k uses {real.decode_utilisation():.0%} of the "
            "compute even at the ideal bound, so equal costs buy fewer tokens than 0.3 suggests."
        ),
        command="rackmath estimate deepseek-v3 --on gb200-nvl72 --gpus 72 --batch 2304 --context 8192 --ideal",
    ),
    "tokens-two-months": Entry(
        lambda: evaluate("served-tokens", "N_tokens", rate_served=5e8, lifetime=_TWO_MONTHS),
        lambda: evaluate("served-tokens", "N_tokens", rate_served=5e8, lifetime=_TWO_MONTHS),
        said("Arithmetic; the rate is what providers report for all their models together."),
    ),
    "tokens-one-model": Entry(
        lambda: evaluate("served-tokens", "N_tokens", rate_served=5e7, lifetime=_TWO_MONTHS),
        lambda: evaluate("served-tokens", "N_tokens", rate_served=5e7, lifetime=_TWO_MONTHS),
        said("Arithmetic: 2.6e14, which the lecture rounds to 200 T; input tokens included."),
    ),
    "chinchilla-tokens": Entry(
        lambda: evaluate("chinchilla", "D_pre", N_active=1e11),
        lambda: real_training.tokens_at_optimum(1e11),
        lambda: (
            f"The corrected fit asks for {real_training.tokens_at_optimum(1e11) / 1e11:.0f} tokens per parameter at "
            "100 B, not 20."
        ),
    ),
    "overtrained": Entry(
        lambda: (
            evaluate("over-training", "x_over", D_pre=1.5e14, N_active=1e11),
            evaluate("over-training", "x_over", D_pre=2e14, N_active=1e11),
        ),
        real_training.overtraining,
        lambda: (
            "Published budgets run from {:.1g}x to {:.0f}x; flagship mixtures lie at 20x to 35x, small models near "
            "100x (`rackmath train budget --published-models`).".format(*real_training.overtraining())
        ),
        command="rackmath train budget --published-models",
    ),
    "kv-from-cliff": Entry(
        lambda: evaluate("context-cliff", "kv", N_active=1e11, w=1, R=300, L=200_000),
        lambda: (
            evaluate("context-cliff", "kv", N_active=1e11, w=1, R=300, L=200_000)
            * real.cliff_error("qwen3-coder-480b", 32_768)
        ),
        lambda: (
            "Where architecture and cliff are public the rule fails: Qwen3-Coder-480B steps at 32 k and keeps "
            f"{real.cliff_error('qwen3-coder-480b', 32_768):.0f} times the cache that this implies; a tier is chosen."
        ),
        command="rackmath model qwen3-coder-480b --kv fp8",
    ),
    "kv-plausible": Entry(
        lambda: evaluate("kv-heads", "kv", heads_kv=8, d_head=128, layers_kv=1, w_kv=1),
        lambda: min(real.smallest_caches().values()),
        lambda: (
            "Smallest caches of the catalogue at fp8: "
            + ", ".join(f"{name} {value:,.0f} B" for name, value in list(real.smallest_caches().items())[:3])
            + " per token; large models come close by compression, not by sharing one layer."
        ),
    ),
    "output-input": Entry(
        lambda: evaluate("output-input", "ratio_out", t_memory=5, t_compute=1),
        real.output_input_ratio,
        said("Ideal cost of a decoded over a prefilled token, DeepSeek-V3 on GB200; prices average over more."),
    ),
    "attention-millions": Entry(
        lambda: evaluate("attention-crossover", "L_cross", N_active=1e11, a_flops=2e5),
        _attention_span,
        lambda: (
            "Attention FLOPs equal weight FLOPs at "
            + ", ".join(
                f"{value / 1e3:.0f} k ({name})" for name, value in sorted(real.crossovers().items(), key=lambda i: i[1])
            )
            + ", not at millions."
        ),
        command="rackmath model llama-3.1-70b",
    ),
    "cache-hit": Entry(
        lambda: 0.1,
        lambda: (0.02, 0.1),
        said(
            "Price pages of November 2026 show 0.1 at most providers, 0.05 and 0.025 at some, 0.02 to 0.07 at DeepSeek."
        ),
        command="rackmath prices page",
    ),
    "tier-hbm": Entry(
        lambda: evaluate("drain-time", "t_drain", H=80e9, M=3.35e12) * 1e3,
        lambda: real.drain_times(("h100-sxm",))[0] * 1e3,
        said("H100: 80 GB at 3.35 TB/s."),
    ),
    "tier-ddr": Entry(
        lambda: (1.0, 10.0),
        lambda: catalogue.tiers()["ddr5"].drain_time,
        said("One socket with 12 channels and 768 GB; fuller sockets take longer."),
    ),
    "tier-flash": Entry(
        lambda: 60.0,
        lambda: catalogue.tiers()["nvme-tlc"].drain_time,
        said("A 7.68 TB drive at 14 GB/s drains in nine minutes; a minute was true of sub-terabyte drives."),
        command="rackmath systems",
    ),
    "tier-disk": Entry(
        lambda: 3600.0,
        lambda: catalogue.tiers()["disk"].drain_time,
        said("30 TB at 0.28 GB/s take 30 hours: capacity grew, heads did not."),
        command="rackmath systems",
    ),
    "tier-match": Entry(
        lambda: "flash; disk",
        lambda: f"{real.nearest_tier(300)}; {real.nearest_tier(3600)}",
        said("By drain time 5 minutes is a TLC drive and one hour a large QLC drive; disk is for a day."),
        command="rackmath lecture cache deepseek-v3 --on h200-sxm",
    ),
    "context-wall": Entry(
        lambda: evaluate("context-bytes", "bytes_seq", kv=2000, L=1e8),
        lambda: 1e8 * min(real.smallest_caches().values()),
        lambda: (
            "The smallest cache of the catalogue needs "
            f"{1e8 * min(real.smallest_caches().values()) / 1e12:.2f} TB for one such sequence, DeepSeek-V3 3.5 TB: "
            "a rack holds it, for a handful of users."
        ),
        command="rackmath models",
    ),
    "feistel-inverts": Entry(
        lambda: float(ciphers.reconstruction_error()),
        lambda: float(ciphers.reconstruction_error()),
        lambda: (
            f"Exact in integers for a round function without inverse; in 64-bit floats it errs by {_float_error():.0e}."
        ),
    ),
    "revnet-memory": Entry(
        lambda: "constant",
        real_training.reversible_growth,
        said(
            "By construction: a block's input follows from its output. `rackmath lab revnet` measures it: to the byte "
            "the same peak at 4 and at 32 layers."
        ),
    ),
    "revnet-compute": Entry(
        lambda: evaluate("reversible-compute", "ratio_rev", units_fwd=1, units_bwd=2),
        real_training.reversible_compute,
        said("Forward 1, backward 2, and one forward more; per-block checkpoints pay the same and are simpler."),
    ),
    "avalanche": Entry(
        lambda: 0.5,
        lambda: ciphers.avalanche(),
        lambda: (
            f"16 Feistel rounds flip {ciphers.avalanche():.1%} of the bits, 2 rounds {ciphers.avalanche(2):.1%}; XTEA "
            "by round in `rackmath lab feistel`."
        ),
    ),
}
