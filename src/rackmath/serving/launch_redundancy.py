"""What engines are told of copies of experts."""

from __future__ import annotations

from rackmath.serving.quoting import quoted


def redundancy_flags(copies: int, interval: int | None = None) -> dict[str, str]:
    """What each engine is told of copies of experts; empty without any.

    ``interval`` steps lie between two placements by load; None where nothing is moved.
    """
    if not copies:
        return {}
    settings, interval_flag = {"num_redundant_experts": copies}, ""
    if interval is not None:
        settings["step_interval"] = interval
        interval_flag = f" --enable-eplb --eplb-rebalance-num-iterations {interval}"
    return {
        "vllm": f"--enable-eplb --eplb-config {quoted(settings)}",
        "sglang": f"--ep-num-redundant-experts {copies}{interval_flag}",
    }
