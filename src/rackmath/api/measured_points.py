"""Measurements that lie near enough to an answer to be drawn beside its curve, as they were measured."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rackmath.api.near import all_measurements
from rackmath.engine.layout import Layout
from rackmath.hardware import System
from rackmath.io import catalogue
from rackmath.io.evidence_files import OwnVersion, own_version
from rackmath.models.architecture import Architecture, Layer

if TYPE_CHECKING:
    import polars as pl

LENGTHS = 2.0
"""Times by which lengths of a measurement may differ from an answer's."""
_MOST = 60
_NAMED = ("id", "source", "date", "engine", "hardware", "n_gpus", "weights", "input_mean", "output_mean")
"""Facts of a measurement that a point carries."""


def measured_steps(architecture: Architecture, system: System, layout: Layout, context: float) -> list[dict[str, Any]]:
    """Times per token of the model on as many of the chip, by sequences at once, at half to twice the context.

    Keys: ``batch`` [sequences], ``time`` [s], and facts of the row.
    """
    import polars as pl

    context_column = pl.col("at_input") + pl.col("at_output") / 2
    frame = _of(architecture, system).filter(
        (pl.col("at_question") == "time per token")
        & pl.col("metric").is_in(["tpot", "itl"])
        & (pl.col("at_gpus") == float(layout.gpus))
        & context_column.is_between(context / LENGTHS, context * LENGTHS)
    )
    frame = frame.with_columns(batch=pl.col("at_load") * pl.col("at_gpus"), time=pl.col("value"))
    return frame.sort("id").head(_MOST).select("batch", "time", *_NAMED).to_dicts()


def measured_services(
    architecture: Architecture, system: System, input: float, output: float, *, gpus: float
) -> list[dict[str, Any]]:
    """Speed of a user and throughput of an accelerator in runs of the model on the chip that state both.

    Parameters
    ----------
    input, output : float
        Lengths of prompts and answers; those of a run are half to twice as long. [tokens]
    gpus : float
        Accelerators at most.

    Keys: ``tokens_per_second_per_user``, ``tokens_per_second_per_gpu`` (output tokens), and facts of the run.
    """
    import polars as pl

    frame = _of(architecture, system).filter(
        pl.col("run_id").fill_null("").ne("")
        & (pl.col("at_gpus") <= gpus)
        & pl.col("at_input").is_between(input / LENGTHS, input * LENGTHS)
        & pl.col("at_output").is_between(output / LENGTHS, output * LENGTHS)
    )
    # Of several statistics of a run the mean.
    speeds = frame.filter(pl.col("metric").is_in(["tpot", "itl"])).sort("statistic").unique("run_id", keep="first")
    rates = frame.filter(
        pl.col("metric").is_in(["output_throughput", "total_throughput"]) & pl.col("per").is_in(["gpu", "system"])
    ).unique("run_id", keep="first", maintain_order=True)
    output_share = pl.when(pl.col("metric") == "output_throughput").then(1.0)
    output_share = output_share.otherwise(pl.col("at_output") / (pl.col("at_input") + pl.col("at_output")))
    share = pl.when(pl.col("per") == "gpu").then(1.0).otherwise(1 / pl.col("at_gpus"))
    rates = rates.select("run_id", tokens_per_second_per_gpu=pl.col("value") * output_share * share)
    joint_table = speeds.join(rates, on="run_id").with_columns(tokens_per_second_per_user=1 / pl.col("value"))
    columns = ("tokens_per_second_per_user", "tokens_per_second_per_gpu", *_NAMED)
    return joint_table.sort("id").head(_MOST).select(*columns).to_dicts()


def _of(architecture: Architecture, system: System) -> pl.DataFrame:
    """Measurements of the model on the chip."""
    return _measured_of(own_version(), system.chip.name, architecture.name, architecture.groups)


# A slider asks for the same ones at every move.
@lru_cache(maxsize=16)
def _measured_of(_version: OwnVersion, chip: str, model: str, groups: tuple[tuple[Layer, int], ...]) -> pl.DataFrame:
    import polars as pl

    frame = all_measurements().filter(pl.col("at_chip") == chip, ~pl.col("at_draft_tokens").gt(0.0))
    # An architecture may have been measured under other names as well.
    names = {model}
    for name in set(frame["at_model"].to_list()) & set(catalogue.model_names()):
        if catalogue.model(name).groups == groups:
            names.add(name)
    return frame.filter(pl.col("at_model").is_in(names))
