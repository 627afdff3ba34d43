"""Graphs of requests at random: forks, joins, and requests that are sent while others are answered."""

from __future__ import annotations

import numpy as np

from rackmath.serving.simulator.graph import Graph, graph_of


def random_graph(requests: int, random: np.random.Generator, roots: float = 0.3) -> Graph:
    """Each request but some roots waits for one to three earlier ones."""
    source: list[int] = []
    to: list[int] = []
    for i in range(1, requests):
        if random.random() > roots:
            for j in np.unique(random.integers(max(i - 8, 0), i, random.integers(1, 4))):
                source.append(int(j))
                to.append(i)
    edges = len(to)
    delay = random.exponential(0.2, edges) * (random.random(edges) < 0.8)
    return graph_of(requests, np.array(source, np.int64), np.array(to, np.int64), delay, random.random(edges) < 0.3)
