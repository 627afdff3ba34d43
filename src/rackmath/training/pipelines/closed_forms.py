r"""Bubbles by formula, with their terms for communication and where they hold.

S is the time of a whole rank's forward and both backward passes of one micro-batch, c one send,
p stages, m micro-batches, v chunks. Where a form does not hold, the scheduler does.
"""

from __future__ import annotations

from rackmath.errors import InputError

FORMS = ("gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved")


def bubble(
    name: str,
    stages: int,
    microbatches: int,
    forward: float,
    backward_input: float,
    backward_weight: float,
    send_time: float = 0.0,
    chunks: int = 1,
) -> float:
    r"""Time that the rank which takes longest waits, from its first start to its last end. [s]

    1F1B: :math:`(p-1) S + 2 c ((p-1)(m/p + 1) - 1)`, for p that divides m. ZB-H1:
    :math:`(p-1)(F + B - W + 4c)`, ZB-H2: :math:`(p-1)(F + B - 2W + 2c)`, both while
    W is below F and F about B. GPipe and the interleaved schedule without sends: (p-1) S and (p-1) S / v.

    Source: Qi et al. 2024, Table 2; Narayanan et al. 2021; the terms in c are this project's, checked
    against the scheduler. Errors: :class:`InputError` outside of where a form holds.
    """
    p, m, c = stages, microbatches, send_time
    whole = forward + backward_input + backward_weight
    if name not in FORMS:
        raise InputError("schedule", name, f"has no closed form here; those that have are {', '.join(FORMS)}")
    if name in ("gpipe", "interleaved"):
        if c:
            raise InputError("send_time", c, f"the form of {name} has none: run the scheduler")
        return (p - 1) * whole / (chunks if name == "interleaved" else 1)
    if m % p:
        raise InputError("microbatches", m, f"the form holds for multiples of {p} stages")
    if name == "1f1b":
        return (p - 1) * whole + 2 * c * ((p - 1) * (m / p + 1) - 1)
    if backward_weight > forward:
        raise InputError("backward_weight", backward_weight, "the form holds while it is below the forward pass")
    if name == "zb-h1":
        return (p - 1) * (forward + backward_input - backward_weight + 4 * c)
    return (p - 1) * (forward + backward_input - 2 * backward_weight + 2 * c)
