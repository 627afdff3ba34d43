"""Fit the market's constants on open-weight models, and score them on architectures left out.

python tools/prices.py ../shared             # 20 s
python tools/prices.py ../shared --pooled    # half a minute, needs the extra bayes

The first writes src/rackmath/data/market.toml and docs/accuracy-of-prices.md, the second docs/pooled-prices.md.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from rackmath.io import catalogue, price_files
from rackmath.models.counts import multiplied_params
from rackmath.models.operator import Pass
from rackmath.models.operators import CORES, operators
from rackmath.prices.calibration import KnownModel, fit_market, metered_ratios
from rackmath.prices.decode import DecodedPrice, Interval, decode
from rackmath.prices.market import Market
from rackmath.prices.pooled import SharedPosterior, fit_pooled
from rackmath.validation.rows import read_row

ROOT = Path(__file__).parent.parent
YEAR = 2026.88
"""When the prices were collected: November 2026."""


def main() -> None:
    """Fit, score, write."""
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--pooled"]):
        sys.exit(__doc__)
    shared = Path(sys.argv[1])
    known = price_files.known_models(shared / "prices/open_weight_prices.csv")
    if sys.argv[2:]:
        page = pooled_page(fit_pooled(known), price_files.market(), len(known))
        (ROOT / "docs/pooled-prices.md").write_text(page, encoding="utf-8")
        return
    rows = measured(shared / "measured/rows.csv")
    speeds, cells = measured_speeds(rows), measured_cells(rows)
    streams = [off for name, _ in sorted({key for cell in cells for key in cell}) if (off := stream_of(name, cells)[1])]
    basis = f"{sum(len(one.offers) for one in known)} offers of {len(known)} open-weight models"
    pairs = list(speeds.values())
    contexts = sorted({attention_context(name) for name in catalogue.model_names()} - {0.0})
    lines = ["# How open-weight models are priced. Generated; do not edit. Command: python tools/prices.py ../shared"]
    lines += price_files.market_lines(fit_market(known, YEAR, basis, pairs, contexts, streams))
    (ROOT / "src/rackmath/data/market.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found: dict[str, tuple[DecodedPrice, DecodedPrice | None, DecodedPrice | None]] = {}
    for group in sorted({one.group for one in known}):
        rest = [one for one in known if one.group != group]
        out = fit_market(rest, YEAR, basis, pairs, contexts, streams)
        for one in known:
            if one.group == group:
                speed = speeds.get(one.model.lower())
                fast = decode(one.offers, out, speed=speed[1]) if speed else None
                kin = {other.model.lower() for other in known if other.group == group}
                flow, _, own = stream_of(one.model.lower(), cells, kin)
                both = decode(one.offers, out, speed=own, stream=flow) if flow and own else None
                found[one.model] = decode(one.offers, out), fast, both
    (ROOT / "docs/accuracy-of-prices.md").write_text(report(known, found, basis), encoding="utf-8")


class Measured(NamedTuple):
    """One measured time per token of a running service, as tokens per second of a reader."""

    model: str
    active: float
    """Billions of parameters."""
    hardware: str
    """Accelerators and their number."""
    load: float
    speed: float


def measured(path: Path) -> list[Measured]:
    """Times per token at 16 to 256 requests at a time; none with drafts, none inconsistent."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(cells, read_row(cells, line)) for line, cells in enumerate(csv.DictReader(file), start=2)]
    return [
        Measured(
            row.model.lower().rpartition("/")[2],
            float(cells["active_params_b"]),
            f"{row.gpus} {row.hardware}",
            row.load,
            1 / row.value,
        )
        for cells, row in rows
        if row.metric == "tpot"
        and row.statistic in ("mean", "p50")
        and row.speculative in ("", "none")
        and row.confidence != "low"
        and not row.flag("inconsistent")
        and not row.flag("speculation_unlabelled")
        and cells["active_params_b"]
        and row.value
        and row.load
        and 16 <= row.load <= 256
    ]


def measured_speeds(rows: list[Measured]) -> dict[str, tuple[float, float]]:
    """Active parameters in billions and median tokens per second per model."""
    seen: dict[str, list[Measured]] = defaultdict(list)
    for row in rows:
        seen[row.model].append(row)
    return {name: (own[0].active, median(row.speed for row in own)) for name, own in seen.items()}


Cell = dict[tuple[str, float], list[float]]
"""Tokens per second of models with their active parameters in billions, on one chip at loads within a factor of two."""


def measured_cells(rows: list[Measured]) -> list[Cell]:
    """Measured speeds by chip and load."""
    cells: dict[tuple[str, int], Cell] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row.hardware, int(np.log2(row.load))][row.model, row.active].append(row.speed)
    return list(cells.values())


def stream_of(model: str, cells: list[Cell], kin: set[str] = frozenset()) -> tuple[float, float, float]:
    """What others stream where a model was measured, how it differs in ln, and its own speed; 0 without others."""
    seen: list[tuple[float, float, float]] = []
    for cell in cells:
        own = [(size, median(values)) for (name, size), values in cell.items() if name == model]
        others = [size * median(v) for (name, size), v in cell.items() if name != model and name not in kin]
        if own and others:
            seen.append((np.log(own[0][0] * own[0][1] / median(others)), own[0][1], median(others)))
    if not seen:
        return 0.0, 0.0, 0.0
    speed = float(np.exp(np.median([np.log(one) for _, one, _ in seen])))
    ratio = np.median([np.log(one / other) for _, one, other in seen])
    return float(speed / np.exp(ratio) * 1e9), float(np.median([off for off, _, _ in seen])), speed


def attention_context(name: str) -> float:
    """Context at which attention, as it grows at 100,000 tokens, takes as many FLOPs as the weights; 0 for none."""
    model = catalogue.model(name)

    def flops(context: float) -> float:
        work = Pass(phase="prefill", sequences=1.0, new_tokens=1.0, context=context)
        return sum(float(np.sum(o.count * o.flops)) for o in operators(model, work) if o.name in CORES)

    slope = (flops(2e5) - flops(1e5)) / 1e5
    return round(2 * multiplied_params(model, head=False) / slope) if slope else 0.0


def report(
    known: list[KnownModel], found: dict[str, tuple[DecodedPrice, DecodedPrice | None, DecodedPrice | None]], basis: str
) -> str:
    """The page of the documents."""
    weights = np.array([1 / sum(other.group == one.group for other in known) for one in known])
    logs = np.array([_middle(one) for one in known])
    lines = [
        "# Accuracy of decoded prices",
        "",
        "Generated by `python tools/prices.py ../shared`; do not edit.",
        "",
        f"`rackmath prices decode` on {basis}, each architecture group left out of the fit. `baseline`: a straight",
        "line through the logarithms of both prices, fitted on the same groups. `no price`: the mean of the others.",
        "Errors are root mean squares of natural logarithms; 0.69 is a factor of two.",
        "",
        "| quantity | error | baseline | no price | in 50 % range | in 90 % range | by group: error | 50 % | 90 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, field, truths in (
        ("active parameters", "active_params", [one.active * 1e9 for one in known]),
        ("total parameters", "total_params", [one.total * 1e9 for one in known]),
        ("KV bytes per token (the prior)", "kv_bytes_per_token", [one.cache for one in known]),
    ):
        ranges: list[Interval] = [getattr(found[one.model][0], field) for one in known]
        truth = np.array(truths)
        error = np.array([np.log(one.median / value) for one, value in zip(ranges, truths, strict=True)])
        half = np.array([one.low50 <= v <= one.high50 for one, v in zip(ranges, truths, strict=True)])
        most = np.array([one.low90 <= v <= one.high90 for one, v in zip(ranges, truths, strict=True)])
        line, mean = _baseline(known, logs, np.log(truth))
        lines.append(
            f"| {label} | {_rms(error):.2f} | {line:.2f} | {mean:.2f} | {half.mean():.0%} | {most.mean():.0%} | "
            f"{np.sqrt(np.average(error**2, weights=weights)):.2f} | {np.average(half, weights=weights):.0%} | "
            f"{np.average(most, weights=weights):.0%} |"
        )
    kinds = [
        found[one.model][0].dense if one.total < 1.05 * one.active else 1 - found[one.model][0].dense for one in known
    ]
    likely = np.exp(np.average(np.log(kinds), weights=weights))
    lines += [
        "",
        f"Dense or sparse: the true kind had probability {likely:.2f} in the geometric mean of the groups.",
        "",
        "With a measured speed (benchmark runs of the public table, on many chips), and with what other architectures",
        "stream on the same chips at like loads as well (`--speed`, `--stream`); errors without and with:",
        "",
        "| given | models | active parameters | total parameters |",
        "|---|---|---|---|",
    ]
    for label, place in (("speed", 1), ("speed and stream", 2)):
        both = [(one, found[one.model][0], found[one.model][place]) for one in known if found[one.model][place]]
        cells = []
        for field, size in (("active_params", "active"), ("total_params", "total")):
            errors = [
                [np.log(getattr(two, field).median / (getattr(one, size) * 1e9)) for two in (plain, fast)]
                for one, plain, fast in both
            ]
            plain, fast = np.array(errors).T
            cells.append(f"{_rms(plain):.2f}, {_rms(fast):.2f}")
        lines.append(f"| {label} | {len(both)} | {cells[0]} | {cells[1]} |")
    lines += ratio_lines(known)
    lines += ["", "## Models, left out", ""]
    lines += ["| model | active, B | decoded (90 %) | total, B | decoded (90 %) | dense |", "|---|---|---|---|---|---|"]
    for one in sorted(known, key=lambda one: one.model.lower()):
        said = found[one.model][0]
        lines.append(
            f"| {one.model} | {one.active:.3g} | {_range(said.active_params)} | {one.total:.4g} | "
            f"{_range(said.total_params)} | {said.dense:.0%} |"
        )
    return "\n".join(lines) + "\n"


def ratio_lines(known: list[KnownModel]) -> list[str]:
    """Output over input of dense and of sparse models, where pages meter the two apart, and how many do not."""
    lines = [
        "",
        "## Output over input",
        "",
        "Of each model the median over its different offers, on pages with two prices; and the part of offers on pages",
        "with one price for both kinds of tokens. `decode` takes no size from it.",
        "",
        "| models | number | median | smallest | largest | one price for both |",
        "|---|---|---|---|---|---|",
    ]
    for label, dense in (("dense", True), ("sparse", False)):
        kind = [one for one in known if (one.total < 1.05 * one.active) == dense]
        ratios = [np.exp(np.median(own)) for one in kind if len(own := metered_ratios(one))]
        offers = sum(len({(offer.input, offer.output) for offer in one.offers}) for one in kind)
        flat = 1 - sum(len(metered_ratios(one)) for one in kind) / offers
        lines.append(
            f"| {label} | {len(kind)} | {np.median(ratios):.1f} | {min(ratios):.1f} | {max(ratios):.1f} | {flat:.0%} |"
        )
    return lines


def pooled_page(found: SharedPosterior, market: Market, models: int) -> str:
    """The page of the pooled calibration, beside the default one."""
    beside = {
        "level": np.exp(market.level),
        "economy": market.economy,
        "chunk": np.exp(market.chunk),
        "batch": np.exp(market.batch),
        "model_misfit": market.level_scale,
        "batch_spread": market.batch_scale,
        "host_effect": market.hosts.scale,
        "offer_spread": market.hosts.offer_scale,
    }
    words = {
        "level": "input price of a dense model of a billion parameters, $",
        "economy": "price goes with size to 1 minus this",
        "chunk": "tokens of a prompt per read of the weights",
        "batch": "sequences per read of the weights",
        "model_misfit": "spread of models' levels, ln",
        "ratio_misfit": "spread of output over input beyond sparsity, ln",
        "batch_spread": "spread of models' batches, ln",
        "host_effect": "spread of hosts' levels, ln",
        "offer_spread": "spread of single offers beyond both, ln",
        "copying": "chance that another host copies the list price",
    }
    lines = [
        "# Pooled calibration of prices",
        "",
        "Generated by `python tools/prices.py ../shared --pooled`; do not edit.",
        "",
        f"NumPyro on {models} open-weight models at {len(found.hosts)} hosts: every model its misfit, every host its",
        "effect, copies of list prices a chance of their own, prices known to their rounding cell. Beside it the",
        "constants of the default, which reads sizes from input prices alone and needs NumPy only.",
        f"Divergences {found.divergences}; {found.effective_draws:,.0f} effective draws of the worst quantity.",
        "",
        "| quantity | median | 90 % | default |",
        "|---|---|---|---|",
    ]
    for name, span in found.quantities.items():
        other = f"{beside[name]:.3g}" if name in beside else ""
        lines.append(f"| {words[name]} | {span.median:.3g} | {span.low90:.3g} to {span.high90:.3g} | {other} |")
    together = np.hypot(found.quantities["host_effect"].median, found.quantities["offer_spread"].median)
    lines += [
        "",
        f"One model's price between hosts: {together:.2f} in ln by hosts and offers together; the default has",
        f"{np.hypot(market.hosts.scale, market.hosts.offer_scale):.2f} over different prices.",
        "",
        "| host | factor on a model's price |",
        "|---|---|",
    ]
    lines += [f"| {host} | {factor:.2f} |" for host, factor in sorted(found.hosts.items(), key=lambda one: one[1])]
    return "\n".join(lines) + "\n"


def _middle(one: KnownModel) -> list[float]:
    pairs = {(offer.input, offer.output) for offer in one.offers}
    return [1.0, *(float(np.median([np.log(pair[side] or np.nan) for pair in pairs])) for side in (0, 1))]


def _baseline(known: list[KnownModel], logs: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Error of a straight line through the prices, and of the mean, on groups left out."""
    groups = np.array([one.group for one in known])
    line, mean = np.empty(len(truth)), np.empty(len(truth))
    for group in set(groups):
        out = groups == group
        line[out] = logs[out] @ np.linalg.lstsq(logs[~out], truth[~out], rcond=None)[0]
        mean[out] = truth[~out].mean()
    return _rms(line - truth), _rms(mean - truth)


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _range(one: Interval) -> str:
    return f"{one.median / 1e9:.3g} ({one.low90 / 1e9:.3g} to {one.high90 / 1e9:.3g})"


if __name__ == "__main__":
    main()
