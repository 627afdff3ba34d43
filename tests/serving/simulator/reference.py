"""A replica that steps through every iteration, as plainly as it can be written: the oracle of the compiled loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf

from rackmath.serving.simulator.settings import Batching
from rackmath.serving.simulator.times import StepTimes


@dataclass
class One:
    name: int
    arrival: float
    prompt: int
    steps: int
    growth: float
    rank: int
    path: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    """Blocks that its answer fills."""
    todo: int = 0
    stored: float = 0.0
    left: int = 0
    held: int = 0
    done: bool = False
    admitted: float = inf
    first: float | None = None
    finish: float = inf
    refused: float = inf
    dropped: int = 0
    hit: int = 0
    uses: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.todo, self.left = self.prompt, self.steps


@dataclass
class Reference:
    times: StepTimes
    b: Batching
    swap: float = 0.0
    prefix: int = 0
    """Tokens of a prefix block in a cache that shares its memory with running requests; 0 for none."""
    kept: list[int] = field(default_factory=list)
    """Blocks that nobody uses, the longest unused first."""
    clock: float = 0.0
    began: float = 0.0
    waiting: list[One] = field(default_factory=list)
    reading: list[One] = field(default_factory=list)
    running: list[One] = field(default_factory=list)
    width: int = 0
    stall: float = 0.0
    looked: float = 0.0
    skipped: int = 0
    served: dict[int, float] = field(default_factory=dict)
    """Virtual token counters, by class."""
    last: int = -1

    def __post_init__(self) -> None:
        self.blocks = self.b.memory // self.b.block

    @property
    def free(self) -> int:
        inside = (*self.reading, *self.running)
        shared = {one for other in inside for one in other.uses}
        return self.blocks - sum(one.held for one in inside) - len(shared) * self.per

    @property
    def per(self) -> int:
        return self.prefix // self.b.block

    def begin(self, one: One) -> None:
        """Look the prefix up, then use its blocks; what no longer fits is forgotten."""
        inside = {b for other in (*self.reading, *self.running) for b in other.uses}
        whole = one.path[: one.prompt // self.prefix]
        found = 0
        while found < len(whole) and (whole[found] in inside or whole[found] in self.kept):
            found += 1
        hit = min(found * self.prefix, one.prompt - 1, one.todo - 1)
        one.hit = one.hit if one.dropped else hit
        one.stored, one.todo, one.uses = float(hit), one.todo - hit, whole
        self.kept = [b for b in self.kept if b not in whole]

    def release(self, one: One) -> None:
        """Its blocks may be found until others need the room."""
        inside = {b for other in (*self.reading, *self.running) if other is not one for b in other.uses}
        for b in reversed(one.uses):
            if b not in inside:
                self.kept.append(b)
        one.uses, one.held = [], 0

    def end(self, one: One) -> None:
        """Its prompt and its answer may be found."""
        one.finish = self.clock
        self.release(one)
        inside = {b for other in (*self.reading, *self.running) for b in other.uses}
        for b in reversed(one.written):
            if b in self.kept:
                self.kept.remove(b)
            if b not in inside:
                self.kept.append(b)

    def forget(self) -> None:
        while len(self.kept) * self.per > self.free:
            self.kept.pop(0)

    def serve(self, requests: list[One]) -> None:
        todo = sorted(requests, key=lambda one: (one.arrival, one.name))
        while todo or self.waiting or self.reading or self.running:
            if not (self.waiting or self.reading or self.running) and todo[0].arrival > self.clock:
                self.clock = todo[0].arrival
                if self.b.policy == "fixed-interval":
                    self.clock = ceil(self.clock / self.b.period) * self.b.period
            while todo and todo[0].arrival <= self.clock:
                self.come(todo.pop(0))
            self.step()

    def come(self, one: One) -> None:
        """A class of which nobody waits begins where those are who do, or the last one who did."""
        if self.full(one):
            return
        self.served.setdefault(one.rank, 0.0)
        if not any(other.rank == one.rank for other in self.waiting):
            least = min((self.served[other.rank] for other in self.waiting), default=self.served.get(self.last, 0.0))
            self.served[one.rank] = max(self.served[one.rank], least)
        self.waiting.append(one)

    def full(self, one: One) -> bool:
        """Whether one that comes is refused; another, less urgent one may be refused in its place."""
        if self.b.queue_limit is None or len(self.waiting) < self.b.queue_limit:
            return False
        last = max(self.waiting, key=lambda other: other.rank).rank
        if last > one.rank and self.b.scheduling == "priority":
            other = [other for other in self.waiting if other.rank == last][-1]
            self.waiting.remove(other)
            other.refused = one.arrival
            return False
        one.refused = one.arrival
        return True

    def wrote(self, one: One, tokens: float) -> None:
        self.served[one.rank] += 2 * tokens / (self.b.class_weights[one.rank] if self.b.class_weights else 1)

    def begun(self, tokens: int) -> float:
        """Time in which the host starts a step of so many tokens that reads prompts."""
        return self.b.start_captured if tokens <= self.b.captured else self.b.start

    def step(self) -> None:  # noqa: C901
        mixed = self.b.policy in ("chunked", "fixed-interval", "unchunked")
        self.look()
        if not (mixed and self.room()):
            self.admit()
        parts = self.parts()
        tokens = sum(n for _, n in parts)
        decodes = bool(self.running) and (mixed or not tokens)
        if decodes and not mixed:
            self.room()
        if not tokens and not decodes:
            return
        began = self.clock
        stalled, self.stall = self.stall, 0.0
        time = stalled
        written = len(self.running) * (1 + int(self.b.draft_tokens))
        both = min(tokens + written, self.b.max_num_batched_tokens)
        if tokens:
            pairs = sum(n * one.stored + n * (n + 1) / 2 for one, n in parts)
            if decodes:
                before = min(written, self.b.max_num_batched_tokens)
                added = self.times.prompt[both] - self.times.prompt[before] + self.times.pair * pairs
                time += added * self.b.share
            else:
                time += max(self.times.prompt[tokens] + self.times.pair * pairs, self.begun(tokens))
        if decodes:
            b = self.width if self.b.policy == "static" else len(self.running)
            seen = sum(one.stored + 1 for one in self.running)
            time += float(self.times.base[b] + self.times.slope[b] * seen)
            if tokens:
                time = max(time, stalled + self.begun(both))
        if self.b.policy == "fixed-interval":
            time = max(1.0, ceil(time / self.b.period - 1e-9)) * self.b.period
        self.clock += time
        self.began = began
        self.skipped += self.b.looks if tokens else 1
        if decodes:
            for one in self.running:
                if self.b.preemption != "reserve" and one.stored % self.b.block == 0:
                    one.held += 1
                one.stored += one.growth
                if one.left > 0:
                    self.wrote(one, one.growth)
                one.left -= 1
            self.forget()
        for one, n in parts:
            one.todo -= n
            one.stored += n
        ended = [one for one in self.running if one.left <= 0]
        if ended and (self.b.policy != "static" or len(ended) == len(self.running)):
            for one in sorted(ended, key=lambda one: (one.left, one.name)):
                self.running.remove(one)
                self.end(one)
        for one in [one for one in self.reading if one.todo == 0]:
            self.reading.remove(one)
            # Until it decodes or ends it stands nowhere, but its blocks are still its own.
            if one.first is None:
                one.first = self.clock
                self.wrote(one, 1)
            else:
                one.left -= 1
                self.wrote(one, one.growth)
            if one.left:
                self.running.append(one)
            else:
                self.end(one)

    def look(self) -> None:
        """See who has come: after so many decode steps, after one that reads prompts, and where nothing is to do."""
        idle = not (self.running or self.reading or any(one.arrival <= self.looked for one in self.waiting))
        if idle or self.skipped >= self.b.looks:
            self.looked = self.began if self.b.ahead and not idle else self.clock
            self.skipped = 0

    def admit(self) -> None:  # noqa: C901
        if self.b.policy in ("static", "decode-first") and self.running:
            return
        if self.b.policy == "static" and self.reading:
            return
        seen = self.began if self.b.ahead and (self.running or self.reading) else inf
        if self.b.looks > 1:
            seen = self.looked
        while True:
            fair = self.b.scheduling == "vtc"
            self.waiting.sort(key=lambda one: (self.served[one.rank] if fair else 0, one.rank))
            known = [
                one for at, one in enumerate(self.waiting)
                if all(other.arrival <= seen for other in self.waiting[: at + 1] if other.rank == one.rank)
            ]  # fmt: skip
            if not known:
                break
            one = known[0]
            if self.b.policy in ("chunked", "fixed-interval", "unchunked"):
                left = self.left()
                if left <= 0 or (
                    self.b.policy == "unchunked"
                    and left < one.todo
                    and one.todo + one.stored <= self.b.max_num_batched_tokens
                ):
                    break
            length = one.todo + ceil(one.stored)
            if len(self.running) + len(self.reading) >= self.b.max_num_seqs:
                break
            grown = one.left * one.growth if self.b.preemption == "reserve" else 0.0
            need = room = ceil((length + grown) / self.b.block)
            sharing = self.prefix > 0 and one.todo > 0 and one.stored == 0
            if sharing:
                inside = {b for other in (*self.reading, *self.running) for b in other.uses}
                whole = one.path[: one.prompt // self.prefix]
                need -= len(whole) * self.per
                room = need + len(set(whole) - inside) * self.per
            mixed = self.b.policy in ("chunked", "fixed-interval", "unchunked")
            air = 1 if one.left and self.b.preemption != "reserve" and not (mixed and one.todo) else 0
            if room + air > self.free - (self.growing() if mixed else 0):
                break
            self.waiting.remove(one)
            if sharing:
                self.begin(one)
            one.held = 0 if one.todo and self.pieces else need
            if one.admitted == inf:
                self.served[one.rank] += one.prompt / (self.b.class_weights[one.rank] if self.b.class_weights else 1)
            self.last = one.rank
            one.admitted = min(one.admitted, self.clock)
            if one.todo == 0:
                self.stall += self.swap * need
                self.running.append(one)
            else:
                if one.dropped == 0:
                    self.stall += self.times.images
                self.reading.append(one)
                self.take(one)
                if self.b.policy == "static":
                    self.width = len(self.reading)
            self.forget()

    @property
    def pieces(self) -> bool:
        return self.b.policy in ("chunked", "fixed-interval") and self.b.preemption != "reserve"

    def growing(self) -> int:
        if self.b.preemption == "reserve":
            return 0
        return sum(one.stored % self.b.block == 0 for one in self.running)

    def parts(self) -> list[tuple[One, int]]:
        """What the next step reads."""
        left = self.b.max_num_batched_tokens
        if self.b.policy in ("chunked", "fixed-interval", "unchunked"):
            left -= len(self.running) * (1 + self.b.draft_tokens)
        parts: list[tuple[One, int]] = []
        for one in self.reading:
            n = min(one.todo, left)
            if n <= 0 or (
                self.b.policy == "unchunked" and n < one.todo and one.todo + one.stored <= self.b.max_num_batched_tokens
            ):
                break
            parts.append((one, n))
            left -= n
        return parts

    def left(self) -> int:
        return (
            self.b.max_num_batched_tokens
            - len(self.running) * (1 + self.b.draft_tokens)
            - sum(n for _, n in self.parts())
        )

    def take(self, one: One) -> bool:
        """Blocks for what the next step reads of a prompt."""
        n = next((n for other, n in self.parts() if other is one), 0)
        if not (self.pieces and n):
            return True
        have = one.held + len(one.uses) * self.per
        more = max(ceil((one.stored + n) / self.b.block) - have, 0)
        if more > self.free - self.growing():
            return False
        one.held += more
        self.forget()
        return True

    def room(self) -> bool:
        """Make room for the next step; whether anybody lost its place."""
        lost = False
        while self.growing() > self.free or not all(self.take(one) for one in self.reading):
            lost = True
            fair = self.b.scheduling == "vtc"
            last = max(one.rank for one in (*self.running, *self.reading))
            victim = [one for one in (*self.running, *self.reading) if fair or one.rank == last][-1]
            self.release(victim)
            victim.dropped += 1
            self.waiting.insert(0, victim)
            if victim in self.reading:
                self.reading.remove(victim)
                victim.todo, victim.stored = victim.todo + ceil(victim.stored), 0.0
                continue
            self.running.remove(victim)
            if self.b.preemption == "swap":
                self.stall += self.swap * ceil(victim.stored / self.b.block)
            else:
                victim.todo, victim.stored = ceil(victim.stored) + 1, 0.0
        return lost
