"""Write docs/accuracy.md and its picture: how well the engine predicts the public measurements.

    rackmath calibrate ../shared/measured/public.csv --from-scratch --out src/rackmath/data/constants.toml \
        --left-out docs/generated/left_out.csv
    python tools/accuracy.py ../shared/measured/public.csv

Errors are of rows whose group (model on chip, chip, or source) was left out of the fit.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from rackmath import constants_file, tables
from rackmath.validation.baselines import ideal_values, one_efficiency
from rackmath.validation.calibrate import usable
from rackmath.validation.fit import evaluate, fit
from rackmath.validation.left_out import GROUPINGS, folds, weights
from rackmath.validation.priors import priors
from rackmath.validation.questions import Question
from rackmath.validation.ranges import class_of, covered
from rackmath.validation.rows import COLUMNS

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "rackmath"
mpl.rcParams["svg.fonttype"] = "none"
from matplotlib import pyplot as plt  # noqa: E402

ROOT = Path(__file__).parent.parent
LEFT = ROOT / "docs/generated/left_out.csv"
PAGE = ROOT / "docs/accuracy.md"
PICTURE = ROOT / "docs/accuracy.svg"

Array = NDArray[np.float64]

TERMS = {
    "memory stream below peak": ("stream", "stream_expanded"),
    "attention reading its cache": ("cache", "latent"),
    "products below peak": ("matmul", "matmul_byte", "matmul_nibble", "matmul_expanded"),
    "power-limited clocks": ("energy",),
    "grouped products of experts": ("grouped", "expert_rows"),
    "tiles: rows": ("rows",),
    "tiles: narrow matrices": ("side",),
    "attention compute": ("attention", "unfused"),
    "scans of recurrent layers": ("recurrence",),
    "norms, activations, casts between products": ("touches",),
    "kernel launches": ("launch",),
    "host gap": ("host", "host_sequence"),
    "network bandwidth": ("wire", "wire_exchange"),
    "collectives that training does not hide": ("shown",),
    "latency of reductions": ("reduction_latency",),
    "latency of expert exchange": ("exchange_latency",),
    "expert imbalance": ("imbalance",),
    "software of family and year": ("software",),
    "prompts interrupt decode": ("interruption", "lockstep"),
    "queue before the first token": ("queueing", "arrival"),
    "speculation accepted": ("acceptance",),
    "data-parallel exchange of training": ("exposed",),
}

KNOWN = {
    "kind of question": lambda q: (class_of(q),),
    "chip": lambda q: (class_of(q), q.row.hardware),
    "engine": lambda q: (class_of(q), q.row.engine),
    "source": lambda q: (class_of(q), q.row.source),
    "model on chip": lambda q: (class_of(q), q.row.model, q.row.hardware),
    "model on chip with its engine and layout": lambda q: (
        (class_of(q), q.row.model, q.row.hardware, q.row.engine, q.row.parallelism)
    ),
}
"""What could be known of a row, coarse to fine: what the error would be is what the error consists of."""

FEWEST = 4
"""Other rows of a group from which its own factor is read."""

TARGETS = (
    ("decode and mixed, left-out (model, chip)", lambda q: q.row.phase in ("decode", "mixed"), 0.15, 0.45),
    ("prefill, left-out (model, chip)", lambda q: q.row.phase == "prefill", 0.15, None),
    ("training, left-out (model, chip)", lambda q: q.row.phase == "train", 0.10, None),
    (
        "llama.cpp on one GPU, left-out (model, chip)",
        lambda q: q.row.family == "llama.cpp" and q.row.gpus == 1,
        0.12,
        None,
    ),
)


def main() -> None:
    """Read rows and left-out predictions, write the page."""
    table = tables.read_csv(Path(sys.argv[1]), "rows", COLUMNS)
    questions, others = usable(table)
    with LEFT.open(newline="", encoding="utf-8") as lines:
        left = {row["id"]: row for row in csv.DictReader(lines)}
    kept = [q for q in questions if q.row.id in left]
    impossible = [q for q in questions if q.row.id not in left]
    values = {name: np.array([float(left[q.row.id][name]) for q in kept]) for name in GROUPINGS}
    readme(kept, values)
    PAGE.write_text("\n".join(page(kept, values, impossible, others, table)) + "\n", encoding="utf-8")
    scatter(kept, values["model on chip"])


def readme(kept: list[Question], values: dict[str, Array]) -> None:
    """Put the headline numbers into the README."""
    measured = np.array([q.row.value for q in kept], dtype=float)
    pairs = values["model on chip"]
    inside = covered(kept, pairs, folds(kept, "model on chip"))
    size = np.abs(_errors(measured, pairs))

    def median(chosen: Callable[[Question], bool]) -> str:
        return f"{np.median(size[np.array([bool(chosen(q)) for q in kept])]):.0%}"

    per_token = median(lambda q: q.quantity == "tpot")
    rate = median(lambda q: q.quantity in ("output", "total"))
    training, single = median(lambda q: q.kind == "train"), median(lambda q: q.kind == "decode")
    prompts = median(lambda q: q.row.phase == "prefill")
    text = (
        f"On {len(kept):,} published measurements, each predicted\n"
        f"  by constants that never saw its model on its chip, the median error is {np.median(size):.0%}: time per\n"
        f"  token of a service {per_token}, throughput {rate}, training {training}, single decode passes {single},\n"
        f"  prompts {prompts}; {inside.mean():.0%} lie in their 90 % range (`python tools/accuracy.py\n"
        "  ../shared/measured/public.csv`)."
    )
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    start, end = old.index("<!-- accuracy -->") + len("<!-- accuracy -->"), old.index("<!-- /accuracy -->")
    path.write_text(old[:start] + text + old[end:], encoding="utf-8")


def page(
    kept: list[Question],
    values: dict[str, Array],
    impossible: list[Question],
    others: list[tuple[str, str]],
    table: Sequence[Mapping[str, str]],
) -> Iterator[str]:
    """Lines of the page."""
    measured = np.array([q.row.value for q in kept], dtype=float)
    constants = constants_file.constants()
    fitted = evaluate(kept, constants)[0]
    ideal = ideal_values(kept)
    pairs = values["model on chip"]
    inside = {name: covered(kept, v, folds(kept, name)) for name, v in values.items()}
    yield "# How accurate the predictions are"
    yield ""
    yield "Generated by `python tools/accuracy.py ../shared/measured/public.csv`, from the left-out predictions that"
    yield "`rackmath calibrate ../shared/measured/public.csv --from-scratch --out src/rackmath/data/constants.toml"
    yield "--left-out docs/generated/left_out.csv` wrote. Error is predicted over measured, less one; its absolute"
    yield "value is summarised. Unless a table says otherwise, each row was predicted by constants that never saw its"
    yield "(model, chip) pair."
    yield ""
    yield f"Of {len(table):,} published rows {len(kept):,} are used, {len(impossible)} are excluded as impossible and"
    yield f"{len(others):,} are declined (listed below). {len(priors())} constants are fitted, none tied to a model."
    yield ""
    yield "![Predicted against measured](accuracy.svg)"
    yield ""
    yield "## Against the targets"
    yield ""
    yield from _targets(kept, measured, pairs, inside, _share(table, others))
    yield ""
    yield "## By what is left out"
    yield ""
    yield "| | rows | median | p90 | bias | inside the 90 % range |"
    yield "|---|---|---|---|---|---|"
    yield _line("nothing (fitted rows)", measured, fitted, None)
    for name, found in values.items():
        yield _line(f"{name}", measured, found, inside[name])
    yield _line("plain roofline, nothing fitted", measured, ideal, None)
    yield _line("roofline with one efficiency", measured, one_efficiency(kept, ideal), None)
    for title, key in (
        ("class of question", class_of),
        ("phase", lambda q: q.row.phase),
        ("chip", lambda q: q.row.hardware),
        ("model", lambda q: q.row.model),
        ("engine", lambda q: q.row.family),
        ("weights", lambda q: q.row.weights or "not stated"),
        ("confidence", lambda q: q.row.confidence),
        ("source", lambda q: re.split(r"[:@]", q.row.source)[0]),
    ):
        yield ""
        yield f"## By {title}"
        yield ""
        yield f"| {title} | rows | median | p90 | bias | inside |"
        yield "|---|---|---|---|---|---|"
        yield from _groups(kept, key, measured, pairs, inside["model on chip"])
    yield ""
    yield from _remaining(kept, measured, pairs)
    yield ""
    yield from _ablation(kept, measured, fitted)
    yield ""
    yield from _worst(kept, measured, pairs)
    yield ""
    yield from _profile(kept, measured, fitted, pairs)
    yield ""
    yield from _excluded(impossible, others)


def _errors(measured: Array, found: Array) -> Array:
    return found / measured - 1


def _line(name: str, measured: Array, found: Array, inside: Array | None) -> str:
    e = _errors(measured, found)
    size = np.abs(e)
    cover = "" if inside is None else f"{inside.mean():.0%}"
    middle, tail = np.median(size), np.quantile(size, 0.9)
    return f"| {name} | {len(e):,} | {middle:.1%} | {tail:.0%} | {np.median(e):+.1%} | {cover} |"


def _groups(
    kept: Sequence[Question], key: Callable[[Question], str], measured: Array, found: Array, inside: Array
) -> Iterator[str]:
    names = np.array([key(q) for q in kept])
    for name, _ in Counter(names.tolist()).most_common(40):
        part = names == name
        yield _line(name.replace("|", "/"), measured[part], found[part], inside[part])


def _targets(
    kept: Sequence[Question], measured: Array, pairs: Array, inside: dict[str, Array], share: tuple[float, float]
) -> Iterator[str]:
    yield "| what | target | reached |"
    yield "|---|---|---|"
    size = np.abs(_errors(measured, pairs))
    for name, chosen, median, p90 in TARGETS:
        part = np.array([bool(chosen(q)) for q in kept])
        wanted = f"median {median:.0%}" + (f", p90 {p90:.0%}" if p90 else "")
        yield (
            f"| {name} | {wanted} | median {np.median(size[part]):.1%}, p90 {np.quantile(size[part], 0.9):.1%}"
            f" ({part.sum():,} rows) |"
        )
    for name, found in inside.items():
        yield f"| 90 % ranges, left-out {name} | 85 to 95 % | {found.mean():.1%} |"
    yield f"| rows of confidence high or medium that are not declined | 90 % | {share[0]:.1%} |"
    yield f"| the same without times to train, which depend on samples that rows do not state | | {share[1]:.1%} |"


def _share(table: Sequence[Mapping[str, str]], others: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Part of the rows of confidence high or medium that is not declined: of all, and of all but times to train."""
    declined = {name for name, _ in others}
    trusted = [row for row in table if row["confidence"] in ("high", "medium")]
    speeds = [row for row in trusted if row["metric"] != "time_to_train"]
    of_all, of_speeds = (sum(row["id"] not in declined for row in rows) / len(rows) for rows in (trusted, speeds))
    return of_all, of_speeds


def _remaining(kept: Sequence[Question], measured: Array, found: Array) -> Iterator[str]:
    yield "## What the remaining error consists of"
    yield ""
    yield "Median error, were the common factor of each group known: every row is corrected by the median error of the"
    yield f"others of its group, where there are at least {FEWEST}. What a coarse group removes is a bias of the"
    yield "engine; what only a fine group removes is software and set-up that rows do not state; what stays is scatter"
    yield "and the shape of curves."
    yield ""
    parts = {name: np.array([bool(chosen(q)) for q in kept]) for name, chosen, _, _ in TARGETS}
    yield "| known beside the row | " + " | ".join(name.split(",")[0] for name in parts) + " |"
    yield "|---|" + "---|" * len(parts)
    error = np.log(found / measured)
    for name, key in {"nothing": None, **KNOWN}.items():
        left = error if key is None else error - _common(error, [key(q) for q in kept])
        size = np.abs(np.expm1(left))
        cells = (f"{np.median(size[part]):.1%}, p90 {np.quantile(size[part], 0.9):.0%}" for part in parts.values())
        yield f"| {name} | " + " | ".join(cells) + " |"


def _common(error: Array, groups: Sequence[tuple[str, ...]]) -> Array:
    """Median error of the other rows of each row's group; 0 where they are too few."""
    members: dict[tuple[str, ...], list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    common = np.zeros_like(error)
    for rows in members.values():
        if len(rows) > FEWEST:
            for place, i in enumerate(rows):
                common[i] = np.median(np.delete(error[rows], place))
    return common


def _ablation(kept: list[Question], measured: Array, fitted: Array) -> Iterator[str]:
    yield "## What each term is worth"
    yield ""
    yield "The term is taken out, all other constants are fitted anew, and the fitted rows are scored again."
    yield ""
    yield "| without | median | p90 | rows that it moves by over 10 % |"
    yield "|---|---|---|---|"
    base = np.abs(_errors(measured, fitted))
    yield f"| nothing | {np.median(base):.1%} | {np.quantile(base, 0.9):.0%} | |"
    with ProcessPoolExecutor(2) as pool:
        for name, found in zip(TERMS, pool.map(_without, [(kept, names) for names in TERMS.values()]), strict=True):
            size = np.abs(_errors(measured, found))
            moved = np.mean(np.abs(np.log(found / fitted)) > 0.1)
            yield f"| {name} | {np.median(size):.1%} | {np.quantile(size, 0.9):.0%} | {moved:.0%} |"


def _without(job: tuple[list[Question], tuple[str, ...]]) -> Array:
    kept, names = job
    left = [p for p in priors() if p.name not in names]
    done = fit(kept, weights(kept), left, constants_file.constants(), rounds=1, iterations=4)
    return evaluate(kept, done.constants)[0]


def _worst(kept: Sequence[Question], measured: Array, found: Array) -> Iterator[str]:
    yield "## The 20 worst rows"
    yield ""
    yield "| id | row | measured | predicted | what the row says |"
    yield "|---|---|---|---|---|"
    order = np.argsort(-np.abs(np.log(found / measured)))[:20]
    for i in order:
        q = kept[i]
        what = f"{q.row.model} on {q.row.gpus} x {q.row.hardware}, {q.row.metric}, {q.row.engine[:24]}"
        notes = q.row.notes.replace("|", "/")[:110]
        yield f"| {q.row.id} | {what} | {measured[i]:.4g} {q.row.unit} | {found[i]:.4g} | {notes} |"


def _profile(kept: Sequence[Question], measured: Array, fitted: Array, pairs: Array) -> Iterator[str]:
    yield "## DeepSeek-V3 on H800"
    yield ""
    yield "| row | parallelism | measured | fitted | left out |"
    yield "|---|---|---|---|---|"
    for i, q in enumerate(kept):
        if q.row.hardware == "H800-SXM":
            yield (
                f"| {q.row.id} {q.row.metric} per {q.row.per} | {q.row.parallelism} | {measured[i]:,.0f} |"
                f" {fitted[i]:,.0f} ({fitted[i] / measured[i] - 1:+.0%}) | {pairs[i]:,.0f} |"
            )


def _excluded(impossible: Sequence[Question], others: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield "## Rows that are not used"
    yield ""
    yield "Rule: a row whose value beats the ideal bound of its own configuration by more than 10 % is mislabelled or"
    yield "leaves out what made it fast (most often a smaller running batch than the concurrency it states)."
    yield ""
    yield "| id | row | value |"
    yield "|---|---|---|"
    for q in impossible:
        what = f"{q.row.model} on {q.row.gpus} x {q.row.hardware}, {q.row.metric}, {q.row.parallelism}"
        yield f"| {q.row.id} | {what.replace('|', '/')} | {q.row.value:g} {q.row.unit} |"
    yield ""
    yield "Declined, by reason:"
    yield ""
    yield "| rows | reason (numbers replaced by N) |"
    yield "|---|---|"
    reasons = Counter(re.sub(r"\d+(\.\d+)?", "N", reason)[:150] for _, reason in others)
    for reason, count in reasons.most_common(25):
        yield f"| {count} | {reason.replace('|', '/')} |"


def scatter(kept: Sequence[Question], found: Array) -> None:
    """Draw predicted against measured, as time or rate over the median of its class."""
    measured = np.array([q.row.value for q in kept], dtype=float)
    names = np.array([class_of(q) for q in kept])
    figure, axes = plt.subplots(2, 4, figsize=(12, 6), constrained_layout=True)
    for axis, name in zip(axes.flat, sorted(set(names.tolist())), strict=False):
        part = names == name
        x, y = measured[part], found[part]
        low, high = min(x.min(), y.min()), max(x.max(), y.max())
        line = np.array([low, high])
        axis.fill_between(line, line / 1.5, line * 1.5, color="0.9", linewidth=0)
        axis.plot(line, line, color="0.4", linewidth=0.8)
        axis.plot(x, y, ".", markersize=2.5, color="#1f5f99", alpha=0.5, rasterized=True)
        axis.set(xscale="log", yscale="log", title=f"{name} ({part.sum():,})")
        axis.tick_params(labelsize=7)
    for axis in axes.flat[len(set(names.tolist())) :]:
        axis.set_visible(False)
    figure.supxlabel("measured, in the row's own unit (grey: within a factor of 1.5)")
    figure.supylabel("predicted, its (model, chip) pair left out")
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
