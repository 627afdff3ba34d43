"""Features of models and layouts, as evidence tells them apart."""

from __future__ import annotations

from rackmath.engine.layout import Layout, expert_count
from rackmath.models.architecture import Architecture
from rackmath.models.counts import main_format
from rackmath.models.mixers import Latent


def kind_of_model(architecture: Architecture) -> str:
    """Dense or mixture, with latent attention or not."""
    latent = any(isinstance(m, Latent) for layer, _ in architecture.groups for m in layer.mixers)
    return ("mixture" if expert_count(architecture) else "dense") + (", latent" if latent else "")


def bits_of_model(architecture: Architecture) -> str:
    """Whole bits of a weight as most of them are stored."""
    return f"{round(8 * float(main_format(architecture).bytes_per_element))}"


def layout_text(prefill: Layout | None, layout: Layout) -> str:
    """Layout of a deployment: that of its decode workers, and of its prefill workers where they stand apart."""
    return layout.text() if prefill is None else f"{prefill.text()} > {layout.text()}"
