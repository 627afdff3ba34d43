"""Tables of sessions by the lengths of their turns and the latencies of their tools (Applied Compute's)."""

from __future__ import annotations

from typing import Any, cast

from rackmath.errors import InputError
from rackmath.io.agent_traces.calls import Call, Wait
from rackmath.io.agent_traces.fields import Object, Rows, is_number, whole
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
        answers, results, latencies = (_numbers(row, name, turns, place) for name in _LISTS)
        prompt, name = whole(row, ("input_prompt_length",), place), f"session {n + 1}"
        last = whole(row, ("final_assistant_response_length",), place)
        for k, answer in enumerate([*answers, last]):
            waits = [Wait(f"{name} {k - 1}", latencies[k - 1])] if k else []
            calls.append(
                Call(
                    name=f"{name} {k}", place=place, prompt=int(prompt), output=max(int(answer), 1), session=name,
                    task=name, waits=waits, blocks=[f"{name} {b}" for b in range(int(prompt) // block)],
                )
            )  # fmt: skip
            if k < turns:
                prompt += answer + results[k]
    return calls


def _numbers(row: Object, name: str, turns: int, place: str) -> list[float]:
    highest = LONGEST_WAIT if name == "tool_call_latency" else LONGEST
    values = cast(Any, row.get(name))
    if not isinstance(values, list) or len(cast(list[Any], values)) != turns:
        raise InputError(f"{place}: {name}", values, f"write {turns} numbers, one for each turn")
    for value in cast(list[Any], values):
        if not is_number(value, 0, highest):
            raise InputError(f"{place}: {name}", value, f"write numbers from 0 to {highest:g}")
    return cast(list[float], values)
