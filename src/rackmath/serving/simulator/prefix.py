"""Prefix caches in tiers, compiled: what is found, what is brought up, what is given up.

A tier of a replica is a list by last use; a tier that all replicas have in common is one more row of the same arrays.
"""

from __future__ import annotations

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.fixed import LFU, NONE, TTL, Kinds, RunConstants
from rackmath.serving.simulator.state import PrefixCaches, Replicas, Requests


@compiled
def leading_blocks(f: RunConstants, c: PrefixCaches, q: Requests, r: int, i: int, now: float) -> int:
    """Blocks of a request that the caches of a replica hold, from its beginning without a gap."""
    request = q[i]
    n = 0
    expire(f, c, r, now)
    for at in range(request.start, request.start + whole_blocks(f, q, i)):
        if _tier(f, c, r, c.ids[at], now) == NONE:
            break
        n += 1
    return n


@compiled
def look_up(f: RunConstants, c: PrefixCaches, q: Requests, r: int, i: int, now: float) -> tuple[int, float]:
    """Look a request's blocks up: tokens found, and the time to bring them from their tiers."""
    request = q[i]
    blocks, time, last, most = 0, 0.0, NONE, whole_blocks(f, q, i)
    expire(f, c, r, now)
    for tier in range(len(f.capacity)):
        c.hit_blocks[i, tier] = 0
    for at in range(request.start, request.stop):
        c.lookups[0] += 1
        block = c.ids[at]
        if blocks != at - request.start or blocks == most:
            continue
        tier = _tier(f, c, r, block, now)
        if tier == NONE:
            continue
        blocks += 1
        c.lookups[1 + tier] += 1
        c.hit_blocks[i, tier] += 1
        time += f.load[tier]
        if tier != last:
            time += f.latency[tier]
            last = tier
    return blocks * f.prefix, time


@inlined
def whole_blocks(f: RunConstants, q: Requests, i: int) -> int:
    """Prefix blocks of a request that can be found: where they are shared, only those that its prompt fills."""
    request = q[i]
    n = request.stop - request.start
    return min(n, request.prompt // f.prefix) if f.shared else n


@inlined
def unused_blocks(f: RunConstants, c: PrefixCaches, q: Requests, r: int, i: int) -> int:
    """Blocks of a request that no running one uses."""
    request = q[i]
    n = 0
    for at in range(request.start, request.start + whole_blocks(f, q, i)):
        n += c.uses[r, c.ids[at]].pins == 0
    return n


@inlined
def expire(f: RunConstants, c: PrefixCaches, r: int, now: float) -> None:
    """Under ttl, forget what nobody has used for too long, as of the moment at which it was too long."""
    if f.eviction != TTL:
        return
    for tier in range(len(f.capacity)):
        row = _row(f, c, r, tier)
        block = c.shelves[row, tier].oldest
        while block != NONE and now - c.uses[row, block].used > f.lifetime:
            _forget(f, c, row, tier, block, now)
            block = c.shelves[row, tier].oldest


@compiled
def pin(f: RunConstants, c: PrefixCaches, q: Requests, r: int, i: int, now: float) -> None:
    """A request begins to use its blocks; those that nobody else uses take their place in the cache."""
    request = q[i]
    request.pinned = whole_blocks(f, q, i)
    for at in range(request.start + request.pinned - 1, request.start - 1, -1):
        block = c.ids[at]
        _use(f, c, r, block, now)
        c.uses[r, block].pins += 1
        if c.uses[r, block].pins == 1 and c.links[r, 0, block].inside:
            _unlink(c, r, 0, block, now)
        _below(f, c, r, block, now)


@inlined
def unpin(f: RunConstants, c: PrefixCaches, q: Requests, r: int, i: int, now: float) -> int:
    """A request needs its blocks no more, its last one first; returns the room of those that nobody uses now."""
    request = q[i]
    room = 0
    for at in range(request.start + request.pinned - 1, request.start - 1, -1):
        block = c.ids[at]
        c.uses[r, block].pins -= 1
        if c.uses[r, block].pins == 0:
            c.uses[r, block].used = now
            _link(c, r, 0, block, now)
            room += f.per
    request.pinned = 0
    return room


@inlined
def shrink(f: RunConstants, c: PrefixCaches, r: int, free: int, now: float) -> None:
    """Give up blocks that nobody uses until the others fit beside the running requests."""
    while c.shelves[r, 0].size * f.per > free:
        victim = _victim(f, c, r, 0)
        _unlink(c, r, 0, victim, now)
        if not f.through and len(f.capacity) > 1 and not _stale(f, c, r, victim, now):
            _insert(f, c, r, 1, victim, now)


@compiled
def insert_blocks(f: RunConstants, c: PrefixCaches, r: int, first: int, stop: int, now: float) -> None:
    """Keep blocks by their places among the ids, the last one first: a prefix is never older than what stands on it."""
    for at in range(stop - 1, first - 1, -1):
        block = c.ids[at]
        _use(f, c, r, block, now)
        _below(f, c, r, block, now)
        # What running requests use has its place already.
        if not (f.shared and c.uses[r, block].pins > 0):
            _insert(f, c, r, 0, block, now)


@inlined
def clear(f: RunConstants, c: PrefixCaches, r: int, now: float) -> None:
    """Forget everything that a replica keeps of its own, as it does when it fails."""
    for column in range(c.uses.shape[1]):
        c.uses[r, column].pins = 0
    for tier in range(len(f.capacity)):
        if not f.common[tier]:
            while c.shelves[r, tier].oldest != NONE:
                _unlink(c, r, tier, c.shelves[r, tier].oldest, now)


@compiled
def settle(kinds: Kinds, s: Replicas, q: Requests, c: PrefixCaches, now: float) -> None:
    """Count what the tiers of all replicas have held until now."""
    for r in range(len(s.own)):
        f = kinds[s.own[r].kind]
        expire(f, c, r, now)
        for tier in range(len(f.capacity)):
            _count(c, _row(f, c, r, tier), tier, now)


@inlined
def _row(f: RunConstants, c: PrefixCaches, r: int, tier: int) -> int:
    """Where a replica's tier stands: the last row is common to all."""
    return c.shelves.shape[0] - 1 if f.common[tier] else r


@inlined
def _use(f: RunConstants, c: PrefixCaches, r: int, block: int, now: float) -> None:
    """A block is used, here and, for tiers that are common, by anybody."""
    c.uses[r, block].used = now
    c.uses[r, block].times += 1
    if f.pooled:
        last = c.uses.shape[0] - 1
        c.uses[last, block].used = now
        c.uses[last, block].times += 1


@inlined
def _below(f: RunConstants, c: PrefixCaches, r: int, block: int, now: float) -> None:
    """What becomes of a block in the lower tiers when it is used: written there as well, or brought up from there."""
    for tier in range(1, len(f.capacity)):
        row = _row(f, c, r, tier)
        if f.through:
            _keep(f, c, row, tier, block, now)
        elif c.links[row, tier, block].inside:
            _unlink(c, row, tier, block, now)
            if f.common[tier]:
                # Others find it there still.
                _link(c, row, tier, block, now)


@inlined
def _tier(f: RunConstants, c: PrefixCaches, r: int, block: int, now: float) -> int:
    """Fastest tier that holds a block."""
    if f.shared and c.uses[r, block].pins > 0:
        return 0
    for tier in range(len(f.capacity)):
        row = _row(f, c, r, tier)
        if c.links[row, tier, block].inside:
            if not _stale(f, c, row, block, now):
                return tier
            # A list that several replicas write to is not quite by last use.
            _forget(f, c, row, tier, block, now)
    return NONE


@inlined
def _stale(f: RunConstants, c: PrefixCaches, row: int, block: int, now: float) -> bool:
    """Whether a block has been unused for too long."""
    return f.eviction == TTL and now - c.uses[row, block].used > f.lifetime


@inlined
def _forget(f: RunConstants, c: PrefixCaches, row: int, tier: int, block: int, now: float) -> None:
    """Give up a block as of the moment at which it had been unused for too long."""
    _unlink(c, row, tier, block, now)
    c.shelves[row, tier].area -= now - c.uses[row, block].used - f.lifetime


@compiled
def _insert(f: RunConstants, c: PrefixCaches, r: int, tier: int, block: int, now: float) -> None:
    """Make a block the newest of a tier; what the tier gives up goes down one, unless all tiers have it already."""
    while tier < len(f.capacity):
        row = _row(f, c, r, tier)
        block = _keep(f, c, row, tier, block, now)
        if block == NONE or f.through or _stale(f, c, row, block, now):
            return
        tier += 1


@inlined
def _keep(f: RunConstants, c: PrefixCaches, row: int, tier: int, block: int, now: float) -> int:
    """Make a block the newest of a tier; returns what has no place there any more, NONE for nothing."""
    if c.links[row, tier, block].inside:
        _unlink(c, row, tier, block, now)
    if f.capacity[tier] == 0:
        return block
    victim = NONE
    if c.shelves[row, tier].size >= f.capacity[tier]:
        victim = _victim(f, c, row, tier)
        _unlink(c, row, tier, victim, now)
    _link(c, row, tier, block, now)
    return victim


@inlined
def _victim(f: RunConstants, c: PrefixCaches, row: int, tier: int) -> int:
    """Oldest block, or under LFU the least used of the oldest."""
    oldest = c.shelves[row, tier].oldest
    if f.eviction != LFU:
        return oldest
    best, block = oldest, oldest
    while block != NONE:
        if c.uses[row, block].times < c.uses[row, best].times:
            best = block
        if c.uses[row, best].times == 1:
            break
        block = c.links[row, tier, block].before
    return best


@inlined
def _count(c: PrefixCaches, row: int, tier: int, now: float) -> None:
    """Add what a tier has held since the last change."""
    shelf = c.shelves[row, tier]
    # Replicas lag each other by a step at most; the clock of a common tier does not run backwards.
    if now > shelf.since:
        shelf.area += shelf.size * (now - shelf.since)
        shelf.since = now


@inlined
def _link(c: PrefixCaches, row: int, tier: int, block: int, now: float) -> None:
    _count(c, row, tier, now)
    newest = c.shelves[row, tier].newest
    c.links[row, tier, block].after = newest
    c.links[row, tier, block].before = NONE
    if newest != NONE:
        c.links[row, tier, newest].before = block
    else:
        c.shelves[row, tier].oldest = block
    c.shelves[row, tier].newest = block
    c.links[row, tier, block].inside = True
    c.shelves[row, tier].size += 1


@inlined
def _unlink(c: PrefixCaches, row: int, tier: int, block: int, now: float) -> None:
    _count(c, row, tier, now)
    older, newer = c.links[row, tier, block].after, c.links[row, tier, block].before
    if newer != NONE:
        c.links[row, tier, newer].after = older
    else:
        c.shelves[row, tier].newest = older
    if older != NONE:
        c.links[row, tier, older].before = newer
    else:
        c.shelves[row, tier].oldest = newer
    c.links[row, tier, block].inside = False
    c.shelves[row, tier].size -= 1
