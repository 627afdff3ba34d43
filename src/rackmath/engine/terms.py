"""What an engine adds to its kernels: one table of all constants, from which everything else about them derives.

The record of losses, the file of fitted constants and its comments, the fit's priors, the ablation and
``docs/losses.md`` read this table. Constants of kernels are not here: they come from timings, by chip
(:mod:`rackmath.engine.kernel_curves`).
"""

from __future__ import annotations

from types import MappingProxyType

from rackmath.engine.service_terms import SERVICE_TERMS
from rackmath.engine.term import FACTOR, LOG, NETWORK, PART, SERVICE, STEP, TRAINING, Term

TERMS = (
    Term(
        name="compute",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.01,
        absent=1.0,
        axes=("generation", "family"),
        meaning="time of multiplications over that of the kernel timings",
    ),
    Term(
        name="memory",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.01,
        absent=1.0,
        axes=("generation", "family"),
        meaning="time of memory traffic over that of the kernel timings",
    ),
    Term(
        name="fixed",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.1,
        absent=1.0,
        axes=("generation", "family"),
        meaning="time of starting kernels over that of the timings, where one's start hides behind another's end",
    ),
    Term(
        name="grouped",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.003,
        absent=1.0,
        axes=("generation", "family"),
        meaning="time of grouped products of experts over that of the kernel timings",
    ),
    Term(
        name="narrow",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.2,
        absent=1.0,
        meaning="time of grouped products of weights of 4 bits, or expanded first, over that of the kernel timings",
    ),
    Term(
        name="prompt_attention",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.03,
        absent=1.0,
        axes=("family",),
        meaning="time of attention over prompts beyond that of the kernel timings",
    ),
    Term(
        name="touches",
        scale=LOG,
        applies=STEP,
        centre=1.0,
        width=0.1,
        meaning="times that norms move their input again, for activations, casts and sums of residuals",
    ),
    Term(
        name="train_touches",
        scale=LOG,
        applies=TRAINING,
        centre=2.0,
        width=0.5,
        axes=("family",),
        meaning="the same in training, whose activations are kept and normalised in wider formats",
    ),
    Term(
        name="sustained",
        scale=FACTOR,
        applies=TRAINING,
        centre=1.25,
        width=0.5,
        absent=1.0,
        axes=("generation", "family"),
        meaning="time of multiplications in training over that of short timings: clocks fall under lasting load",
    ),
    Term(
        name="unfused",
        unit="B",
        scale=LOG,
        applies=STEP,
        centre=9.0,
        width=0.5,
        meaning="bytes that attention moves per score, in engines that do not fuse its kernel",
    ),
    Term(
        name="launch",
        unit="s",
        scale=LOG,
        applies=STEP,
        centre=1e-6,
        width=0.5,
        axes=("generation", "family"),
        meaning="gap before each kernel of a pass, small kernels that no table times included",
    ),
    Term(
        name="routing",
        unit="s",
        scale=LOG,
        applies=STEP,
        centre=1e-5,
        width=0.5,
        axes=("generation", "family"),
        meaning="what each layer of experts takes besides its products: router, choice of experts, sorting, summing",
    ),
    Term(
        name="routing_expert",
        unit="s",
        scale=LOG,
        applies=STEP,
        centre=5e-8,
        meaning="what each expert of such a layer adds to that: scoring it, counting its tokens, padding them to tiles",
    ),
    Term(
        name="host",
        unit="s",
        scale=LOG,
        applies=STEP,
        centre=5e-4,
        axes=("generation", "family"),
        meaning="gap of one step: scheduling, sampling, copying tokens",
    ),
    Term(
        name="host_sequence",
        unit="s",
        scale=LOG,
        applies=STEP,
        centre=1e-5,
        axes=("family",),
        meaning="what each sequence adds to that gap",
    ),
    Term(
        name="remote",
        unit="s",
        scale=LOG,
        applies=STEP,
        centre=2e-3,
        meaning="what a step of several workers adds, where the host calls each with its metadata (vLLM before 0.2.7)",
    ),
    Term(
        name="remote_sequence",
        unit="s",
        scale=LOG,
        applies=STEP,
        # From the throughput before and after in the request that ended it: vllm-project/vllm, pull request 2221.
        centre=4e-4,
        meaning="what each sequence adds to such a call",
    ),
    Term(
        name="hidden",
        scale=PART,
        applies=STEP,
        centre=0.9,
        width=0.5,
        axes=("family",),
        meaning="part of the host's time that runs beside the device, where an engine schedules a step ahead",
    ),
    Term(
        name="network",
        scale=LOG,
        applies=NETWORK,
        centre=1.0,
        width=0.03,
        absent=1.0,
        axes=("generation",),
        meaning="time of reductions over that of the kernel timings",
    ),
    Term(
        name="exchange",
        scale=LOG,
        applies=NETWORK,
        centre=1.0,
        width=0.2,
        absent=1.0,
        axes=("family",),
        meaning="time of dispatch and combine of experts over that of the kernel timings",
    ),
    Term(
        name="imbalance",
        scale=LOG,
        applies=STEP,
        centre=0.15,
        width=0.5,
        meaning="excess of the fullest expert rank over the mean, once experts are spread wide",
    ),
    Term(
        name="software",
        scale=FACTOR,
        applies=STEP,
        centre=1.03,
        width=0.5,
        absent=1.0,
        axes=("stage",),
        meaning="time of a whole step of an early enablement over that of one that is ripe",
    ),
    Term(
        name="own_kernels",
        scale=FACTOR,
        applies=STEP,
        centre=1.15,
        width=0.5,
        absent=1.0,
        axes=("family",),
        meaning="time of a whole step of an engine without kernel timings over what the kernels of others say",
    ),
    Term(
        name="shown",
        scale=PART,
        applies=TRAINING,
        centre=0.6,
        axes=("family",),
        meaning="part of tensor parallelism's collectives that products do not hide in training",
    ),
    Term(
        name="exposed",
        scale=PART,
        applies=TRAINING,
        centre=0.2,
        axes=("family",),
        meaning="part of the data-parallel exchange of training that nothing hides",
    ),
    *SERVICE_TERMS,
)
"""All fitted constants of engines."""

TERM = MappingProxyType({term.name: term for term in TERMS})
"""The same by name."""

OF_SCHEDULING = tuple(t.name for t in TERMS if t.applies == SERVICE)
"""Fields of :class:`~rackmath.serving.load.Scheduling`."""

OF_LOSSES = tuple(t.name for t in TERMS if t.applies != SERVICE and t.name != "exposed")
"""Fields of :class:`~rackmath.engine.losses.Losses`."""
