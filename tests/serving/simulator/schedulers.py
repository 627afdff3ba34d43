"""Schedulers of engines, step by step, as their published sources have them: oracles of the compiled loop.

One class of requests, no prefix cache, answers as long as users let them be. Written from the rules of vLLM's
``v1/core/sched/scheduler.py``, SGLang's ``schedule_policy.py``, ``schedule_batch.py`` and ``scheduler.py``, and
TensorRT-LLM's ``scheduler_v2.py``, of 2026.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rackmath.serving.simulator.settings import Batching
from rackmath.serving.simulator.times import StepTimes


@dataclass(eq=False)
class Item:
    """A request."""

    name: int
    arrival: float
    prompt: int
    output: int
    computed: int = 0
    """Tokens in the cache."""
    written: int = 0
    blocks: int = 0
    decoding: bool = False
    dropped: int = 0
    first: float = -1.0
    finish: float = -1.0
    refused: bool = False

    @property
    def tokens(self) -> int:
        return self.prompt + self.written


@dataclass
class Engine:
    """What all have in common: a clock, blocks, times of steps."""

    times: StepTimes
    b: Batching
    clock: float = 0.0
    waiting: list[Item] = field(default_factory=list)
    running: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = self.b.memory // self.b.block

    def schedule(self) -> dict[Item, int]:
        """Tokens of each request in the next step."""
        raise NotImplementedError

    def idle(self) -> None:
        """Nothing is left to do for now."""

    def looks(self) -> bool:
        """Whether new requests are looked at before the next step."""
        return True

    def serve(self, items: list[Item]) -> None:
        todo = sorted(items, key=lambda item: (item.arrival, item.name))
        while todo or self.waiting or self.running:
            if not self.waiting and not self.running and todo[0].arrival > self.clock:
                self.idle()
                self.clock = todo[0].arrival
            looks = self.looks()
            while looks and todo and todo[0].arrival <= self.clock:
                self.come(todo.pop(0))
            self.run(self.schedule())

    def come(self, item: Item) -> None:
        """A request joins the queue, unless as many wait as may."""
        item.refused = self.b.queue_limit is not None and len(self.waiting) >= self.b.queue_limit
        if not item.refused:
            self.waiting.append(item)

    def run(self, step: dict[Item, int]) -> None:
        reads = {item: n for item, n in step.items() if not item.decoding}
        writes = [item for item in step if item.decoding]
        tokens = sum(reads.values())
        pairs = sum(n * item.computed + n * (n + 1) / 2 for item, n in reads.items())
        if writes:
            b = len(writes)
            seen = sum(item.computed + 1 for item in writes)
            added = self.times.prompt[tokens + b] - self.times.prompt[b] + self.times.pair * pairs if tokens else 0.0
            self.clock += float(self.times.base[b] + self.times.slope[b] * seen + added)
        elif tokens:
            self.clock += float(self.times.prompt[tokens] + self.times.pair * pairs)
        for item, n in step.items():
            item.computed += n
            if item.computed == item.tokens:
                item.written += 1
                item.first = self.clock if item.first < 0 else item.first
                item.decoding = True
            if item.written == item.output:
                item.finish = self.clock
                self.release(item)
                self.running.remove(item)

    def take(self, item: Item, tokens: int) -> bool:
        """Blocks for the next tokens of a request; false where there are too few."""
        more = -(-(item.computed + tokens) // self.b.block) - item.blocks
        if more > self.free:
            return False
        self.free -= max(more, 0)
        item.blocks += max(more, 0)
        return True

    def release(self, item: Item) -> None:
        self.free += item.blocks
        item.blocks = 0

    def drop(self, item: Item) -> None:
        """What it has stored is lost."""
        self.release(item)
        self.running.remove(item)
        item.computed, item.decoding = 0, False
        item.dropped += 1


class Vllm(Engine):
    """Running requests first, in their order; a place that is missing is the last one's. Then those who wait."""

    def schedule(self) -> dict[Item, int]:
        left, step, preempted = self.b.max_num_batched_tokens, {}, False
        for item in list(self.running):
            n = min(item.tokens - item.computed, left)
            while item in self.running and n > 0 and not self.take(item, n):
                victim = self.running[-1]
                self.drop(victim)
                self.waiting.insert(0, victim)
                preempted = True
            if item not in self.running:
                break
            if n > 0:
                step[item] = n
                left -= n
        while not preempted and self.waiting and left > 0 and len(self.running) < self.b.max_num_seqs:
            item = self.waiting[0]
            # Chunked or not, nobody begins whose prompt has no room.
            if -(-item.tokens // self.b.block) > self.free:
                break
            n = min(item.tokens, left)
            assert self.take(item, n)
            self.running.append(self.waiting.pop(0))
            step[item] = n
            left -= n
        return step


@dataclass
class Sglang(Engine):
    """Prompts first; room for a part of what the running may write; the shortest answers are retracted."""

    ratio: float = 0.7
    full: bool = False
    reading: list[Item] = field(default_factory=list)
    cut: Item | None = None
    """Whose prompt is read over several steps."""

    def idle(self) -> None:
        self.ratio, self.full, self.size = 0.7, False, 0
        self.declines, self.start = 0, 0.7

    def looks(self) -> bool:
        """A decode step counts 1, one that reads prompts 1,000; nothing to do goes round at once."""
        if not self.waiting and not self.running:
            self.skipped = self.b.looks
        if self.skipped >= self.b.looks:
            self.skipped = 0
            return True
        return False

    def rest(self, item: Item) -> int:
        return min(item.output - item.written, 4096)

    def schedule(self) -> dict[Item, int]:
        step = self.prefill()
        if step:
            return step
        before = [item for item in self.running if item.decoding]
        # Some have ended since the last decode step.
        if len(before) < self.size:
            self.full = False
        if not self.take_all(before):
            while not self.take_all([item for item in self.running if item.decoding]):
                order = [item for item in self.running if item.decoding]
                order.sort(key=lambda item: (item.written, -item.prompt), reverse=True)
                self.drop(order[-1])
                self.come(order[-1])
            kept = self.running
            written = sum(item.written for item in kept)
            self.ratio = min(1.0, (written + 20 * len(kept)) / (sum(item.output for item in kept) + 1))
            self.declines = 0
            self.start = self.ratio
            self.full = False
        else:
            self.declines += 1
            self.ratio = max(self.start - (0.7 - 0.098) / 600 * self.declines, 0.098)
        self.size = len(self.running)
        return {item: 1 for item in self.running}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.size, self.declines, self.start, self.skipped = 0, 0, 0.7, 0

    def take_all(self, items: list[Item]) -> bool:
        """Blocks for one more token of each, or none for anybody."""
        need = sum(item.computed % self.b.block == 0 for item in items)
        if need > self.free:
            return False
        return all(self.take(item, 1) for item in items)

    def prefill(self) -> dict[Item, int]:
        step: dict[Item, int] = {}
        if self.full and not self.running:
            self.full, self.size = False, 0
        if (self.full or not self.waiting) and self.cut is None:
            return step
        running = [item for item in self.running if item is not self.cut]
        free = self.free * self.b.block - sum(self.rest(item) for item in running) * self.ratio
        left = self.b.max_num_batched_tokens
        if self.cut is not None:
            item = self.cut
            n = min(item.tokens - item.computed, left)
            assert self.take(item, n)
            step[item] = n
            left -= n
            free -= n
            if n + item.computed == item.tokens:
                free -= self.rest(item) + self.b.block
                self.cut = None
        while self.waiting and left > 0:
            item = self.waiting[0]
            if len(self.running) >= self.b.max_num_seqs or item.tokens + self.rest(item) + self.b.block >= free:
                self.full = True
                break
            n = min(item.tokens, left)
            assert self.take(item, n)
            self.running.append(self.waiting.pop(0))
            step[item] = n
            left -= n
            free -= n + self.b.block
            if n < item.tokens:
                self.cut = item
            else:
                free -= self.rest(item)
        return step

    def run(self, step: dict[Item, int]) -> None:
        reads = [item for item in step if not item.decoding]
        self.skipped += 1000 if reads else 1
        super().run(step)
        if reads:
            # Those who end with their first token leave at once, and are not counted among the running.
            if any(item.finish >= 0 for item in reads):
                self.full = False
            self.size += sum(item.decoding and item.finish < 0 for item in reads)


@dataclass
class Trtllm(Engine):
    """A capacity scheduler, which looks at blocks in the order of arrival, and one of micro-batches, at tokens."""

    active: list[Item] = field(default_factory=list)

    def schedule(self) -> dict[Item, int]:
        self.active = sorted([*self.running, *self.waiting], key=lambda item: (item.arrival, item.name))
        scheduled = self.no_evict() if self.b.preemption == "reserve" else self.max_utilisation()
        left, step = self.b.max_num_batched_tokens, {}
        for item in scheduled:
            n = item.tokens - item.computed
            if n > left:
                break
            left -= n
            if self.b.preemption == "reserve" and item in self.waiting:
                self.free -= self.whole(item)
                item.blocks = self.whole(item)
            elif self.b.preemption != "reserve":
                assert self.take(item, n)
            if item in self.waiting:
                self.waiting.remove(item)
                self.running.append(item)
            step[item] = n
        return step

    def whole(self, item: Item) -> int:
        """Blocks until its end: the last token is stored nowhere (TensorRT-LLM has room for it)."""
        return -(-(item.prompt + item.output - 1) // self.b.block)

    def no_evict(self) -> list[Item]:
        scheduled = [item for item in self.active if item in self.running]
        free = self.free
        for item in self.active:
            if item not in self.waiting:
                continue
            if len(scheduled) >= self.b.max_num_seqs or self.whole(item) > free:
                break
            free -= self.whole(item)
            scheduled.append(item)
        return scheduled

    def max_utilisation(self) -> list[Item]:
        items, at, scheduled, need = list(self.active), 0, [], 0
        while at < len(items):
            item = items[at]
            more = -(-item.tokens // self.b.block) - item.blocks
            if len(scheduled) < self.b.max_num_seqs and need + more <= self.free:
                need += more
                scheduled.append(item)
                at += 1
                continue
            started = [k for k in range(at, len(items)) if items[k] in self.running]
            if not started:
                break
            victim = items[started[-1]]
            self.drop(victim)
            self.waiting.append(victim)
            items = items[: started[-1]]
        return scheduled
