"""Mutated configs: fields deleted, retyped, made huge, negative, NaN, or swapped."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

REPLACEMENTS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    10**6,
    10**12,
    10**30,
    -(10**9),
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "text",
    "12",
    [],
    [0],
    [-1, 5],
    ["full_attention"],
    [None],
    [[1]],
    {},
    {"a": 1},
    "MEM*",
    "\x00",
)


def mutate(config: dict[str, Any], random: Random, most: int = 4) -> dict[str, Any]:
    """Change one to ``most`` places of a config, at any depth."""
    # Several times faster than a deep copy, of what is JSON.
    changed = json.loads(json.dumps(config))
    for _ in range(random.randint(1, most)):
        places = _places(changed, [])
        if not places:
            break
        parent, key = random.choice(places)
        if random.random() < 0.25 and isinstance(parent, dict):
            del parent[key]
        elif random.random() < 0.15:
            other_parent, other_key = random.choice(places)
            if key in _keys(parent) and other_key in _keys(other_parent):
                parent[key] = copy.deepcopy(other_parent[other_key])
        else:
            parent[key] = copy.deepcopy(random.choice(REPLACEMENTS))
    return changed


def _keys(parent: Any) -> Any:
    return parent if isinstance(parent, dict) else range(len(parent))


def _places(node: Any, places: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every parent with each of its keys, added to ``places``: as a generator this was most of a mutation's time."""
    if isinstance(node, dict):
        items: Any = node.items()
    elif isinstance(node, list) and len(node) < 40:
        items = enumerate(node)
    else:
        return places
    for key, value in items:
        places.append((node, key))
        if isinstance(value, (dict, list)):
            _places(value, places)
    return places
