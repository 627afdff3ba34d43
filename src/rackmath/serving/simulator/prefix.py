"""Prefix caches in tiers, compiled: what is found, what is brought up, what is given up."""

from __future__ import annotations

from rackmath.serving.simulator.compiled import compiled, inlined
from rackmath.serving.simulator.state import LFU, NONE, TTL, Fixed, Prefixes, Requests


@compiled
def found(f: Fixed, c: Prefixes, q: Requests, r: int, i: int, now: float) -> int:
    """Blocks of a request that the caches of a replica hold, from its beginning without a gap."""
    asked = q[i]
    n = 0
    for at in range(asked.start, asked.start + whole(f, q, i)):
        if _tier(f, c, r, c.ids[at], now) == NONE:
            break
        n += 1
    return n


@compiled
def take(f: Fixed, c: Prefixes, q: Requests, r: int, i: int, now: float) -> tuple[int, float]:
    """Look a request's blocks up: tokens found, and the time to bring them from their tiers."""
    asked = q[i]
    blocks, time, last, most = 0, 0.0, NONE, whole(f, q, i)
    for at in range(asked.start, asked.stop):
        c.seen[0] += 1
        one = c.ids[at]
        if blocks != at - asked.start or blocks == most:
            continue
        tier = _tier(f, c, r, one, now)
        if tier == NONE:
            continue
        blocks += 1
        c.seen[1 + tier] += 1
        time += f.load[tier]
        if tier != last:
            time += f.latency[tier]
            last = tier
    return blocks * f.prefix, time


@inlined
def whole(f: Fixed, q: Requests, i: int) -> int:
    """Prefix blocks of a request that can be found: where they are shared, only those that its prompt fills."""
    asked = q[i]
    n = asked.stop - asked.start
    return min(n, asked.prompt // f.prefix) if f.shared else n


@inlined
def unused(f: Fixed, c: Prefixes, q: Requests, r: int, i: int) -> int:
    """Blocks of a request that no running one uses."""
    asked = q[i]
    n = 0
    for at in range(asked.start, asked.start + whole(f, q, i)):
        n += c.uses[r, c.ids[at]].pins == 0
    return n


@compiled
def pin(f: Fixed, c: Prefixes, q: Requests, r: int, i: int, now: float) -> None:
    """A request begins to use its blocks; those that nobody else uses take their place in the cache."""
    asked = q[i]
    asked.pinned = whole(f, q, i)
    for at in range(asked.start + asked.pinned - 1, asked.start - 1, -1):
        one = c.ids[at]
        c.uses[r, one].used = now
        c.uses[r, one].times += 1
        c.uses[r, one].pins += 1
        if c.uses[r, one].pins == 1 and c.links[r, 0, one].inside:
            _unlink(c, r, 0, one)
        for tier in range(1, len(f.capacity)):
            if f.through:
                _insert(f, c, r, tier, one, now)
            elif c.links[r, tier, one].inside:
                _unlink(c, r, tier, one)


@inlined
def unpin(f: Fixed, c: Prefixes, q: Requests, r: int, i: int, now: float) -> int:
    """A request needs its blocks no more, its last one first; returns the room of those that nobody uses now."""
    asked = q[i]
    room = 0
    for at in range(asked.start + asked.pinned - 1, asked.start - 1, -1):
        one = c.ids[at]
        c.uses[r, one].pins -= 1
        if c.uses[r, one].pins == 0:
            c.uses[r, one].used = now
            _link(c, r, 0, one)
            room += f.per
    asked.pinned = 0
    return room


@inlined
def shrink(f: Fixed, c: Prefixes, r: int, free: int, now: float) -> None:
    """Give up blocks that nobody uses until the others fit beside the running requests."""
    while c.shelves[r, 0].size * f.per > free:
        lost = _victim(f, c, r, 0)
        _unlink(c, r, 0, lost)
        if (
            not f.through
            and len(f.capacity) > 1
            and not (f.eviction == TTL and now - c.uses[r, lost].used > f.lifetime)
        ):
            _insert(f, c, r, 1, lost, now)


@compiled
def put(f: Fixed, c: Prefixes, q: Requests, r: int, i: int, now: float) -> None:
    """Keep a request's blocks, its last one first, so that a prefix is never older than what stands on it."""
    asked = q[i]
    for at in range(asked.stop - 1, asked.start - 1, -1):
        one = c.ids[at]
        c.uses[r, one].used = now
        c.uses[r, one].times += 1
        if f.through:
            for tier in range(len(f.capacity)):
                _insert(f, c, r, tier, one, now)
        else:
            for tier in range(1, len(f.capacity)):
                if c.links[r, tier, one].inside:
                    _unlink(c, r, tier, one)
            _insert(f, c, r, 0, one, now)


@inlined
def clear(c: Prefixes, r: int) -> None:
    """Forget everything, as a replica does that fails."""
    for one in range(c.uses.shape[1]):
        c.uses[r, one].pins = 0
        for tier in range(c.shelves.shape[1]):
            c.links[r, tier, one].inside = False
    for tier in range(c.shelves.shape[1]):
        c.shelves[r, tier].newest = NONE
        c.shelves[r, tier].oldest = NONE
        c.shelves[r, tier].size = 0


@inlined
def _tier(f: Fixed, c: Prefixes, r: int, one: int, now: float) -> int:
    """Fastest tier that holds a block."""
    if f.shared and c.uses[r, one].pins > 0:
        return 0
    if f.eviction == TTL and now - c.uses[r, one].used > f.lifetime:
        for tier in range(len(f.capacity)):
            if c.links[r, tier, one].inside:
                _unlink(c, r, tier, one)
        return NONE
    for tier in range(len(f.capacity)):
        if c.links[r, tier, one].inside:
            return tier
    return NONE


@compiled
def _insert(f: Fixed, c: Prefixes, r: int, tier: int, one: int, now: float) -> None:
    """Make a block the newest of a tier; what the tier gives up goes down one, unless all tiers have it already."""
    while tier < len(f.capacity):
        if c.links[r, tier, one].inside:
            _unlink(c, r, tier, one)
        if f.capacity[tier] == 0:
            tier += 1
            if f.through:
                return
            continue
        lost = NONE
        if c.shelves[r, tier].size >= f.capacity[tier]:
            lost = _victim(f, c, r, tier)
            _unlink(c, r, tier, lost)
        _link(c, r, tier, one)
        expired = f.eviction == TTL and lost != NONE and now - c.uses[r, lost].used > f.lifetime
        if lost == NONE or f.through or expired:
            return
        one, tier = lost, tier + 1


@inlined
def _victim(f: Fixed, c: Prefixes, r: int, tier: int) -> int:
    """Oldest block, or under LFU the least used of the oldest."""
    oldest = c.shelves[r, tier].oldest
    if f.eviction != LFU:
        return oldest
    best, one = oldest, oldest
    while one != NONE:
        if c.uses[r, one].times < c.uses[r, best].times:
            best = one
        if c.uses[r, best].times == 1:
            break
        one = c.links[r, tier, one].before
    return best


@inlined
def _link(c: Prefixes, r: int, tier: int, one: int) -> None:
    newest = c.shelves[r, tier].newest
    c.links[r, tier, one].after = newest
    c.links[r, tier, one].before = NONE
    if newest != NONE:
        c.links[r, tier, newest].before = one
    else:
        c.shelves[r, tier].oldest = one
    c.shelves[r, tier].newest = one
    c.links[r, tier, one].inside = True
    c.shelves[r, tier].size += 1


@inlined
def _unlink(c: Prefixes, r: int, tier: int, one: int) -> None:
    older, newer = c.links[r, tier, one].after, c.links[r, tier, one].before
    if newer != NONE:
        c.links[r, tier, newer].after = older
    else:
        c.shelves[r, tier].newest = older
    if older != NONE:
        c.links[r, tier, older].before = newer
    else:
        c.shelves[r, tier].oldest = newer
    c.links[r, tier, one].inside = False
    c.shelves[r, tier].size -= 1
