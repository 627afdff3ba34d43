"""Measurements near one pass."""

from __future__ import annotations

from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.near import NearMeasurements, configuration_of, near
from rackmath.engine import Layout
from rackmath.engine.constants import EngineVersion
from rackmath.evidence.subjects import layout_text
from rackmath.hardware import System
from rackmath.io import constants_file
from rackmath.models.architecture import Architecture


def question_of(phase: str, engine: EngineVersion) -> str:
    """Class of measurements that a pass of an engine is compared with.

    A decode step is one of a service, as most are published; of an engine whose single passes alone were measured on
    this generation, as llama.cpp's are, one by itself.
    """
    if phase == "prefill":
        return "prompt pass"
    shipped_constants = constants_file.constants()
    alone = shipped_constants.rows(engine, "decode") and not shipped_constants.rows(engine, "serving")
    return "decode pass" if alone else "time per token"


def near_pass(
    r: EstimateRequest, architecture: Architecture, system: System, layout: Layout, version: EngineVersion
) -> NearMeasurements:
    """What measurements say of the pass of a request.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    return near(
        configuration_of(
            architecture,
            system,
            engine=r.engine,
            year=r.year,
            question=question_of(r.phase, version),
            layout=layout_text(None, layout),
            gpus=float(layout.gpus),
            load=r.batch,
            input=r.context,
            cached=r.cached / r.context if r.phase == "prefill" and r.context else 0.0,
            drafted=r.drafted,
        )
    )
