"""What is asked of `rackmath fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rackmath.api import kinds, options
from rackmath.api.fields import Option, read_fields
from rackmath.errors import InputError
from rackmath.hardware import System
from rackmath.io.constants_file import FAMILIES, NOW


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """What is there to run models on, and what is asked of them."""

    on: Annotated[str | System, options.SYSTEM]
    gpus: Annotated[int | None, options.GPUS.but(help="Accelerators; by default one machine or rack.")] = None
    card: Annotated[
        tuple[str, ...],
        Option(
            help="Other accelerators in the same machine, as rtx-3090 or rtx-3090:2: layers are dealt by speed.",
            kind=kinds.TEXTS,
            metavar="SYSTEM[:N]",
        ),
    ] = ()
    context: Annotated[float, Option(help="Tokens that each request holds.", kind=kinds.NUMBER)] = 8192.0
    batch: Annotated[float, Option(help="Requests at once.", kind=kinds.NUMBER)] = 1.0
    tpot: Annotated[float | None, options.TPOT.but(help="Longest time per token, as 50ms or 20tok/s.")] = None
    models: Annotated[
        str | None, Option(help="Models to try, with commas between them (default: all of the catalogue).")
    ] = None
    weights: Annotated[
        str | None, Option(help="Formats to try, with commas between them (default: those that the engine runs).")
    ] = None
    kv: Annotated[str | None, options.CACHE] = None
    host_memory: Annotated[
        float | None, Option(help="Memory of the host that may hold weights, as 64GB.", kind=kinds.BYTES)
    ] = None
    host_bandwidth: Annotated[
        float | None,
        Option(
            help="Its bandwidth (default: the system's, else of two channels of DDR5-5600).",
            kind=kinds.BYTES_PER_SECOND,
        ),
    ] = None
    cpu_moe: Annotated[
        bool,
        Option(
            help="All routed experts on the host, multiplied by its processor: KTransformers, llama.cpp's --cpu-moe.",
            kind=kinds.FLAG,
        ),
    ] = False
    engine: Annotated[
        str | None,
        options.ENGINE.but(
            help="Family of the engine (default: the one with most measurements on the chip).",
            kind=kinds.choice(*FAMILIES),
        ),
    ] = None
    year: Annotated[float, options.YEAR] = NOW
    ideal: Annotated[bool, options.IDEAL] = False
    no_evidence: Annotated[bool, options.NO_EVIDENCE] = False

    def __post_init__(self) -> None:
        """Read all values, and refuse sizes that no step has."""
        read_fields(self)
        for name in ("context", "batch"):
            if not 1 <= getattr(self, name) <= 1e9:
                raise InputError("--" + name, getattr(self, name), "write a number from 1 to 1e9")
        if self.card and self.host_memory is not None:
            raise InputError("--card", ", ".join(self.card), "give it or --host-memory, not both")
        if self.cpu_moe and self.host_memory is None:
            raise InputError("--cpu-moe", "", "say how much memory the host has for them, as --host-memory 384GB")
        for name in ("host_memory", "host_bandwidth", "tpot"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError("--" + name.replace("_", "-"), value, "write a positive number")
