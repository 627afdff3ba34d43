"""What an engine adds where it mixes prompts and answers: a part of the table of :mod:`rackmath.engine.terms`."""

from __future__ import annotations

from rackmath.engine.term import LOG, PART, SERVICE, Term

SERVICE_TERMS = (
    Term(
        name="lockstep",
        scale=PART,
        applies=SERVICE,
        centre=0.3,
        axes=("family",),
        meaning="part of one group's prompt that all data-parallel groups wait for",
    ),
    Term(
        name="queueing",
        scale=PART,
        applies=SERVICE,
        centre=0.05,
        axes=("family",),
        meaning="part of the prompts of a full burst that a mean first token waits for",
    ),
    Term(
        name="dispatch",
        unit="s",
        scale=LOG,
        applies=SERVICE,
        centre=3e-5,
        spread=0.7,
        axes=("family",),
        meaning="time in which the host starts one kernel of a prompt read by itself",
    ),
    Term(
        name="arrival",
        unit="s",
        scale=LOG,
        applies=SERVICE,
        centre=0.02,
        spread=0.7,
        axes=("family",),
        meaning="time of a request outside the engine: network, tokeniser, first scheduling",
    ),
    Term(
        name="frontend",
        unit="s",
        scale=LOG,
        applies=SERVICE,
        # By vLLM's own clocks on a server of ours, of which no row is fitted. Published bursts are of one laboratory,
        # whose hosts take 2 to 17 ms.
        centre=4.5e-3,
        width=0.25,
        meaning="time that the server's one process takes for each request, one after another, within arrival",
    ),
    Term(
        name="reception",
        scale=PART,
        applies=SERVICE,
        centre=0.5,
        width=0.7,
        meaning="part of frontend in which a request is received: first tokens of a burst wait until all are",
    ),
    Term(
        name="acceptance",
        scale=PART,
        applies=SERVICE,
        centre=0.6,
        width=0.5,
        axes=("family",),
        meaning="chance that a drafted token is accepted",
    ),
)
"""Constants of services."""
