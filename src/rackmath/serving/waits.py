"""What a user waits for: his first token and the next ones, given the times of passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rackmath.engine.kernels import pass_kernels
from rackmath.models.architecture import Architecture
from rackmath.models.numbers import Number, maximum, minimum
from rackmath.serving.load import Load, PassTimes, Scheduling

Mask = NDArray[np.bool_]

INSTANT = 1e-12
"""Least time of a request where rates are one over it. [s]"""

_SMALL = 1e-4
"""Below it :math:`(r - 1 + e^{-r}) / r^2` is the start of its series. [1]"""


def time_per_output_token(
    t: PassTimes, running: Number, users: Number, load: Load, groups: Number, s: Scheduling
) -> Number:
    r"""Time between a user's tokens, others' prompts included. [s]

    .. math:: t = s / a + \kappa \, w \, \frac{B}{O} \left( \lambda + \frac{1 - \lambda}{g} - \frac{1}{N} \right) P

    In the time of one answer B others finish and B prompts are read, each of which takes P of the steps of
    its own of g groups and, where groups meet in expert exchanges, a part of all. Of N users each sends as many, and
    none of his own before his answer has ended: a single one meets no prompt. Of a wave the average request that is
    admitted at once meets w of them (:func:`prompts_beside_answer`), and the whole who comes later. No step meets more
    prompts than fill a pass.

    Parameters
    ----------
    users : Number
        Requests in the engine; infinite where they arrive by themselves. [requests]
    """
    return time_by_batch(t, users, load, groups, s)(running)


def time_by_batch(t: PassTimes, users: Number, load: Load, groups: Number, s: Scheduling) -> Callable[[Number], Number]:
    """:func:`time_per_output_token` of a batch: a balance asks it in every round, and most of it stays."""
    share, output, most = _share_met(users, groups, s), maximum(load.output, 1.0), prompts_read(load, s)
    part, at_once = _of_wave(users, load, groups, s) if load.wave else (0.0, 0.0)
    alone = t.step / s.accepted(load.drafted)

    def at(running: Number) -> Number:
        met = (part * at_once + (1 - part) * running) / output * share
        return alone + s.interruption * minimum(met, most) * t.beside

    return at


def _of_wave(users: Number, load: Load, groups: Number, s: Scheduling) -> tuple[Number, Number]:
    """Part of a wave that is admitted at once, and prompts that its mean answer meets. [1], [prompts]"""
    at_once = minimum(users, load.concurrency)
    return admitted_share(users, load), at_once * prompts_beside_answer(at_once, load, groups, s)


def admitted_share(users: Number, load: Load) -> Number:
    """Part of the requests of a wave that the engine admits at once, ``users`` of them. [1]"""
    return minimum(users, load.concurrency) / load.concurrency


def batch_of_wave(users: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    r"""Mean batch of the steps of a wave, by tokens: its requests but while prompts are read, or few still answered.

    .. math:: B = N (1 - r / 3) \quad (r \le 1), \qquad B = \frac{N}{r} \left(1 - \frac{1}{3 r}\right) \quad (r > 1)

    with r the steps in which N prompts are read over those of one answer: the batch rises by as many in each. Where
    prompts come first r is 0, and no token is written before all are read. Of answers of exponential lengths

    .. math:: B = N (r - 1 + e^{-r}) / r^2

    since :math:`n' = N / r - n` while prompts are read and :math:`n' = -n` afterwards. [sequences]
    """
    ratio = prefill_ratio(users, load, groups, s)
    alike = np.where(ratio <= 1, 1 - ratio / 3, (1 - 1 / (3 * ratio)) / ratio)
    return users * (load.varied * _of_different_lengths(ratio) + (1 - load.varied) * alike)


def prompts_beside_answer(users: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    r"""Part of a wave's prompts that its mean answer meets: those that are read while it is written. [1]

    .. math:: \frac{1}{2} \quad (r \le 1), \qquad \frac{1}{r} \left(1 - \frac{1}{2 r}\right) \quad (r > 1)

    with r as in :func:`batch_of_wave`: an answer that ends before all prompts are read meets those of its own steps. Of
    answers of exponential lengths it is B / N of there.
    """
    ratio = prefill_ratio(users, load, groups, s)
    alike = np.where(ratio <= 1, 0.5, (1 - 1 / (2 * ratio)) / ratio)
    return load.varied * _of_different_lengths(ratio) + (1 - load.varied) * alike


def prefill_ratio(users: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    """Steps in which the prompts of a wave are read, over those in which one of them is answered. [1]"""
    return maximum(users / groups / (prompts_read(load, s) * maximum(load.output, 1.0)), INSTANT)


def _of_different_lengths(ratio: Number) -> Number:
    r""":math:`(r - 1 + e^{-r}) / r^2`, from its series where it is the difference of nearly equal numbers. [1]"""
    return np.where(ratio < _SMALL, 0.5 - ratio / 6, (ratio + np.expm1(-ratio)) / maximum(ratio, _SMALL) ** 2)


_QUANTILES = -np.log1p(-(np.arange(64) + 0.5) / 64)
"""Lengths of 64 equally likely answers over their mean, exponentially distributed. [1]"""


def of_requests(
    t: PassTimes, users: Number, tpot: Number, load: Load, groups: Number, s: Scheduling
) -> tuple[Number, Number]:
    r"""Mean and median over requests of each one's own time per token. [s], [s]

    In a wave an answer of the first fill waits for half of its prompts, however few tokens it has; no step waits for
    more than fill a pass. Of answers of n tokens, exponential with mean O,

    .. math:: t_n = s / a + \kappa P \, \min(m, \tfrac{1}{2} N w / n)

    with N sequences in the engine, w as in :func:`time_per_output_token` and m the prompts of a full pass. Who comes
    later meets prompts as long as he is answered: the mean is ``tpot``, as it is of answers of one length.

    Parameters
    ----------
    users : Number
        Requests in the engine. [requests]
    tpot : Number
        Mean of all tokens. [s]
    """
    if not load.wave:
        return tpot, tpot
    first = admitted_share(users, load)
    half = 0.5 * users * _share_met(users, groups, s)
    waits = np.asarray(half / maximum(load.output, 1.0))[..., None] / _QUANTILES
    by_length = np.minimum(waits, np.asarray(prompts_read(load, s))[..., None])
    step, price = t.step / s.accepted(load.drafted), s.interruption * t.beside
    middle = len(_QUANTILES) // 2
    mean = first * (step + price * by_length.mean(axis=-1)) + (1 - first) * tpot
    median = first * (step + price * by_length[..., middle]) + (1 - first) * tpot
    varied = np.greater(load.varied, 0)
    return np.where(varied, mean, tpot), np.where(varied, median, tpot)


def _share_met(users: Number, groups: Number, s: Scheduling) -> Number:
    """Part of all prompts that a user meets: those of his group, a part of the other groups', none of his own. [1]"""
    return maximum(s.lockstep + (1 - s.lockstep) / groups - 1 / users, 0.0)


def prompts_read(load: Load, s: Scheduling) -> Number:
    """Prompts that a group reads at most in the time of a user's token: its mixed steps take in a budget of tokens.

    No bound where prompts come first. [prompts]
    """
    budget = load.max_num_batched_tokens / maximum(load.input - load.cached, 1.0) / s.accepted(load.drafted)
    return np.where(np.greater(s.mixed, 0.0), budget, np.inf)


def reads_in_time(t: PassTimes, running: Number, tpot: Number, load: Load, groups: Number, s: Scheduling) -> Mask:
    """Whether prompts come in and are read as fast as answers end: within the time, and the budget of mixed steps."""
    per_group = running / groups / maximum(load.output, 1.0)
    return np.less_equal(per_group * in_turn(t.beside, s), tpot) & np.less_equal(per_group, prompts_read(load, s))


def time_to_first_token(t: PassTimes, limit: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    r"""Time to the first token of a request that was admitted, but for prompts that others send meanwhile. [s]

    .. math:: f = a + P_1 + w + \text{burst}

    with a the time outside the engine, P_1 the prompt read by itself and w until its step begins.
    """
    # Requests that come at once find nobody who is answered.
    present = 0.0 if load.wave else others(limit, groups)
    start = until_begun(t.step, present, load.looks, s)
    return s.arrival + t.alone + start + burst(t, limit, load, groups, s)


def burst(t: PassTimes, limit: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    """Time that the mean first token waits for prompts that came with its own. [s]

    All requests of a wave are received, those without a seat too; then the prompts of a group are read one after the
    other, half of them before the average one. A closed loop starts with such a burst and spreads out: few of its
    requests wait, so that the median does not.
    """
    reception, turn = of_burst(t.prompt, s)
    if load.wave:
        return others(load.concurrency, groups) * reception + others(limit, groups) * turn / 2
    return s.queueing * others(limit, groups) * (reception + turn)


def server_lag(t: PassTimes, limit: Number, load: Load, groups: Number, s: Scheduling) -> Number:
    """Of the time that the mean first token of a wave waits, what the engine does not: it answers meanwhile. [s]"""
    return burst(t, limit, load, groups, s) - others(limit, groups) * t.prompt / 2 if load.wave else 0.0


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


def prompts_met(t: PassTimes, running: Number, busy: Number, load: Load, groups: Number) -> Number:
    r"""Time that a first token of a closed loop waits for prompts that others send meanwhile. [s]

    .. math:: \frac{B/g - 1}{b} \left( P \, (k - 1) \, \tau + P_1^2 / 2 \right)

    with P a prompt in a filled pass: B/g - 1 others of its group finish an answer every b seconds and send a prompt.
    Those that came since the last look are read in the same pass; one that is being read is half read in the mean.

    Parameters
    ----------
    busy : Number
        Time of an answer. [s]
    """
    if load.wave:
        return 0.0
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


def prompts_of_a_step(running: Number, output: Number, drafted: Number, groups: Number, s: Scheduling) -> Number:
    """Prompts that come to one group in the time of a step: as many as answers of its sequences end. [prompts]"""
    return running * s.accepted(drafted) / groups / maximum(output, 1.0)


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
