"""Feistel ciphers: published vectors, inverses of anything, avalanche; and what networks do instead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackmath.errors import InputError
from rackmath.lab import feistel
from rackmath.lab.budget import TimeLimit
from rackmath.lab.ciphers import XTEA_ROUNDS, best_differential, decrypt, encrypt, flips, xtea
from rackmath.lab.machine import Machine

VECTORS = (
    ("000102030405060708090a0b0c0d0e0f", "4142434445464748", "497df3d072612cb5"),
    ("000102030405060708090a0b0c0d0e0f", "4141414141414141", "e78f2d13744341d8"),
    ("00000000000000000000000000000000", "4142434445464748", "a0390589f8b8efa5"),
    ("00000000000000000000000000000000", "4141414141414141", "ed23375a821a8c2d"),
)
"""Of XTEA, as published with its reference implementations."""


@pytest.mark.parametrize(("key", "plain", "cipher"), VECTORS)
def test_published_vectors(key: str, plain: str, cipher: str) -> None:
    function = xtea(bytes.fromhex(key))
    assert encrypt(bytes.fromhex(plain), function, XTEA_ROUNDS).hex() == cipher
    assert decrypt(bytes.fromhex(cipher), function, XTEA_ROUNDS).hex() == plain


def plainly(data: bytes, key: bytes) -> bytes:
    """XTEA written once more, a block and a word at a time."""
    words = [int.from_bytes(key[i : i + 4], "big") for i in range(0, 16, 4)]
    out = b""
    for start in range(0, len(data), 8):
        left, right = (int.from_bytes(data[start + i : start + i + 4], "big") for i in (0, 4))
        total = 0
        for _ in range(32):
            left = (left + ((((right << 4) ^ (right >> 5)) + right) ^ (total + words[total & 3]))) & 0xFFFFFFFF
            total = (total + 0x9E3779B9) & 0xFFFFFFFF
            right = (right + ((((left << 4) ^ (left >> 5)) + left) ^ (total + words[total >> 11 & 3]))) & 0xFFFFFFFF
        out += left.to_bytes(4, "big") + right.to_bytes(4, "big")
    return out


@given(key=st.binary(min_size=16, max_size=16), blocks=st.integers(1, 5), seed=st.integers(0, 99))
def test_many_blocks_are_each_block(key: bytes, blocks: int, seed: int) -> None:
    data = np.random.default_rng(seed).bytes(8 * blocks)
    assert encrypt(data, xtea(key), XTEA_ROUNDS) == plainly(data, key)


@given(data=st.binary(min_size=8, max_size=64).filter(lambda d: len(d) % 8 == 0), rounds=st.integers(0, 40))
def test_any_round_function_is_undone(data: bytes, rounds: int) -> None:
    def lossy(half: np.ndarray, number: int) -> np.ndarray:
        return (half >> np.uint32(number % 32)) & np.uint32(0xFF)

    for additive in (True, False):
        assert decrypt(encrypt(data, lossy, rounds, additive=additive), lossy, rounds, additive=additive) == data


def test_avalanche_grows_to_one_half() -> None:
    function = xtea(bytes(range(16)))
    shares = [float(flips(function, rounds, 256).mean()) for rounds in (1, 2, 4, 8, 64)]
    assert shares[:4] == sorted(shares[:4])
    assert shares[0] == pytest.approx(0.068, abs=0.01)
    assert shares[2] == pytest.approx(0.385, abs=0.02)
    assert shares[4] == pytest.approx(0.5, abs=0.002)
    assert (flips(function, 0, 16) == np.eye(64)).all(), "no round, no spread"


def test_differentials_vanish_with_rounds() -> None:
    function = xtea(bytes(range(16)))
    shares = [best_differential(function, rounds, 2**14) for rounds in (1, 2, 4, 8)]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert shares[3] <= 3 / 2**14


def test_residual_layers_contain_what_plain_ones_spread(cpu: Machine) -> None:
    residual, plain = (feistel.spread(kind, 24) for kind in (True, False))
    assert residual["growth"][-1] < 2 < plain["growth"][-1]
    assert residual["signs"][-1] < plain["signs"][-1]
    assert abs(residual["middle"][-1] - 1) < 0.1 < abs(plain["middle"][-1] - 1)
    found = feistel.experiment(cpu, TimeLimit(60.0), rounds=(2, 8, 64), blocks=64, layers=4)
    assert found.facts["vector_holds"]
    assert found.facts["inverts"]
    assert len(found.findings) == 5


def test_bad_blocks_and_keys_are_refused() -> None:
    function = xtea(bytes(16))
    for data in (b"", b"1234567", b"123456789"):
        with pytest.raises(InputError, match="whole number of blocks"):
            encrypt(data, function, 2)
    with pytest.raises(InputError, match="16 bytes"):
        xtea(b"short")
