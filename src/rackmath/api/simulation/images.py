"""Images in simulated prompts: their tokens, and accelerators that encode nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rackmath.api.images import image_note, image_tokens, served_model
from rackmath.api.simulation.request import SimulateRequest
from rackmath.api.subjects import system_of
from rackmath.engine import Layout
from rackmath.engine.encoding import encoding
from rackmath.engine.transfer import embeddings_time
from rackmath.errors import InputError
from rackmath.io import catalogue, constants_file
from rackmath.serving.simulator.encoders import Encoders
from rackmath.serving.simulator.workload import Arrivals, checked


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTraffic:
    """What the images of a simulated request make of it."""

    work: Arrivals
    """Requests with the tokens of their images."""
    servers: SimulateRequest
    """What is left for servers: without images where others encode them."""
    encoders: Encoders | None = None
    """Accelerators that encode images only."""
    notes: tuple[str, ...] = ()


def with_image_traffic(r: SimulateRequest, work: Arrivals) -> ImageTraffic:
    """Add the tokens of images to all prompts, and take off the accelerators that encode them.

    Errors: :class:`InputError` for encoders without images, for images in sessions or beside other models, and where
    encoders leave no server.
    """
    system = system_of(r.on)
    architecture = served_model(r, r.model, system)
    if architecture.images is None:
        if r.encoder_gpus is not None:
            raise InputError("--encoder-gpus", r.encoder_gpus, "has nothing to encode: give --images or --audio")
        return ImageTraffic(work=work, servers=r)
    field, value = ("--audio", r.audio) if r.audio else ("--images", r.images)
    if r.turns > 1:
        raise InputError(field, value, "turns of a session would hold those before: leave --turns out")
    if any("model=" in text for text in r.add_replicas):
        raise InputError(field, value, "another model of --add-replicas has another encoder: leave it out")
    longer = checked(replace(work, prompt=work.prompt + np.int32(round(image_tokens(architecture)))))
    notes = image_note(architecture)
    if r.encoder_gpus is None:
        return ImageTraffic(work=longer, servers=r, notes=notes)
    if r.encoder_gpus >= r.gpus:
        raise InputError("--encoder-gpus", r.encoder_gpus, f"leave some of the {r.gpus} accelerators to serve")
    engine = constants_file.engine_of(system, r.engine, r.year)
    losses = None if r.ideal else constants_file.losses_of(system, engine, "time per token")
    encoders = Encoders(
        gpus=r.encoder_gpus,
        time=float(encoding(architecture, system, Layout(), 1.0, losses).time),
        transfer=float(embeddings_time(architecture, system, r.gpus)),
        chip=system.chip.name,
        price=catalogue.price_of(system, r.usd_per_gpu_hour),
    )
    apart = f"{r.encoder_gpus} of the accelerators encode, one request each at a time; their energy is not counted"
    return ImageTraffic(
        work=longer,
        servers=replace(r, gpus=r.gpus - r.encoder_gpus, images=0.0, audio=0.0, encoder_gpus=None),
        encoders=encoders,
        notes=(*notes, apart),
    )
