"""A calibration as files: constants as commented TOML, and what was predicted without its group as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rackmath.engine.constants import inward, outward
from rackmath.engine.terms import TERM
from rackmath.validation.calibrate import Calibration


def constants_text(c: Calibration, command: str) -> str:
    """Write constants as commented TOML, with what fixes each and its uncertainty."""
    return "\n".join(_lines(c, command)) + "\n"


def left_out_rows(c: Calibration) -> tuple[list[str], Iterator[Mapping[str, object]]]:
    """Columns and rows of a table of what was predicted without its group."""
    names = list(c.left_out)
    rows: Iterator[Mapping[str, object]] = (
        {"id": q.row.id, **{n: c.left_out[n][i] for n in names}} for i, q in enumerate(c.questions)
    )
    return ["id", *names], rows


def _lines(c: Calibration, command: str) -> Iterator[str]:
    yield "# Constants that engines add to their kernels. Generated; do not edit. Command:"
    yield f"#   {command}"
    yield f"# {len(c.fitted.priors)} constants, as many as {c.fitted.effective:.0f} free ones (effective parameters)."
    yield "# A base value is in its own unit, with one standard deviation either way. Moves are on the inner scale"
    yield "# (log-odds of parts, log of the excess of factors, else log), with their standard deviation."
    yield f'basis = "{c.constants.basis}"'
    yield "chips = [" + ", ".join(f'"{name}"' for name in sorted(c.constants.chips)) + "]"
    deviation = dict(zip(((p.kind, p.name, p.member) for p in c.fitted.priors), c.fitted.deviation, strict=True))
    for name, value in c.constants.base.items():
        scale, sd = TERM[name].scale, float(deviation["base", name, ""])
        low, high = (outward(inward(value, scale) + way * sd, scale) for way in (-1, 1))
        unit = "" if TERM[name].unit == "1" else f" [{TERM[name].unit}]"
        yield ""
        yield f"[base.{name}] # {TERM[name].meaning}{unit}"
        yield f"value = {value:.6g}"
        yield f"low = {low:.4g}"
        yield f"high = {high:.4g}"
        yield f"deviation = {sd:.4g}"
    for name, members in c.constants.moves.items():
        yield ""
        yield f"[move.{name}]"
        for member, value in members.items():
            sd = float(deviation["move", name, member])
            yield f'"{member}" = {{ value = {value:.5g}, deviation = {sd:.3g} }}'
    for kind, table in c.constants.ranges.items():
        yield ""
        yield f'[range."{kind}"]'
        for key, (low, high) in table.items():
            yield f'"{key}" = [{low:.4g}, {high:.4g}]'
    for e in c.constants.evidence:
        yield ""
        yield "[[evidence]]"
        yield f'family = "{e.family}"'
        yield f'generation = "{e.generation}"'
        yield f'phase = "{e.phase}"'
        yield f"rows = {e.rows}"
        yield f"first = {e.first:.6g}"
        yield f"last = {e.last:.6g}"
