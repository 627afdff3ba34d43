"""Requests that all come at once, as in a one-shot benchmark: those that run at once, those that wait, the last.

Of C requests N run at once, as many as ``max_num_seqs`` and the memory allow. While others wait the engine is a closed
loop of N: when a request ends, the next one is admitted. At the start N prompts come together; at the end none follow.
"""

from __future__ import annotations

import numpy as np

from rackmath.models.numbers import Number, maximum, minimum
from rackmath.serving.balance import LoopBalance, balance
from rackmath.serving.load import Load, PassTimes, Scheduling, Steady
from rackmath.serving.waits import INSTANT, Mask, of_burst, of_its_pass, others, prompts_read

_SMALL = 1e-4
"""Below it :math:`(r - 1 + e^{-r}) / r^2` is the start of its series. [1]"""

_ROUNDING = 1e-9
"""Parts of a request that a division leaves over. [1]"""

_QUANTILES = -np.log1p(-(np.arange(64) + 0.5) / 64)
"""Lengths of 64 equally likely answers over their mean, exponentially distributed. [1]"""


def settled_wave(
    t: PassTimes, limit: Number, capacity: Number, turn: Number, load: Load, groups: Number, s: Scheduling
) -> Steady:
    """What a wave looks like, given the times of its passes: means over its requests, and its own end.

    Parameters
    ----------
    limit : Number
        Requests that run at once. [requests]
    capacity : Number
        Requests that fit. [requests]
    turn : Number
        Time from one prompt that a group reads to the next. [s]
    """
    # A waiting request was received long ago: the next step that is decided reads its prompt.
    loop = balance(t, limit, s.ahead * t.step + t.alone, groups / maximum(turn, INSTANT), load, groups, s)
    running, tpot = _of_tokens(t, limit, loop, load, groups, s)
    mean_of_requests, median_of_requests = _of_requests(t, limit, tpot, load, groups, s)
    mean, median = _starts(t, limit, loop, load, groups, s)
    before = s.arrival + t.alone + others(load.concurrency, groups) * of_burst(t.prompt, s)[0]
    before = before + of_its_pass(t, limit, groups, s)
    return Steady(
        time_per_output_token=tpot,
        time_to_first_token=before + mean,
        median_to_first_token=before + median,
        requests_per_second=load.concurrency / _ending(t, limit, running, loop, load, groups, s),
        running=running,
        decode=t.step,
        prefill=t.prompt,
        capacity=capacity,
        mean_ratio=mean_of_requests / tpot,
        median_ratio=median_of_requests / tpot,
    )


def ends_together(load: Load, s: Scheduling) -> Mask:
    """Whether answers that began in one burst end in one step, however many prompts it had."""
    return np.equal(s.mixed, 0.0) & np.equal(load.varied, 0.0)


def _admitted_share(limit: Number, load: Load) -> Number:
    """Part of the requests of a wave that are admitted at once. [1]"""
    return minimum(limit / load.concurrency, 1.0)


def _starts(
    t: PassTimes, limit: Number, loop: LoopBalance, load: Load, groups: Number, s: Scheduling
) -> tuple[Number, Number]:
    r"""When the prompt of a wave's mean request is read, and that of the one in the middle. [s], [s]

    The first N are read one after the other, every :math:`p` seconds. Answers of one length end in the order in which
    they began, so that the next N begin a round of :math:`N / X` later, where X requests end in a second:

    .. math:: t_i = \lfloor i / N \rfloor \, N / X + (i \bmod N) \, p

    Unequal ones end all the time: :math:`t_i = N p + (i - N) / X` for :math:`i > N`.
    """
    fill, round_time = others(limit, groups) * of_burst(t.prompt, s)[1], limit / loop.rate
    (full, rest), (before, place) = _rounds(load.concurrency / limit), _rounds(load.concurrency / limit / 2)
    later = full + rest - 1
    alike = round_time * (full * (full - 1) / 2 + full * rest) + fill * (full + rest**2) / 2
    unequal = fill / 2 + later * fill + later**2 * round_time / 2
    middle = before * round_time + place * fill
    middle_unequal = minimum(before + place, 1.0) * fill + maximum(before + place - 1, 0.0) * round_time
    is_varied = np.greater(load.varied, 0)
    return np.where(is_varied, unequal, alike) / (full + rest), np.where(is_varied, middle_unequal, middle)


def _rounds(rounds: Number) -> tuple[Number, Number]:
    """Whole rounds of N requests, and the part of another one. [1], [1]"""
    rounds = np.asarray(rounds)
    full = np.floor(rounds * (1 + _ROUNDING))
    return full, np.where(rounds - full > _ROUNDING * rounds, rounds - full, 0.0)


def _ending(
    t: PassTimes, limit: Number, running: Number, loop: LoopBalance, load: Load, groups: Number, s: Scheduling
) -> Number:
    r"""Time of a wave from its start to its last token. [s]

    .. math:: T = a + P_1 + (C/g - 1) \, r h + W + (n/g - 1) \max(P, (1 - r) h) + O \, s_n / a_d + \text{tail}

    The last one is read when all prompts of its group are, and meets none of them afterwards. Of answers of one length
    the last n begin after W, all rounds of N before theirs, and their steps are as much shorter as n is less than the
    mean batch; unequal ones end all the time, so that the last N run after :math:`W = (C - N) / X`. The longest of C
    exponential answers is ln C times the mean one; few sequences run beside it.
    """
    reception, turn = of_burst(t.prompt, s)
    _, rest = _rounds(load.concurrency / limit)
    last = np.where(np.greater(load.varied, 0) | (rest == 0), limit, rest * limit)
    wait = (load.concurrency - last) / loop.rate
    prompt_seconds = s.arrival + t.alone + others(load.concurrency, groups) * reception + others(last, groups) * turn
    step = t.lone_step + (t.step - t.lone_step) * minimum(last / running, 1.0)
    tail = load.varied * load.output * np.log(maximum(load.concurrency, 3.0)) * t.lone_step
    return wait + prompt_seconds + load.output * step / s.accepted(load.draft_tokens) + tail


def _of_tokens(
    t: PassTimes, limit: Number, loop: LoopBalance, load: Load, groups: Number, s: Scheduling
) -> tuple[Number, Number]:
    """Mean batch beside a token, and mean time between tokens. [sequences], [s]

    A part of the requests comes in bursts, whose prompts are met by :func:`prompts_beside_answer`: those that are
    admitted at once; or all, where answers end together, N in a round and the rest in the last one.
    """
    together = ends_together(load, s)
    full, rest = _rounds(load.concurrency / limit)
    part = np.where(together, 1.0, _admitted_share(limit, load))
    size = limit * np.where(together, (full + rest**2) / (full + rest), 1.0)
    others_met = _of_other_passes(t, size, groups, s)
    # Answers of one length stay beside those whose prompts were read in the same pass.
    later = np.where(np.greater(load.varied, 0), loop.beside, others_met * loop.decoding)
    prompts_met = part * others_met * size * prompts_beside_answer(size, load, groups, s) + (1 - part) * later
    prompts_met = minimum(prompts_met / maximum(load.output, 1.0), prompts_read(load, s))
    running = maximum(part * batch_of_wave(size, load, groups, s) + (1 - part) * loop.decoding, 1.0)
    return running, t.step / s.accepted(load.draft_tokens) + s.interruption * prompts_met * t.beside


def _of_other_passes(t: PassTimes, users: Number, groups: Number, s: Scheduling) -> Number:
    """Part of a burst's prompts that a request of it waits for: those that were not read in the pass of its own. [1]"""
    own_pass = minimum(t.together, users / groups) * groups / users
    return (s.lockstep + (1 - s.lockstep) / groups) * (1 - own_pass)


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


def _of_requests(
    t: PassTimes, users: Number, tpot: Number, load: Load, groups: Number, s: Scheduling
) -> tuple[Number, Number]:
    r"""Mean and median over requests of each one's own time per token. [s], [s]

    An answer of those that are admitted at once waits for half of their prompts, however few tokens it has; no step
    waits for more than fill a pass. Of answers of n tokens, exponential with mean O,

    .. math:: t_n = s / a + \kappa P \, \min(m, \tfrac{1}{2} N w / n)

    with N sequences in the engine, w the part of their prompts that one of them waits for and m the prompts of a full
    pass. Later requests meet prompts as long as they are answered: the mean is ``tpot``, as it is of answers of one
    length.

    Parameters
    ----------
    users : Number
        Requests in the engine. [requests]
    tpot : Number
        Mean of all tokens. [s]
    """
    part, half = _admitted_share(users, load), 0.5 * users * _of_other_passes(t, users, groups, s)
    # No answer is shorter than a token.
    waits = np.asarray(half)[..., None] / np.maximum(np.asarray(load.output)[..., None] * _QUANTILES, 1.0)
    by_length = np.minimum(waits, np.asarray(prompts_read(load, s))[..., None])
    step, price = t.step / s.accepted(load.draft_tokens), s.interruption * t.beside
    middle = len(_QUANTILES) // 2
    mean = part * (step + price * by_length.mean(axis=-1)) + (1 - part) * tpot
    median = part * (step + price * by_length[..., middle]) + (1 - part) * tpot
    is_varied = np.greater(load.varied, 0)
    return np.where(is_varied, mean, tpot), np.where(is_varied, median, tpot)
