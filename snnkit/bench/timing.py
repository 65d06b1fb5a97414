"""Timing that can be trusted on a noisy machine: warm up first, take turns, quote the median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds of one contestant.

    Attributes:
        first: the first call, with everything that is compiled or allocated then.
        median: of the calls after the warm-up.
        spread: (10th, 90th percentile) of them.
    """

    first: float
    median: float
    spread: tuple[float, float]


def race(contestants: Mapping[str, Callable[[], object]], repeats: int = 11, warmup: int = 2) -> dict[str, Timing]:
    """Time functions side by side: in every round each runs once, so that a slow moment of the machine hits all alike.

    Args:
        contestants: name to function without arguments.
        repeats: rounds that count, at least 3.
        warmup: rounds before that.
    """
    if repeats < 3:
        raise ValueError(f"repeats must be at least 3 for a median, but it is {repeats}")
    first = {name: _seconds(function) for name, function in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warmup + repeats):
        for name, function in contestants.items():
            seconds = _seconds(function)
            if turn >= warmup:
                times[name].append(seconds)
    return {name: Timing(first[name], statistics.median(ts), _deciles(ts)) for name, ts in times.items()}


def _seconds(function: Callable[[], object]) -> float:
    _synchronize()
    start = time.perf_counter()
    function()
    _synchronize()
    return time.perf_counter() - start


def _synchronize() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _deciles(times: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(times, n=10, method="inclusive")
    return cuts[0], cuts[-1]
