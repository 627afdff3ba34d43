"""Feistel networks on integers: what chapter 6 says, computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random

_BITS = 32
_MASK = (1 << _BITS) - 1

Round = Callable[[int, int], int]


def hash_round(half: int, key: int) -> int:
    """Round function: 32 bits of SHA-256 of the half and the round's key. Not invertible."""
    data = half.to_bytes(4, "big") + key.to_bytes(4, "big")
    return int.from_bytes(hashlib.sha256(data).digest()[:4], "big")


def encrypt(left: int, right: int, rounds: int, function: Round = hash_round) -> tuple[int, int]:
    """Run ``(x, y) -> (y, x + f(y))`` for ``rounds`` rounds on two 32-bit halves."""
    for key in range(rounds):
        left, right = right, (left + function(right, key)) & _MASK
    return left, right


def decrypt(left: int, right: int, rounds: int, function: Round = hash_round) -> tuple[int, int]:
    """Undo :func:`encrypt` without inverting the round function."""
    for key in reversed(range(rounds)):
        left, right = (right - function(left, key)) & _MASK, left
    return left, right


def reconstruction_error(samples: int = 256, rounds: int = 16) -> int:
    """Bits that differ between inputs and decrypted outputs, over random inputs. [bits]"""
    random = Random(6)
    wrong = 0
    for _ in range(samples):
        block = (random.getrandbits(_BITS), random.getrandbits(_BITS))
        wrong += _differing(block, decrypt(*encrypt(*block, rounds), rounds))
    return wrong


def avalanche(rounds: int = 16, samples: int = 256) -> float:
    """Mean fraction of output bits that flip when one input bit does. [1]"""
    random = Random(6)
    flips = 0
    for _ in range(samples):
        left, right = random.getrandbits(_BITS), random.getrandbits(_BITS)
        bit = 1 << random.randrange(_BITS)
        flips += _differing(encrypt(left, right, rounds), encrypt(left ^ bit, right, rounds))
    return flips / (samples * 2 * _BITS)


def _differing(a: tuple[int, int], b: tuple[int, int]) -> int:
    return (a[0] ^ b[0]).bit_count() + (a[1] ^ b[1]).bit_count()
