"""What a user waits for: his first token and the next ones, given the times of passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.kernels import pass_kernels
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.serving.load import Load, PassTimes, Scheduling

Mask = NDArray[np.bool_]

INSTANT = 1e-12
"""Least time of a request where rates are one over it. [s]"""


def time_per_output_token(t: PassTimes, prompts: Number, load: Load, s: Scheduling) -> Number:
    r"""Time between a user's tokens, others' prompts included. [s]

    .. math:: t = s / a + \kappa \, \frac{m}{O} P

    with m the prompts that are read beside an answer of O tokens, each of which takes P of its steps. No step meets
    more prompts than fill a pass.

    Parameters
    ----------
    prompts : Number
        m, from :func:`beside_of_users` or :func:`beside_of_arrivals`. [prompts]
    """
    beside = minimum(prompts / maximum(load.output, 1.0), prompts_read(load, s))
    return t.step / s.accepted(load.draft_tokens) + s.interruption * beside * t.beside


def beside_of_users(users: Number, before: Number, share: Number, groups: Number, s: Scheduling) -> Number:
    r"""Prompts of a closed loop that are read beside an answer. [prompts]

    .. math:: m = \frac{N}{g} - 1 - w + \lambda \left( N - \frac{N}{g} \right) \frac{a}{T}

    Of the N / g users of a group each other one sends a prompt in the time T from a request to the next; those that are
    read before his own (w) are not met. Where groups meet in expert exchanges a part of the other groups' prompts is
    met too, while an answer is written.

    Parameters
    ----------
    before : Number
        w, the prompts that a first token waits for. [prompts]
    share : Number
        a / T, the part of its time in which a request is answered. [1]
    """
    return maximum(users / groups - 1 - before, 0.0) + s.lockstep * (users - users / groups) * share


def beside_of_arrivals(running: Number, groups: Number, s: Scheduling) -> Number:
    """Prompts that come by themselves while one answer is written, of a group and a part of the others'. [prompts]

    As many as answers that end: those that run.
    """
    return running * (s.lockstep + (1 - s.lockstep) / groups)


def prompts_read(load: Load, s: Scheduling) -> Number:
    """Prompts that a group reads at most in the time of a user's token: its mixed steps take in a budget of tokens.

    Each of the micro-batches that take turns in that time has one. No bound where prompts come first. [prompts]
    """
    budget = load.max_num_batched_tokens / maximum(load.input - load.cached_tokens, 1.0) / s.accepted(load.draft_tokens)
    return np.where(np.greater(s.mixed, 0.0), load.turns * budget, np.inf)


def reads_in_time(t: PassTimes, running: Number, tpot: Number, load: Load, groups: Number, s: Scheduling) -> Mask:
    """Whether prompts come in and are read as fast as answers end: within the time, and the budget of mixed steps."""
    per_group = running / groups / maximum(load.output, 1.0)
    return np.less_equal(per_group * in_turn(t.beside, s), tpot) & np.less_equal(per_group, prompts_read(load, s))


def time_to_first_token(t: PassTimes, limit: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    r"""Time to the first token of a request that was admitted, but for prompts of others. [s]

    .. math:: f = a + P_1 + w

    with a the time outside the engine, P_1 the prompt read by itself and w until its step begins.
    """
    return s.arrival + t.alone + until_begun(t.step, others(limit, groups), load.looks, s)


def burst(t: PassTimes, limit: Number, groups: Number, s: Scheduling) -> Number:
    """Time that the mean first token of a closed loop waits for prompts that came with its own. [s]

    A closed loop starts with a burst and spreads out: few of its requests wait, so that the median does not.
    """
    return of_burst_prompts(t, limit, groups, s) * t.prompt + of_burst_server(t, limit, groups, s)


def of_burst_prompts(t: PassTimes, limit: Number, groups: Number, s: Scheduling) -> Number:
    """Those prompts: of all that came together, and of the own pass, which end with it. [prompts]"""
    whole = others(limit, groups)
    return minimum(s.queueing * (whole + behind_own(t, limit, groups)), whole)


def of_burst_server(t: PassTimes, limit: Number, groups: Number, s: Scheduling) -> Number:
    """Time that the server's process takes for them beyond their reading. [s]"""
    beyond = others(limit, groups) * (sum(of_burst(t.prompt, s)) - t.prompt)
    return s.queueing * (beyond + behind_own(t, limit, groups) * minimum(t.prompt, (1 - s.reception) * s.frontend))


def of_its_pass(t: PassTimes, requests: Number, groups: Number, s: Scheduling) -> Number:
    r"""Time that the mean first token of a burst waits for prompts behind its own, which end with its pass. [s]

    .. math:: \frac{m - 1}{2} \left( P + \min(P, (1 - r) h) \right)

    of the m prompts of a filled pass; then the server passes their first tokens on in turn.
    """
    return behind_own(t, requests, groups) / 2 * (t.prompt + minimum(t.prompt, (1 - s.reception) * s.frontend))


def behind_own(t: PassTimes, requests: Number, groups: Number) -> Number:
    """Other prompts of a filled pass. [prompts]"""
    return maximum(minimum(t.together, requests / groups) - 1, 0.0)


def of_burst(prompt: Number, s: Scheduling) -> tuple[Number, Number]:
    """Time for each request of a burst before any is read, and from one first token to the next. [s], [s]

    The server's process receives all requests side by side, so that the engine has them together; then the engine reads
    one prompt after the other, and the process passes one first token on after the other.
    """
    reception = s.reception * s.frontend
    return reception, maximum(prompt, s.frontend - reception)


def in_turn(prompt: Number, s: Scheduling) -> Number:
    """Time from one prompt of a burst to the next: the server passes them on while the engine reads. [s]"""
    return maximum(prompt, s.frontend)


def behind_arrivals(t: PassTimes, running: Number, busy: Number, load: Load, groups: Number) -> Number:
    r"""Time that a first token waits for prompts that come at any time. [s]

    .. math:: \frac{B/g - 1}{b} \left( P \, (k - 1) \, \tau + P_1^2 / 2 \right)

    with P a prompt in a filled pass: B/g - 1 others of its group finish an answer every b seconds and send a prompt.
    Those that came since the last look are read in the same pass; one that is being read is half read in the mean.

    Parameters
    ----------
    busy : Number
        Time of an answer. [s]
    """
    return others(running, groups) / busy * (t.prompt * (load.looks - 1) * t.step + t.alone**2 / 2)


def queued(prompt: Number, busy: Number) -> Number:
    r"""Time that a prompt waits for those before it, where equal ones arrive at random at one reader. [s]

    .. math:: W = \frac{\rho}{1 - \rho} \, \frac{P}{2}

    Source: Pollaczek 1930 and Khinchine 1932, for a service time without spread.

    Parameters
    ----------
    busy : Number
        Part of the time in which prompts are read, below one.
    """
    return busy / (1 - busy) * prompt / 2


def read_in_passes(
    prompt: Number, alone: Number, together: Number, stages: Number, rate: Number
) -> tuple[Number, Number]:
    r"""Time of the pass that reads a prompt which comes at random with others, and until it begins. [s], [s]

    .. math:: L = a + b k = \frac{a}{1 - x b}, \qquad
        w = \frac{x L}{P} \left( 1 + \frac{r}{K (1 - r)} \right) \frac{L}{2}

    of a pass over k prompts, from that of a single one to that of a full one of K: in the time of a pass come x L = k
    more to each of P micro-batches, which the next pass reads. Most prompts are in larger passes than the mean one, in
    that of x L others at most: the own one lies half between. A prompt that finds all micro-batches in passes waits for
    half of one, divided among them; near its capacity (a load r of 1) a reader of single prompts has a queue, one of
    full passes hardly. With K = P = 1 it waits as in :func:`queued`. Within a tenth of passes that are walked one by
    one (``tests/serving/test_pools.py``).

    Parameters
    ----------
    prompt, alone : Number
        Time of one prompt in filled passes, and of a pass over a single one. [s]
    together : Number
        K. [prompts]
    stages : Number
        P, 1 where pieces of one prompt take all stages. [micro-batches]
    rate : Number
        Prompts that come to the reader, fewer than fill its passes. [prompts/s]
    """
    slope = maximum((stages * together * prompt - alone) / maximum(together - 1, 1.0), 0.0) * np.greater(together, 1)
    x, load, full = rate / stages, rate * prompt, maximum(stages * together * prompt, alone)
    room = maximum(1 - x * slope, INSTANT)
    mean = minimum(maximum((alone - slope) / room, alone), full)
    own_pass = (mean + minimum(alone / room, full)) / 2
    span = np.where(np.greater(together, 1), mean, stages * prompt)
    queue = 1 + load / maximum(together * (1 - load), INSTANT)
    return own_pass, minimum(x * span, 1.0) / stages * queue * span / 2


def prompts_of_a_step(running: Number, output: Number, draft_tokens: Number, groups: Number, s: Scheduling) -> Number:
    """Prompts that come to one group in the time of a step: as many as answers of its sequences end. [prompts]"""
    return running * s.accepted(draft_tokens) / groups / maximum(output, 1.0)


def others(requests: Number, groups: Number) -> Number:
    """Requests of one group beside the one that is looked at. [requests]"""
    return maximum(requests / groups - 1, 0.0)


def started(read: Number, architecture: Architecture, s: Scheduling, tokens: Number, passes: Number = 1.0) -> Number:
    """Time to read a prompt by itself: no shorter than the host takes to start its kernels. [s]

    Decode replays a graph of its kernels; those of a prompt are started one after the other, while the accelerator
    works on those that were. Long prompts hide it, and so do steps that run beside. Where a pass of few ``tokens``
    replays graphs between attentions, a layer has one of each.
    """
    few = np.less_equal(tokens, s.captured)
    count = np.where(few, pieces_of(architecture), pass_kernels(architecture))
    return maximum(read, passes * count * s.dispatch)


def pieces_of(architecture: Architecture) -> float:
    """What the host starts in a pass that replays graphs of all but attention: two pieces per layer. [kernels]"""
    return 2.0 * sum(count for _, count in architecture.groups)


def until_begun(step: Number, present: Number, looks: Number, s: Scheduling) -> Number:
    r"""Time from a request's arrival to the step that reads its prompt, where others are answered. [s]

    .. math:: \tau \, \min(n, 1) \, (1/2 + a + (k - 1) / 2)

    Half of the step that runs has passed in the mean; an engine that decides each step when the one before begins
    (a = 1) has decided the next one; one that looks at new requests every k steps keeps them for half of those.
    Sources: vLLM v1, ``EngineCore.step_with_batch_queue``; SGLang's ``event_loop_overlap`` and
    ``scheduler_recv_interval``.

    Parameters
    ----------
    present : Number
        Sequences that decode on the same group. [sequences]
    """
    return step * minimum(present, 1.0) * (0.5 + s.ahead + (looks - 1) / 2)
