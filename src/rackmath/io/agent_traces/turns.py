"""Tables of sessions by the lengths of their turns and the latencies of their tools (Applied Compute's)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call, Wait, whole, with_own_blocks
from rackmath.io.agent_traces.mooncake import Rows
from rackmath.serving.simulator.graph import LONGEST_WAIT
from rackmath.serving.simulator.workload import LONGEST

_LISTS = ("assistant_response_length", "tool_call_output_length", "tool_call_latency")


def of_turns(rows: Rows, block: int) -> list[Call]:
    """Sessions of calls whose prompts grow by the answers and by what tools return, then one last answer.

    The format is that of https://github.com/Applied-Compute/trie; latencies are in seconds.
    """
    calls: list[Call] = []
    for n, (place, row) in enumerate(rows):
        turns = whole(row, ("num_turns",), place, least=0)
        answers, returned, latencies = (_numbers(row, name, turns, place) for name in _LISTS)
        prompt, name = whole(row, ("input_prompt_length",), place), f"session {n + 1}"
        last = whole(row, ("final_assistant_response_length",), place)
        for k, answer in enumerate([*answers, last]):
            waits = [Wait(f"{name} {k - 1}", latencies[k - 1])] if k else []
            calls.append(
                Call(
                    name=f"{name} {k}", place=place, prompt=int(prompt), output=max(int(answer), 1), session=name,
                    task=name, waits=waits,
                )
            )  # fmt: skip
            if k < turns:
                prompt += answer + returned[k]
    return with_own_blocks(calls, block)


def _numbers(row: Mapping[str, Any], name: str, turns: int, place: str) -> list[float]:
    values: Any = row.get(name)
    if not isinstance(values, list) or len(values) != turns:  # pyright: ignore[reportUnknownArgumentType]
        raise InputError(f"{place}: {name}", values, f"write {turns} numbers, one for each turn")
    highest = LONGEST_WAIT if name == "tool_call_latency" else LONGEST
    for value in values:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= highest:
            raise InputError(f"{place}: {name}", value, f"write numbers from 0 to {highest:g}")
    return values  # pyright: ignore[reportUnknownVariableType]
