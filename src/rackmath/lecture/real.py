"""What real models and chips say: the numbers behind the right-hand column of the ledger."""

from __future__ import annotations

from functools import lru_cache
from statistics import median

import numpy as np

from rackmath.engine import Estimate, Layout, Losses, estimate
from rackmath.engine.collectives import all_to_all
from rackmath.engine.layout import candidate_layouts
from rackmath.hardware import System
from rackmath.io import catalogue, constants_file
from rackmath.models.architecture import Architecture
from rackmath.models.cache import kv_bytes_per_token
from rackmath.models.counts import active_params, multiplied_params, total_params
from rackmath.models.formats import cache_format
from rackmath.models.operator import Pass
from rackmath.models.operators import CORES, operators
from rackmath.prices import usd_per_million_tokens
from rackmath.serving.load import Scheduling
from rackmath.serving.modes import STANDARD, Modes, levers, modes
from rackmath.serving.plan import space_of
from rackmath.serving.workload import Limits, PlanWorkload, Space

DEEPSEEK = "deepseek-v3"
RACK = "gb200-nvl72"
CONTEXT = 8192
_LARGE = 20e9
"""Parameters from which a model counts as large in claims about caches. [1]"""

"""Tokens of context in the ledger's own runs. [tokens]"""

FLAGSHIPS = ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "gb300-nvl72", "vr200-nvl72", "mi300x")
LISTED = ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "tpu-v5e", "vr200-nvl72")
"""Parts that the drain-time claim names."""


def ratios(names: tuple[str, ...], precision: str | None = None) -> list[float]:
    """Hardware ratios at ``precision``, by default the narrowest that the chip has. [1]"""
    chips = [catalogue.system(name).chip for name in names]
    return [c.ratio(precision or c.runs_at("fp4")) for c in chips]


def drain_times(names: tuple[str, ...] | None = None) -> list[float]:
    """Drain times; of all shipping accelerators of data centres by default. [s]"""
    systems = [catalogue.system(name) for name in names or catalogue.system_names()]
    if names is None:
        systems = [s for s in systems if s.domain > 1]
    return sorted({s.chip.name: s.chip.drain_time for s in systems}.values())


def drain_median() -> float:
    """Median over the catalogue's data-centre parts. [s]"""
    return median(drain_times())


def sparsity(name: str = DEEPSEEK) -> float:
    """Stored over active parameters. [1]"""
    model = catalogue.model(name)
    return total_params(model) / active_params(model)


def rack() -> System:
    """The rack of the ledger's own runs."""
    return catalogue.system(RACK)


@lru_cache(maxsize=8)
def best_layout(name: str = DEEPSEEK) -> Layout:
    """Layout of one rack with the most tokens per second at a batch of 32 per accelerator."""
    model, system = catalogue.model(name), rack()
    batch = 32 * system.domain
    runs = [(estimate(model, system, x, batch=batch, context=CONTEXT), x) for x in candidate_layouts(model, 72)]
    return min(((e.time, x) for e, x in runs if e.memory.fits), key=lambda pair: pair[0])[1]


def decode(batch: np.ndarray | float, context: float = CONTEXT, name: str = DEEPSEEK) -> Estimate:
    """Decode steps of a model on the rack, at the ideal bound."""
    return estimate(catalogue.model(name), rack(), best_layout(name), batch=batch, context=context)


def cost_curve(batch: np.ndarray) -> np.ndarray:
    """Cost per token against batch on the rack. [USD per million tokens]"""
    step = decode(batch)
    return np.asarray(usd_per_million_tokens(step, rack().price or 1.0))


def batch_one_penalty() -> float:
    """Cost of a token at batch 1 over the least cost of any batch that fits. [1]"""
    batch = np.unique(np.round(np.logspace(0, 5, 400)))
    fits = np.asarray(decode(batch).memory.fits)
    costs = cost_curve(batch)
    return float(costs[0] / costs[fits].min())


def balance_batch() -> float:
    """R times S for DeepSeek-V3 at fp8 on the rack, as the lecture computes it. [sequences]"""
    return rack().chip.ratio("fp8") * sparsity()


BASELINE = (
    "DeepSeek-V3 on a rack of GB200, prompts of 4,000 and answers of 1,000 tokens in one pool, first token within 2 s, "
    f"from the cheapest deployment that writes {STANDARD:g} tokens/s to each user"
)
"""What fast and slow are measured from, here and in ``rackmath lecture modes``."""


_Question = tuple[System, PlanWorkload, Limits, Space, Losses | None, Scheduling]


def _rack_question() -> _Question:
    """The question of ``rackmath lecture modes`` on the rack."""
    model, system = catalogue.model(DEEPSEEK), rack()
    engine = constants_file.engine_of(system, constants_file.DEFAULT_ENGINE, constants_file.NOW)
    return (
        system,
        PlanWorkload(input=4000.0, output=1000.0),
        Limits(time_to_first_token=2.0),
        space_of(model, system, system.domain, pools=False, engine=constants_file.DEFAULT_ENGINE),
        constants_file.losses_of(system, engine, "time per token"),
        constants_file.scheduling_of(engine),
    )


@lru_cache(maxsize=1)
def rack_modes() -> Modes:
    """Fast, standard and slow on the rack."""
    return modes(*_rack_question())


def standard_batch() -> float:
    """Sequences in decode on the whole rack at the standard point. [sequences]"""
    p, place = rack_modes().search.points, rack_modes().standard
    return float(p.batch[place] * p.workers[place] * p.units[place])


def fast_price() -> float:
    """Cost of a token at 2.5 times the standard's speed, over the standard's. [1]"""
    state = rack_modes()
    return float("inf") if state.fast is None else state.ratio(state.fast)[1]


@lru_cache(maxsize=1)
def fast_price_by_batch() -> float:
    """The same with a smaller batch and nothing else. [1]"""
    return next(levers(*_rack_question(), rack_modes())).price


def slow_saving() -> float:
    """Part of the standard's cost that the cost floor is below it. [1]"""
    return rack_modes().saved_by_waiting


def sparse_time_ratio(first: float, second: float, name: str = "deepseek-v3.2") -> float:
    """Cache traffic of sparse attention at one context over that at another. [1]"""
    model = catalogue.model(name)

    def read(context: float) -> float:
        work = Pass(phase="decode", sequences=1.0, new_tokens=1.0, context=context)
        return float(sum(o.count * o.cache_read for o in operators(model, work)))

    return read(second) / read(first)


def goldilocks(name: str = "llama-3.1-70b") -> float:
    """Compute utilisation at twice the balanced context, large batch, attention FLOPs left out. [1]"""
    model, system = catalogue.model(name), catalogue.system("h200-sxm")
    form = model.cache_format
    batch_in_balance = (
        active_params(model)
        * system.chip.memory_bandwidth
        / (system.chip.rate("bf16") / 2 * kv_bytes_per_token(model, form))
    )
    step = estimate(model, system, Layout(tensor=8), batch=1e6, context=2 * batch_in_balance)
    flops = 2 * multiplied_params(model) * 1e6 / (8 * system.chip.rate("bf16"))
    return float(flops / step.time_overlapped)


def crossover(name: str) -> float:
    """Context at which naive attention FLOPs equal weight FLOPs of a prefill's last token. [tokens]"""
    model = catalogue.model(name)

    def attention(context: float) -> float:
        work = Pass(phase="decode", sequences=1.0, new_tokens=1.0, context=context, absorbed=False)
        return float(sum(o.count * o.flops for o in operators(model, work) if o.name in CORES))

    low, high = 1.0, 1e9
    weights = 2 * multiplied_params(model)
    for _ in range(100):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if attention(middle) < weights else (low, middle)
    return high


CROSSOVER_MODELS = ("deepseek-v3", "kimi-k2", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-235b-a22b")
"""Models with attention over the whole context in every layer."""


def crossovers() -> dict[str, float]:
    """Crossover contexts of models whose layers all attend to the whole context. [tokens]"""
    return {name: crossover(name) for name in CROSSOVER_MODELS}


def two_racks() -> float:
    """All-to-all over two racks against one, same bytes per accelerator. [1]"""
    size = 1e9
    return float(all_to_all(size, 144.0, rack()) / all_to_all(size, 72.0, rack()))


def pipeline_cache_ratio(stages: int) -> float:
    """Cache per accelerator with ``stages`` stages over that with one; micro-batch of 8 held. [1]"""
    model, system = catalogue.model("llama-3.1-70b"), rack()

    def cache(p: int) -> float:
        layout = Layout(tensor=8, pipeline=p)
        return float(estimate(model, system, layout, batch=8 * p, context=CONTEXT).memory.cache)

    return cache(stages) / cache(1)


def pipeline_weight_ratio(stages: int) -> float:
    """Layer weights per accelerator with one stage over ``stages`` times those with ``stages``. [1]"""
    model, system = catalogue.model("llama-3.1-70b"), rack()

    def weights(p: int) -> float:
        layout = Layout(tensor=8, pipeline=p)
        return float(estimate(model, system, layout, batch=8 * p, context=CONTEXT).memory.weights)

    return weights(1) / (stages * weights(stages))


def hop_time() -> float:
    """One hop of a micro-batch of 256 tokens of DeepSeek-V3 between two racks. [s]"""
    link = rack().scale_out
    assert link is not None, "the rack has a scale-out network"
    return 256 * 7168 * 2 / link.bandwidth + link.latency


def pipeline_ratio() -> float:
    """Scale-up over scale-out time of one DeepSeek-V3 layer: fp8 out, 16 bit back, against one hop. [1]"""
    ratio = rack().network_ratio
    assert ratio is not None, "the rack has both networks"
    per_token = 8 * 7168 * ((1 + 4 / 128) + 2)
    return per_token / (7168 * 2) / ratio


def cliff_error(name: str, threshold: float) -> float:
    """Cache per token of the model over what its price cliff would imply. [1]"""
    model, chip = catalogue.model(name), rack().chip
    active_estimate = active_params(model) * chip.memory_bandwidth / (chip.rate("fp8") / 2 * threshold)
    return kv_bytes_per_token(model, cache_format("fp8")) / active_estimate


def smallest_caches() -> dict[str, float]:
    """Cache growth per token at fp8 of the catalogue's large models, smallest first. [B/token]"""
    models = {name: catalogue.model(name) for name in catalogue.model_names()}
    large = {name: model for name, model in models.items() if total_params(model) >= _LARGE}
    bytes_of = {name: kv_bytes_per_token(model, cache_format("fp8")) for name, model in large.items()}
    return dict(sorted(((n, v) for n, v in bytes_of.items() if v > 0), key=lambda pair: pair[1]))


def output_input_ratio() -> float:
    """Cost of a decoded over a prefilled token, DeepSeek-V3 on the rack, 4 k in, 32 sequences each. [1]"""
    model, system, layout = catalogue.model(DEEPSEEK), rack(), best_layout()
    out = estimate(model, system, layout, batch=32 * 72, context=CONTEXT)
    into = estimate(model, system, layout, batch=72, context=4096, phase="prefill")
    return float((out.time / out.tokens) / (into.time / into.tokens))


def decode_utilisation() -> float:
    """Compute utilisation of a decode step at 32 sequences per accelerator. [1]"""
    step = decode(32.0 * 72)
    model: Architecture = catalogue.model(DEEPSEEK)
    flops = 2 * multiplied_params(model) * 32 * 72 / 72 / rack().chip.rate("fp8")
    return float(flops / step.time)


def nearest_tier(hold: float) -> str:
    """Tier whose drain time is nearest to a hold time, by ratio."""
    tiers = catalogue.tiers()
    return min(tiers, key=lambda key: abs(np.log(tiers[key].drain_time / hold)))
