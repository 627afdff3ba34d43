"""Rates of requests and of tokens: either may be written where the other is meant."""

from __future__ import annotations


class TokenRate(float):
    """A rate that was written in tokens per second, where requests per second are meant. [tokens/s]"""


class RequestRate(float):
    """A rate that was written in requests per second, where tokens per second are meant. [requests/s]"""


def requests_per_second(rate: float, output: float) -> float:
    """A rate in requests, whichever way it was written, for answers of ``output`` tokens. [requests/s]"""
    return float(rate) / output if isinstance(rate, TokenRate) else rate


def tokens_per_second(rate: float, output: float) -> float:
    """A rate in tokens, whichever way it was written, for answers of ``output`` tokens. [tokens/s]"""
    return float(rate) * output if isinstance(rate, RequestRate) else rate
