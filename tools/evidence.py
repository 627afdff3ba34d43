r"""Write the table of published measurements, and learn the process over their residuals.

    python tools/evidence.py ../shared/measured/rows.csv CACHE              # constants first, if CACHE is empty
    python tools/evidence.py ../shared/measured/rows.csv CACHE --scores     # ranges and scores alone, 1 min

Writes src/rackmath/data/evidence.parquet, src/rackmath/data/evidence.toml and docs/accuracy-of-evidence.md. CACHE is a
folder for values of all rows by constants that never saw a fold; where it has none, the constants and
docs/generated/left_out.csv are fitted and written first, by what `rackmath calibrate --from-scratch --left-out` runs:
the same fits without a fold serve both. Hyperparameters are learned on groups left out as a whole (a source, a model
on a chip, a configuration), by the likelihood of a Student-t distribution and the absolute error of the left-out rows;
sources that no choice looks at take no part in it.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evidence_learning import learned, outliers, row_noise
from evidence_ranges import FEWEST, Deviations, inside, quantiles
from headline import write_headline
from rackmath.evidence.configurations import NAMES, Configurations, book_of, columns_of
from rackmath.evidence.posterior import Base, Posterior, Process, posteriors
from rackmath.io import constants_file, evidence_files, tables
from rackmath.validation.calibrate import calibrate, possible, usable
from rackmath.validation.calibration_text import constants_text, left_out_rows
from rackmath.validation.left_out import GROUPINGS, folds, reserved
from rackmath.validation.nearness import configuration, records, residuals, signs, unsure
from rackmath.validation.problem import evaluate
from rackmath.validation.questions import Question
from rackmath.validation.ranges import coverage_by_others
from rackmath.validation.rows import NEEDED

ROOT = Path(__file__).parent.parent
DATA = ROOT / "src/rackmath/data"
PAGE = ROOT / "docs/accuracy-of-evidence.md"
LEFT_OUT = ROOT / "docs/generated/left_out.csv"
COMMAND = "rackmath calibrate rows.csv --out constants.toml --from-scratch"
SAMPLE = 1500
"""Rows of each way of leaving out that are scored."""
WAYS = {"source": "source", "model on chip": "model on chip", "configuration": "model on chip"}
"""Ways of leaving rows out, and the folds of the constants under each."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows of one way of leaving out, with and without evidence."""

    questions: list[Question]
    residual: Array
    answers: list[Posterior]
    places: NDArray[np.intp]
    """Their places among all rows."""

    @property
    def signs(self) -> Array:
        """1 for times, -1 for rates."""
        return signs(self.questions)


def main() -> None:
    """Read rows, fill the cache, learn, calibrate, write."""
    table = tables.read_csv(Path(sys.argv[1]), "rows", NEEDED)
    values = _values(table, Path(sys.argv[2]))
    questions = possible(usable(table)[0])[0]
    of = [configuration(q) for q in questions]
    columns = columns_of(of, book_of(of))
    # A row whose source is left out is asked like a user's answer: its source is unknown.
    sourceless = columns_of([replace(c, source="") for c in of], book_of(of))
    groups = {way: _groups(way, questions, columns) for way in WAYS}
    by_fold = {way: residuals_by_fold(questions, values, WAYS[way]) for way in WAYS}
    chosen = np.array([not reserved(q) for q in questions])
    sure = np.array([not unsure(q) for q in questions])
    in_sample = residuals(questions, values["all"])
    if "--scores" in sys.argv[3:]:
        process = replace(evidence_files.process(), quantile={})
        noise = _noise_again(process, questions, columns, sure, in_sample)
    else:
        process, noise = learned(columns, groups, by_fold, chosen, sure, in_sample)
    scores = {
        way: _scored(
            process,
            (columns, sourceless if way == "source" else columns),
            questions,
            groups[way],
            by_fold[way],
            noise,
            seed,
        )
        for seed, way in enumerate(WAYS)
    }
    everything = Deviations.joined([Deviations.of(s.questions, s.residual, s.answers) for s in scores.values()])
    process = replace(process, quantile=quantiles(everything))
    by_physics = _inside_of_physics(questions)
    parts = np.split(inside(everything), np.cumsum([len(s.answers) for s in scores.values()])[:-1])
    held = {way: _inside(s, by_physics[way], part) for (way, s), part in zip(scores.items(), parts, strict=True)}
    (DATA / "evidence.toml").write_text(_toml(process), encoding="utf-8")
    rows = records(questions, values["all"], row_noise(process.noise, noise), evidence_files.FACTS)
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.selectors.float().cast(pl.Float64))
    frame.write_parquet(DATA / "evidence.parquet", compression="zstd", compression_level=19)
    PAGE.write_text("\n".join(_page(scores, held)) + "\n", encoding="utf-8")
    _readme(scores["configuration"], scores["source"])


def _noise_again(
    process: Process, questions: list[Question], columns: Configurations, sure: NDArray[np.bool_], in_sample: Array
) -> Array:
    """Factor on the variance of each row's noise under a process that is kept. (rows,)

    The table that the process was published with may lack rows that are usable now. What unsure rows scatter more
    is read from it; who is an outlier is decided again.
    """
    published = dict(evidence_files.published().select("id", "noise").iter_rows())
    noise = np.array([published.get(q.row.id, np.nan) for q in questions])
    unsure_factor = float((np.nanmedian(noise[~sure]) / np.nanmedian(noise[sure])) ** 2)
    kind = np.where(sure, 1.0, unsure_factor)
    return kind * outliers(process.parts, process.noise**2 * kind, columns, in_sample)


def _values(table: list[dict[str, str]], cache: Path) -> dict[str, Array]:
    """Values of all rows: by the shipped constants, and by constants without each fold.

    With nothing in the cache the constants are fitted and written first, as the command at their head does.
    """
    path = cache / "values.npz"
    if not path.exists():
        # Another process: this one reads the constants that are shipped once, and afterwards.
        with ProcessPoolExecutor(1) as pool:
            pool.submit(_fitted_anew, table, path).result()
    return dict(np.load(path))


def _fitted_anew(table: list[dict[str, str]], path: Path) -> None:
    result = calibrate(table, progress=lambda stage: print(f"calibrate: {stage}", flush=True))
    tables.write_text(DATA / "constants.toml", constants_text(result, COMMAND), "constants.toml")
    tables.write_csv(LEFT_OUT, *left_out_rows(result), "left_out.csv")
    values = {"all": evaluate(result.questions, constants_file.constants(DATA / "constants.toml"))[0]}
    for name in set(WAYS.values()):
        for fold, constants in result.without[name].items():
            values[f"{name}|{fold:g}"] = evaluate(result.questions, constants)[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **values)


def residuals_by_fold(questions: list[Question], values: dict[str, Array], name: str) -> Callable[[int], Array]:
    """Residuals of all rows by constants that never saw the fold of one row."""
    part = folds(questions, name)
    table = {f: residuals(questions, values[f"{name}|{f:g}"]) for f in np.unique(part)}
    return lambda row: table[part[row]]


def _groups(way: str, questions: list[Question], columns: Configurations) -> NDArray[np.intp]:
    """Group of every row: what is left out with it."""
    if way == "source":
        names = [q.row.publisher for q in questions]
    elif way == "model on chip":
        names = [f"{q.architecture.name} {q.system.chip.name}" for q in questions]
    else:
        which = [NAMES.index(n) for n in ("model", "chip", "engine", "bits", "layout")]
        gpus = [str(q.row.gpus) for q in questions]
        names = [f"{codes} {g}" for codes, g in zip(columns.names[:, which].tolist(), gpus, strict=True)]
    return np.unique(names, return_inverse=True)[1]


def _scored(
    process: Process,
    columns: tuple[Configurations, Configurations],
    questions: list[Question],
    group: NDArray[np.intp],
    residual: Callable[[int], Array],
    noise: Array,
    seed: int,
) -> Scored:
    """Rows predicted from the rows of other groups; ``columns`` are what rows are of, and what answers are asked of."""
    random = np.random.default_rng(seed)
    sample = random.choice(len(questions), SAMPLE, replace=False)
    own = row_noise(process.noise, noise)
    kept: list[int] = []
    answers: list[Posterior] = []
    for i in sample:
        r = residual(i)
        if np.isfinite(r[i]):
            hidden = (group == group[i]) | ~np.isfinite(r)
            base = Base(columns[0], np.where(np.isfinite(r), r, 0.0), own)
            answers += posteriors(process, base, columns[1].take(np.array([i])), [np.flatnonzero(hidden).tolist()])
            kept.append(i)
    return Scored([questions[i] for i in kept], np.array([residual(i)[i] for i in kept]), answers, np.array(kept))


def _toml(process: Process) -> str:
    lines = [
        "# Process over residuals of published measurements. Generated by tools/evidence.py; do not edit.",
        f"noise = {process.noise:.4g}",
        f"unknown_source_weight = {process.unknown_source_weight:.4g}",
    ]
    for part in process.parts:
        lines += ["", "[[part]]", f'name = "{part.name}"', f"deviation = {part.deviation:.4g}"]
        lines += ["[part.differs]", *(f"{n} = {w:.4g}" for n, w in part.differs.items())]
        lines += ["[part.length]", *(f"{n} = {w:.4g}" for n, w in part.length.items())]
    for distance, kinds in process.quantile.items():
        lines += ["", f'[quantile."{distance}"]']
        lines += [f'"{kind}" = [{below:.4g}, {above:.4g}]' for kind, (below, above) in kinds.items()]
    return "\n".join(lines) + "\n"


def _page(scores: dict[str, Scored], held: Mapping[str, NDArray[np.bool_]]) -> list[str]:
    head = (
        "| left out | of rows | rows | physics: median | p90 | with evidence: median | p90 | inside the range |",
        "|---|---|---|---|---|---|---|---|",
    )
    lines = [
        "# What near measurements add",
        "",
        "Generated by `python tools/evidence.py ../shared/measured/rows.csv CACHE`. Rows are predicted by constants",
        "and from measurements that never saw their group; error is predicted over measured, less one. Near, middling",
        "and far are by the part of the variance of residuals that rows could explain and do not. With its source left",
        "out a row is asked like a user's answer: no measurement is of its source, and half of what the other",
        "sources let expect is taken. With its model on its chip or its configuration left out, its source is known.",
        "Inside are rows that lie in the range which the other sources alone would have let stand.",
        f"{SAMPLE:,} rows are drawn for each way of leaving out.",
        "",
        *head,
    ]
    for way, s in scores.items():
        kept = np.array([reserved(q) for q in s.questions])
        lines += _lines(way, s, held[way], {"sources that no choice looked at": kept, "other sources": ~kept})
        distance = np.array([a.distance for a in s.answers])
        lines += _lines(way, s, held[way], {name: distance == name for name in ("near", "middling", "far")})
    for title, of in (
        ("generation", lambda q: q.system.chip.generation),
        ("engine", lambda q: q.row.family),
        ("question", lambda q: configuration(q).question),
        ("source", lambda q: q.row.publisher),
    ):
        lines += ["", f"## By {title}", "", *head]
        for way, s in scores.items():
            names = np.array([of(q) for q in s.questions])
            masks = {str(name): names == name for name in sorted(set(names))}
            counted = {name: mask for name, mask in masks.items() if mask.sum() >= FEWEST}
            lines += _lines(way, s, held[way], counted)
    return lines


def _readme(configuration_out: Scored, source_out: Scored) -> None:
    """Put the headline numbers into the README, the stricter score first."""

    def medians(s: Scored, mask: NDArray[np.bool_]) -> tuple[float, float]:
        expected = np.array([a.expected for a in s.answers])
        plain, corrected = (np.abs(np.expm1(-s.signs * r))[mask] for r in (s.residual, s.residual - expected))
        return float(np.median(plain)), float(np.median(corrected))

    strict, strict_corrected = medians(source_out, np.ones(len(source_out.answers), dtype=bool))
    plain, corrected = medians(configuration_out, np.array([a.distance == "near" for a in configuration_out.answers]))
    text = (
        "Measurements near an answer correct it. With its source left out a row is\n"
        f"  {strict_corrected:.1%} off at the median, by physics {strict:.1%}; with only its configuration left out,\n"
        f"  where others are near, {corrected:.1%}, by physics {plain:.1%}. Where nothing is near the answer is\n"
        "  physics and says so (`python tools/evidence.py ../shared/measured/rows.csv CACHE`,\n"
        "  [docs/accuracy-of-evidence.md](docs/accuracy-of-evidence.md))."
    )
    write_headline("evidence", text)


def _inside_of_physics(questions: Sequence[Question]) -> dict[str, NDArray[np.bool_]]:
    """Whether rows lie in the ranges of physics that rows of other groups alone would have had, by way."""
    with LEFT_OUT.open(newline="", encoding="utf-8") as lines:
        rows = {row["id"]: row for row in csv.DictReader(lines)}
    left = {name: np.array([float(rows[q.row.id][name]) for q in questions]) for name in GROUPINGS}
    groups = {"source": np.array([q.row.publisher for q in questions])}
    return {
        way: coverage_by_others(questions, left[name], left, groups.get(way, folds(questions, name)))
        for way, name in WAYS.items()
    }


def _inside(s: Scored, by_physics: NDArray[np.bool_], corrected: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether rows lie in the range that is stated, had it not seen them: that of physics where nothing is near."""
    far = np.array([a.distance == "far" for a in s.answers])
    return np.where(far, by_physics[s.places], corrected)


def _lines(way: str, s: Scored, held: NDArray[np.bool_], masks: dict[str, NDArray[np.bool_]]) -> list[str]:
    expected = np.array([a.expected for a in s.answers])
    plain, near = (np.abs(np.expm1(-s.signs * r)) for r in (s.residual, s.residual - expected))
    return [
        f"| {way} | {name} | {mask.sum():,} | {np.median(plain[mask]):.1%} | {np.quantile(plain[mask], 0.9):.0%} "
        f"| {np.median(near[mask]):.1%} | {np.quantile(near[mask], 0.9):.0%} | {held[mask].mean():.0%} |"
        for name, mask in masks.items()
        if mask.sum() >= 5
    ]


if __name__ == "__main__":
    main()
