"""What a row measures: the kind of its load and the quantity."""

from __future__ import annotations

from rackmath.errors import NotUnderstood
from rackmath.validation.rows import Row

SERVICE = ("closed", "wave", "full", "server", "open", "pools")
"""Kinds of question that are a service under load; the others are single passes or training."""

PER_TOKEN = ("tpot", "tpot_median", "itl")
"""Times per token: mean and median over requests of each one's own, and mean between messages, which are tokens where
nothing is drafted."""

TIMES = (*PER_TOKEN, "ttft", "ttft_median", "latency")
"""Quantities that are times; the others are rates."""

_QUANTITIES = {
    "tpot": "tpot",
    "itl": "itl",
    "ttft": "ttft",
    "e2e": "latency",
    "output_throughput": "output",
    "total_throughput": "total",
    "request_throughput": "requests",
    "decode_speed": "tokens",
    "prefill_speed": "tokens",
    "train_throughput": "tokens",
}

_ARRIVALS = {
    "closed": "closed",
    "all_at_once": "wave",
    "constant": "open",
    "poisson": "open",
    "offline": "full",
    "server": "server",
    "static_batch": "static",
    "single": "static",
}


def kind_of(row: Row) -> tuple[str, str]:
    """Kind and quantity of a row.

    Errors: :class:`NotUnderstood` by the name of the column.
    """
    quantity = _quantity(row)
    if row.phase == "training" or row.metric == "train_throughput":
        return "train", "tokens"
    if row.statistic.startswith("p") and row.statistic != "p50":
        reason = "percentiles are simulated, of services and by the shipped constants"
        raise NotUnderstood("statistic", row.statistic, reason)
    if row.phase == "decode" or row.metric == "decode_speed":
        return "decode", "latency" if quantity in PER_TOKEN else "tokens"
    if row.phase == "prefill" or row.metric == "prefill_speed":
        return "prefill", "latency" if quantity == "ttft" else "tokens"
    return _service(row, quantity)


def _quantity(row: Row) -> str:
    if row.metric not in _QUANTITIES:
        reason = {
            "time_to_train": "depends on the samples to converge, which no column states",
            "train_tflops": "counts FLOPs by a formula that no column states; give train_throughput",
        }.get(row.metric, f"write one of {', '.join(_QUANTITIES)}")
        raise NotUnderstood("metric", row.metric, reason)
    return _QUANTITIES[row.metric]


def _service(row: Row, quantity: str) -> tuple[str, str]:
    """Kind of a service by how its requests arrive, and its quantity."""
    arrivals = row.arrivals or ("closed" if row.concurrency else "open" if row.request_rate else "")
    if arrivals not in _ARRIVALS:
        raise NotUnderstood("arrivals", row.arrivals, f"write one of {', '.join(_ARRIVALS)}")
    kind = _ARRIVALS[arrivals]
    if kind == "closed" and row.flag("one_wave_suspected"):
        kind = "wave"
    if kind == "wave" and not (row.num_requests or row.load):
        # So many that the engine is full as long as is measured.
        kind = "full"
    if kind == "static" and quantity == "ttft":
        return "prefill", "latency"
    if kind == "static" and quantity in PER_TOKEN:
        return "decode", "latency"
    if kind == "server" and quantity in (*PER_TOKEN, "ttft", "latency"):
        raise NotUnderstood("metric", row.metric, "times of a server at its limits need its rate: request_rate")
    if quantity in ("ttft", "tpot") and row.statistic == "p50":
        quantity += "_median"
    return kind, quantity
