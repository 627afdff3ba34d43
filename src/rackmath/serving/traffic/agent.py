"""What tasks of an agent are like: turns, tools that take time, subagents; requests are drawn from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError
from rackmath.serving.simulator.graph import graph_of
from rackmath.serving.simulator.workload import LONGEST, Arrivals, lengths, log_normal

Names: TypeAlias = NDArray[np.int64]
"""Of blocks."""

_ALL = 1e-6
"""By which shares may miss their sum."""
_TURNS = 10_000
"""Of a context, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that turns call."""

    name: str
    share: float
    """Of turns. [1]"""
    time: float
    """Mean of one call. [s]"""
    time_spread: float = 0.0
    """Standard deviation over the mean; log-normal, as all lengths and times here. [1]"""
    tokens: float = 0.0
    """Mean that one call adds to the context. [tokens]"""
    tokens_spread: float = 0.0
    calls: int = 1
    """At once; the next turn waits for the slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How a context begins and grows."""

    prefix: int = 0
    """Tokens that all contexts of this kind begin with: system prompt and descriptions of tools. [tokens]"""
    first: float
    """Mean that a context adds to them at its beginning. [tokens]"""
    first_spread: float = 0.0
    turns: float
    """Mean, one for each request. [1]"""
    turns_spread: float = 0.0
    output: float
    """Mean of an answer. [tokens]"""
    output_spread: float = 0.0
    answer_in_context: float = 1.0
    """Part of an answer that stays in the context; reasoning may not. [1]"""
    compact_at: int | None = None
    """Context at which a summary takes the place of what was said. [tokens]"""
    compact_to: int = 0
    """[tokens]"""
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subagents(Context):
    """Contexts of their own that a turn begins, all at once; the next turn waits for the last of them."""

    share: float
    """Of turns. [1]"""
    count: int = 1
    inherits: bool = False
    """Whether each begins with all of the context that begins it, in place of ``prefix``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModel(Context):
    """An agent from which tasks can be drawn."""

    subagents: tuple[Subagents, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no tasks can be drawn from.

        Errors: :class:`InputError` with the field.
        """
        _check(self, "agent", [s.share for s in self.subagents])
        for k, subagent in enumerate(self.subagents):
            place = f"agent.subagents {k + 1}"
            _check(subagent, place, [])
            _between(f"{place}: count", subagent.count, 1, 1000)
            _between(f"{place}: share", subagent.share, 0, 1)


def _check(context: Context, place: str, shares: list[float]) -> None:
    """Numbers of a context and of its tools, whose shares are all of its turns."""
    for name, low, high in (
        ("prefix", 0, LONGEST), ("first", 1, LONGEST), ("turns", 1, _TURNS), ("output", 1, LONGEST),
        ("first_spread", 0, 10), ("turns_spread", 0, 10), ("output_spread", 0, 10), ("answer_in_context", 0, 1),
    ):  # fmt: skip
        _between(f"{place}: {name}", getattr(context, name), low, high)
    if context.compact_at is not None:
        _between(f"{place}: compact_to", context.compact_to, 1, context.compact_at - context.prefix - 1)
    for tool in context.tools:
        subject = f"{place}, tool {tool.name}"
        for name, low, high in (
            ("share", 0, 1), ("time", 0, 1e7), ("time_spread", 0, 10), ("tokens", 0, LONGEST), ("tokens_spread", 0, 10),
            ("calls", 1, 1000),
        ):  # fmt: skip
            _between(f"{subject}: {name}", getattr(tool, name), low, high)
    every = [tool.share for tool in context.tools] + shares
    if every and abs(sum(every) - 1) > _ALL:
        raise InputError(f"{place}: share", sum(every), "shares of tools and subagents add up to 1")


def _between(field: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(field, value, f"write a number from {low:g} to {high:,g}")


@dataclass(slots=True)
class _History:
    """A context so far."""

    length: int
    """[tokens]"""
    names: Names
    """Of its whole blocks; those of its last answer among them."""


@dataclass(slots=True)
class _Requests:
    """Requests so far."""

    block: int
    prompt: list[int] = field(default_factory=list[int])
    output: list[int] = field(default_factory=list[int])
    answer_blocks: list[int] = field(default_factory=list[int])
    blocks: list[Names] = field(default_factory=list[Names])
    edges: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])
    many: int = 0
    """Names that are taken."""

    def names(self, count: int) -> Names:
        """Names of blocks that no other has."""
        self.many += count
        return np.arange(self.many - count, self.many)

    def request(self, history: _History, answer: int, waits: list[tuple[int, float]]) -> int:
        """Send a context; returns the number of the request."""
        # The last token of an answer is written, not read: it is in no cache.
        whole, stored_blocks = history.length // self.block, (history.length + answer - 1) // self.block
        history.names = np.concatenate((history.names, self.names(max(stored_blocks - len(history.names), 0))))
        self.edges += [(source, len(self.prompt), delay) for source, delay in waits]
        self.prompt.append(history.length)
        self.output.append(answer)
        self.answer_blocks.append(stored_blocks - whole)
        self.blocks.append(history.names[:stored_blocks])
        return len(self.prompt) - 1


def draw_tasks(agent: AgentModel, requests: int, block: int, random: np.random.Generator) -> Arrivals:
    """Tasks, whole ones, until there are so many requests; nobody begins them yet.

    Parameters
    ----------
    block : int
        Tokens of a prefix block. [tokens]
    """
    calls = _Requests(block)
    own_names, *shared_names = [calls.names(kind.prefix // block) for kind in (agent, *agent.subagents)]
    parts: list[int] = []
    while len(calls.prompt) < requests:
        before = len(calls.prompt)
        _context(calls, agent, _History(agent.prefix, own_names), [], shared_names, random)
        parts.append(len(calls.prompt) - before)
    edges = np.array(calls.edges, np.float64).reshape(-1, 3)
    count = len(calls.prompt)
    return Arrivals(
        arrival=np.full(count, np.nan),
        prompt=np.array(calls.prompt, np.int32),
        output=np.array(calls.output, np.int32),
        rank=np.zeros(count, np.int32),
        start=np.concatenate(([0], np.cumsum([len(call_blocks) for call_blocks in calls.blocks]))).astype(np.int64),
        blocks=np.concatenate(calls.blocks),
        answer_blocks=np.array(calls.answer_blocks, np.int32),
        block=block,
        graph=graph_of(count, edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64), edges[:, 2]),
        task=np.repeat(np.arange(len(parts), dtype=np.int32), parts),
    )


def _context(
    requests: _Requests,
    kind: Context,
    history: _History,
    waits: list[tuple[int, float]],
    shared_names: Sequence[Names],
    random: np.random.Generator,
) -> int:
    """Requests of one context, and of those that it begins; returns the last one.

    Parameters
    ----------
    history : _History
        With which it begins.
    waits : list of (int, float)
        Requests whose answers its first one waits for, and the time from then. [s]
    shared_names : sequence of array
        Names of the blocks that contexts of each kind of subagents begin with.
    """
    subagents = kind.subagents if isinstance(kind, AgentModel) else ()
    turns = min(_length(kind.turns, kind.turns_spread, random), _TURNS)
    answers = lengths(kind.output, kind.output_spread, turns, random).tolist()
    parts = np.cumsum([*(tool.share for tool in kind.tools), *(subagent.share for subagent in subagents)])
    length = _length(kind.first, kind.first_spread, random)
    last = -1
    for n, answer in enumerate(answers):
        history.length += length
        if kind.compact_at is not None and history.length > kind.compact_at:
            # A summary shares with what was said only what all contexts begin with.
            history = _History(kind.prefix + kind.compact_to, history.names[: kind.prefix // requests.block])
        last = requests.request(history, answer, waits)
        history.length += round(kind.answer_in_context * answer)
        if kind.answer_in_context < 1:
            history.names = history.names[: requests.prompt[last] // requests.block]
        length, waits = 0, [(last, 0.0)]
        if n + 1 == turns or not len(parts):
            continue
        choice = min(int(np.searchsorted(parts, random.random(), side="right")), len(parts) - 1)
        if choice < len(kind.tools):
            length, time = _called(kind.tools[choice], random)
            waits = [(last, time)]
        else:
            subagent_place = choice - len(kind.tools)
            length, waits = _forked(
                requests, subagents[subagent_place], history, last, shared_names[subagent_place], random
            )
    return last


def _called(tool: Tool, random: np.random.Generator) -> tuple[int, float]:
    """Tokens that calls at once add, and the time of the slowest. [tokens], [s]"""
    times = log_normal(tool.time, tool.time_spread, tool.calls, random)
    tokens = log_normal(tool.tokens, tool.tokens_spread, tool.calls, random)
    return round(float(tokens.sum())), float(times.max())


def _forked(
    requests: _Requests, kind: Subagents, parent: _History, after: int, names: Names, random: np.random.Generator
) -> tuple[int, list[tuple[int, float]]]:
    """Contexts that begin after a request: the tokens of their last answers, and whom the next turn waits for."""
    waits: list[tuple[int, float]] = []
    for _ in range(kind.count):
        history = _History(parent.length, parent.names) if kind.inherits else _History(kind.prefix, names)
        waits.append((_context(requests, kind, history, [(after, 0.0)], (), random), 0.0))
    return sum(requests.output[last] for last, _ in waits), waits


def _length(mean: float, spread: float, random: np.random.Generator) -> int:
    return int(lengths(mean, spread, 1, random)[0])
