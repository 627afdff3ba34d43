"""One pass as measurements are compared with it."""

from __future__ import annotations

from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.near import configuration_of
from rackmath.engine import Layout
from rackmath.engine.constants import EngineVersion
from rackmath.evidence.configurations import Configuration
from rackmath.evidence.subjects import layout_text
from rackmath.hardware import System
from rackmath.io import constants_file
from rackmath.io.constants_file import engine_of
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


def configuration_of_pass(
    r: EstimateRequest, architecture: Architecture, system: System, layout: Layout
) -> Configuration:
    """The pass of a request as measurements are compared with it."""
    return configuration_of(
        architecture,
        system,
        engine=r.engine,
        year=r.year,
        question=question_of(r.phase, engine_of(system, r.engine, r.year, r.enforce_eager)),
        layout=layout_text(None, layout),
        gpus=float(layout.gpus),
        load=r.batch,
        input=r.context,
        cached_prefix=r.cached_tokens / r.context if r.phase == "prefill" and r.context else 0.0,
        draft_tokens=r.draft_tokens,
    )
