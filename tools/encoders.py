"""Score encoding of images on published encodes, and fit its constants: writes docs/accuracy-of-encoders.md.

python tools/encoders.py tests/data/encoder_timings.csv
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from rackmath.engine import Layout
from rackmath.engine.encoding import COMPILED_MOVES, MOVES, SETTING, Encoding, encoding
from rackmath.io import catalogue, constants_file
from rackmath.models.architecture import Images
from rackmath.models.images import image_of

PAGE = Path("docs/accuracy-of-encoders.md")
Row = Mapping[str, str]


def encoded(row: Row) -> Encoding:
    """The encode of a row as the engine computes it, with losses of the row's engine, or of vLLM where it has none."""
    model, system = catalogue.model(row["model"]), catalogue.system(row["system"])
    assert model.encoder is not None, row["model"]
    image = image_of(model.encoder.sizing, int(row["width"]), int(row["height"]))
    model = replace(model, images=Images(count=float(row["images"]), image=image, tp_mode=row["way"]))
    engine = constants_file.engine_of(system, family_of(row), 2026.5)
    losses = constants_file.losses_of(system, engine, "prompt pass")
    return encoding(model, system, Layout(tensor=int(row["tp"])), 1.0, losses)


def family_of(row: Row) -> str:
    """Family of the row's engine; vLLM for an engine without losses of its own."""
    family = row["engine"].partition(" ")[0].lower()
    return family if family in constants_file.FAMILIES else constants_file.DEFAULT_ENGINE


def fitted(rows: list[Row]) -> tuple[float, float]:
    """MOVES and SETTING that leave the least squared logarithms of measured over computed times."""
    measured = np.array([float(row["milliseconds"]) / 1e3 for row in rows])
    found = [encoded(row) for row in rows]
    # Time is linear in both constants: what one move adds follows from the two ends that are computed.
    moved = np.array([float(e.time - e.low) - SETTING for e in found]) / (MOVES - COMPILED_MOVES)
    kernels = np.array([float(e.low) for e in found]) - COMPILED_MOVES * moved

    def missed(constants: np.ndarray) -> np.ndarray:
        return np.log((kernels + constants[0] * moved + constants[1]) / measured)

    result = least_squares(missed, np.array([MOVES, SETTING]), x_scale=np.array([10.0, 1e-3]))
    return float(result.x[0]), float(result.x[1])


def _line(row: Row) -> str:
    e, measured = encoded(row), float(row["milliseconds"])
    times = [1e3 * float(t) for t in (e.ideal, e.low, e.time, e.high)]
    middle = times[1] if row["compiled"] == "yes" else times[2]
    what = f"{row['images']} x {row['width']}x{row['height']}, tp{row['tp']}"
    engine = row["engine"] + (", compiled" if row["compiled"] == "yes" else "")
    return (
        f"| {row['model']} | {row['system']} | {what} | {engine} | {measured:.1f} | {middle:.1f} "
        f"({middle / measured - 1:+.0%}) | {times[1]:.0f} to {times[3]:.0f} | {times[0]:.1f} | {row['use']} |"
    )


def page(rows: list[Row]) -> str:
    """The page."""
    moves, setting = fitted([row for row in rows if row["use"] == "fit"])
    unseen = next(row for row in rows if row["use"] == "unseen")
    elsewhere = 1e3 * float(encoded({**unseen, "system": "h200-sxm"}).time) / float(unseen["milliseconds"]) - 1
    constants = f"{moves:.0f} moves a layer and {1e3 * setting:.1f} ms by this table"
    lines = [
        "# Accuracy of encoders of images",
        "",
        f"{len(rows)} published encodes, in milliseconds. Products and attention are timed by the curves of the chip's",
        "kernels, which no encode was fitted to. Reads and writes of the hidden width beside them (rotary positions,",
        "casts, activation, residual sums, copies) and the time in which a pass makes its tables are two constants,",
        f"fitted on the rows marked fit: {constants}, {MOVES:g} and {1e3 * SETTING:g} ms in the engine.",
        f"A compiled encoder, the low end of the range, makes {COMPILED_MOVES:g} moves, chosen on the row marked so.",
        "The row marked unseen took part in neither.",
        "",
        "| model | accelerator | images | engine | measured | computed | range | bound | use |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_line(row) for row in rows),
        "",
        "Two engines and two chips are few: on others the range may not hold. The unseen row names its accelerator as",
        f"a Hopper only; on an H200 it comes out {elsewhere:+.0%}. What the host does before (decoding, resizing,",
        "cutting into patches) is left out; the same report measured 101 ms of it before and 27 ms after its changes.",
        "Sources:",
        "",
        *(f"- https://{source}" for source in dict.fromkeys(row["source"] for row in rows)),
        "",
        "Patches and tokens are exact: `tests/data/image_sizes.csv` holds what transformers 5.24.0 makes of 13 sizes",
        "under four rules. Written by `python tools/encoders.py tests/data/encoder_timings.csv`.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(list(csv.DictReader(Path(sys.argv[1]).read_text().splitlines()))), encoding="utf-8")
