"""Feistel ciphers on blocks of bytes, many blocks at a time; XTEA as the standard one.

A round maps two halves (x, y) to (y, x + f(y)), with + exclusive or, or addition modulo 2^32; f need not have an
inverse. Source: H. Feistel 1973; XTEA: D. Wheeler and R. Needham 1997.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rackmath.errors import InputError

Words = NDArray[np.uint32]
Round = Callable[[Words, int], Words]
"""Half and number of the round -> what is added to the other half."""

BLOCK = 8
"""Bytes of a block: two halves of 32 bits."""
XTEA_ROUNDS = 64
_DELTA = 0x9E3779B9


def xtea(key: bytes) -> Round:
    """Round function of XTEA, of 64 half-rounds in all.

    Errors: :class:`InputError` for a key that has not 16 bytes.
    """
    if len(key) != 16:
        raise InputError("key", len(key), "XTEA takes 16 bytes")
    words = np.frombuffer(key, dtype=">u4").astype(np.uint32)

    def function(half: Words, number: int) -> Words:
        total = (number + 1) // 2 * _DELTA & 0xFFFFFFFF
        place = total & 3 if number % 2 == 0 else total >> 11 & 3
        mix = ((half << np.uint32(4)) ^ (half >> np.uint32(5))) + half
        return mix ^ np.uint32((total + int(words[place])) & 0xFFFFFFFF)

    return function


def encrypt(data: bytes, function: Round, rounds: int, *, additive: bool = True) -> bytes:
    """Encrypt whole blocks.

    Parameters
    ----------
    additive : bool
        Whether halves are added modulo 2^32, as XTEA does, or by exclusive or.

    Errors: :class:`InputError` for data that is no whole number of blocks.
    """
    return _bytes(forward(*_halves(data), function, rounds, additive))


def decrypt(data: bytes, function: Round, rounds: int, *, additive: bool = True) -> bytes:
    """Undo :func:`encrypt`; the round function is not inverted."""
    return _bytes(backward(*_halves(data), function, rounds, additive))


def forward(left: Words, right: Words, function: Round, rounds: int, additive: bool = True) -> tuple[Words, Words]:
    """Rounds on halves; the last one does not swap, as in the published ciphers."""
    halves = [left.copy(), right.copy()]
    for number in range(rounds):
        target, source = number % 2, 1 - number % 2
        change = function(halves[source], number)
        halves[target] = halves[target] + change if additive else halves[target] ^ change
    return halves[0], halves[1]


def backward(left: Words, right: Words, function: Round, rounds: int, additive: bool = True) -> tuple[Words, Words]:
    """The same rounds, last one first, subtracted."""
    halves = [left.copy(), right.copy()]
    for number in reversed(range(rounds)):
        target, source = number % 2, 1 - number % 2
        change = function(halves[source], number)
        halves[target] = halves[target] - change if additive else halves[target] ^ change
    return halves[0], halves[1]


def flips(function: Round, rounds: int, blocks: int = 1024, seed: int = 0) -> NDArray[np.float64]:
    """How often output bit j flips when input bit i does: the avalanche matrix. (64, 64) [1]"""
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 2**32, (2, blocks), dtype=np.uint32)
    plain = _bits(*forward(left, right, function, rounds))
    shares = np.empty((64, 64))
    for bit in range(64):
        mask = np.uint32(1 << (31 - bit % 32))
        changed_halves = (left ^ mask, right) if bit < 32 else (left, right ^ mask)
        shares[bit] = (plain != _bits(*forward(*changed_halves, function, rounds))).mean(axis=0)
    return shares


def best_differential(function: Round, rounds: int, pairs: int = 2**16, seed: int = 0) -> float:
    """Share of the most frequent output difference, over pairs of blocks that differ in the top bit of one half. [1]

    An ideal permutation shows any one difference about once: 1 / pairs.
    """
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 2**32, (2, pairs), dtype=np.uint32)
    first = forward(left, right, function, rounds)
    second = forward(left ^ np.uint32(2**31), right, function, rounds)
    difference = (first[0] ^ second[0]).astype(np.uint64) << np.uint64(32) | (first[1] ^ second[1]).astype(np.uint64)
    return float(np.unique(difference, return_counts=True)[1].max() / pairs)


def _halves(data: bytes) -> tuple[Words, Words]:
    if not data or len(data) % BLOCK:
        raise InputError("data", len(data), f"write a whole number of blocks of {BLOCK} bytes")
    words = np.frombuffer(data, dtype=">u4").astype(np.uint32).reshape(-1, 2)
    return words[:, 0], words[:, 1]


def _bytes(halves: tuple[Words, Words]) -> bytes:
    return np.stack(halves, axis=1).astype(">u4").tobytes()


def _bits(left: Words, right: Words) -> NDArray[np.uint8]:
    return np.unpackbits(np.stack((left, right), axis=1).astype(">u4").view(np.uint8), axis=1)
