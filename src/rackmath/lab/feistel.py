"""A Feistel cipher beside networks of random weights: what spreads, and what is contained."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rackmath.lab.budget import TimeLimit
from rackmath.lab.ciphers import XTEA_ROUNDS, best_differential, decrypt, encrypt, flips, xtea
from rackmath.lab.experiment import Experiment, ExperimentCurve
from rackmath.lab.machine import Machine

ROUNDS = (1, 2, 4, 6, 8, 10, 16, 32, 64)
_KEY, _PLAIN = bytes(range(16)), b"ABCDEFGH"
_CIPHER = bytes.fromhex("497df3d072612cb5")
"""XTEA's published vector: bytes 41 to 48 under the key 00 to 0f."""
_WIDTH = 128
_PAIRS = 2**16


def experiment(
    machine: Machine,
    budget: TimeLimit,
    *,
    rounds: Sequence[int] = ROUNDS,
    blocks: int = 512,
    layers: int = 32,
    seed: int = 0,
) -> Experiment:
    """Avalanche and differentials by round; the same statistics by layer of random networks."""
    start = perf_counter()
    function = xtea(_KEY)
    matrices: dict[int, Any] = {}
    for number in budget.part(0.4).sized(rounds, float, "avalanche by half-rounds"):
        budget.say(f"avalanche of {number} half-rounds")
        matrices[number] = flips(function, number, blocks)
    rounds = list(matrices)
    few: list[int] = []
    differentials: list[float] = []
    for number in budget.part(0.5).sized([n for n in rounds if n <= 16], float, "differentials by half-rounds"):
        budget.say(f"differentials of {number} half-rounds")
        few.append(number)
        differentials.append(best_differential(function, number, _PAIRS))
    budget.say(f"networks of {layers} layers")
    networks = {name: spread(residual, layers, seed) for name, residual in (("residual", True), ("plain", False))}
    text = np.random.default_rng(seed).bytes(8 * 4096)
    facts: dict[str, Any] = {
        "vector_holds": encrypt(_PLAIN, function, XTEA_ROUNDS) == _CIPHER,
        "inverts": decrypt(encrypt(text, function, XTEA_ROUNDS), function, XTEA_ROUNDS) == text,
        "flips": {number: float(matrix.mean()) for number, matrix in matrices.items()},
        "cells_never_flipped": {number: int((matrix == 0).sum()) for number, matrix in matrices.items()},
        "differentials": dict(zip(few, differentials, strict=True)),
        **networks,
    }
    return Experiment(
        name="feistel",
        title="a Feistel cipher and random networks",
        machine=machine,
        curves=_curves(rounds, facts, layers),
        facts=facts,
        findings=[*_findings(facts, layers), *budget.notes()],
        seconds=perf_counter() - start,
    )


def _curves(rounds: Sequence[int], facts: dict[str, Any], layers: int) -> list[ExperimentCurve]:
    flip_facts, few = facts["flips"], facts["differentials"]
    networks = {name: facts[name] for name in ("residual", "plain")}
    return [
        ExperimentCurve(
            panel="bits or signs that flip with one",
            name="XTEA, by half-round",
            across="rounds or layers",
            up="share",
            x=list(rounds),
            measured=[flip_facts[number] for number in rounds],
            log_up=False,
        ),
        *(
            ExperimentCurve(
                panel="bits or signs that flip with one",
                name=f"{name} network, by layer",
                across="rounds or layers",
                up="share",
                x=list(range(1, layers + 1)),
                measured=network["signs"],
                log_up=False,
            )
            for name, network in networks.items()
        ),
        *(
            ExperimentCurve(
                panel="a small difference after so many layers",
                name=f"{name} network",
                across="layers",
                up="relative growth",
                x=list(range(1, layers + 1)),
                measured=network["growth"],
            )
            for name, network in networks.items()
        ),
        *(
            ExperimentCurve(
                panel="singular values of one layer's Jacobian",
                name=f"{name}, {sample_name}",
                across="layers",
                up="value",
                x=list(range(1, layers + 1)),
                measured=network[sample_name],
            )
            for name, network in networks.items()
            for sample_name in ("largest", "middle")
        ),
        ExperimentCurve(
            panel="most frequent output difference",
            name="XTEA",
            across="half-rounds",
            up="share of pairs",
            x=list(few),
            measured=list(few.values()),
        ),
    ]


def spread(residual: bool, layers: int, seed: int = 0) -> dict[str, list[float]]:
    """What one layer after the other does to differences, for weights of variance 1 / width.

    Returns
    -------
    dict
        By layer: ``growth`` of a small relative difference of the input, ``signs`` that flip when one input's sign
        does, and ``largest`` and ``middle`` singular value of the layer's Jacobian.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = [
        [torch.randn(_WIDTH, _WIDTH, generator=generator, dtype=torch.float64) * _WIDTH**-0.5 for _ in range(2)]
        for _ in range(layers)
    ]
    x = torch.randn(_WIDTH, generator=generator, dtype=torch.float64)
    nudge = torch.randn(_WIDTH, generator=generator, dtype=torch.float64)
    near = x + 1e-6 * nudge * x.norm() / nudge.norm()
    copies = x.repeat(_WIDTH, 1)
    copies.diagonal().neg_()
    entries: dict[str, list[float]] = {"growth": [], "signs": [], "largest": [], "middle": []}
    for pair in weights:
        jacobian = torch.autograd.functional.jacobian(lambda v, w=pair: _layer(v, w, residual), x)
        values = torch.linalg.svdvals(jacobian)
        x, near, copies = (_layer(state, pair, residual) for state in (x, near, copies))
        entries["growth"].append(float((near - x).norm() / x.norm() / 1e-6))
        entries["signs"].append(float((copies.sign() != x.sign()).double().mean()))
        entries["largest"].append(float(values[0]))
        entries["middle"].append(float(values[_WIDTH // 2]))
    return entries


def _layer(x: Tensor, weights: Sequence[Tensor], residual: bool) -> Tensor:
    """A pre-norm block of two matrices; residual or not."""
    norm = x / x.square().mean(-1, keepdim=True).sqrt()
    change = torch.tanh(norm @ weights[0].T) @ weights[1].T
    return x + change if residual else change


def _findings(facts: dict[str, Any], layers: int) -> list[str]:
    flip_facts, few = facts["flips"], facts["differentials"]
    first = next((number for number, share in flip_facts.items() if abs(share - 0.5) < 0.01), None)
    residual, plain = facts["residual"], facts["plain"]
    return [
        f"XTEA's vector {'holds' if facts['vector_holds'] else 'fails'}, and decryption "
        f"{'returns' if facts['inverts'] else 'loses'} the text, without inverting a round function.",
        f"One input bit flips half of the output bits from {first} half-rounds on."
        if first
        else "In so few half-rounds one input bit does not flip half of the output bits.",
        f"The most frequent output difference falls from {max(few.values()):.2f} of the pairs to "
        f"{min(few.values()):.1e} (chance: {1 / _PAIRS:.1e}).",
        f"Through {layers} residual layers a small difference grows {residual['growth'][-1]:.2f} times relative to "
        f"its stream, through plain ones {plain['growth'][-1]:.3g} times; flipping one input's sign flips "
        f"{residual['signs'][-1]:.1%} of the signs behind residual layers, {plain['signs'][-1]:.1%} behind plain ones.",
        f"A residual layer's Jacobian stays near one (middle singular value {residual['middle'][-1]:.2f} at the last, "
        f"{residual['middle'][0]:.2f} at the first), a plain one's does not ({plain['middle'][-1]:.2f}): derivatives "
        "are contained where a cipher spreads differences as fast as it can.",
    ]
