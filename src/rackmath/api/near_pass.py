"""Measurements near one pass."""

from __future__ import annotations

from rackmath.api.estimate_request import EstimateRequest
from rackmath.api.near import Near, configuration_of, near
from rackmath.engine import Layout
from rackmath.evidence.subjects import layout_text
from rackmath.hardware import System
from rackmath.models.architecture import Architecture

QUESTION = {"decode": "time per token", "prefill": "prompt pass"}
"""Class of measurements that a phase is compared with."""


def near_pass(r: EstimateRequest, architecture: Architecture, system: System, layout: Layout) -> Near:
    """What measurements say of the pass of a request.

    Errors: :class:`~rackmath.errors.InputError` for a user's own measurements that cannot be read.
    """
    return near(
        configuration_of(
            architecture,
            system,
            engine=r.engine,
            year=r.year,
            question=QUESTION[r.phase],
            layout=layout_text(None, layout),
            gpus=float(layout.gpus),
            load=r.batch,
            input=r.context,
            cached=r.cached / r.context if r.phase == "prefill" and r.context else 0.0,
            drafted=r.drafted,
        )
    )
