"""Timing that can be trusted on a noisy machine: warm up first, take turns, quote the median."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from snnkit import checks

# A measurement is repeated within itself until it takes about so long: clocks and noise blur shorter ones.
SHORTEST = 1e-3
MOST_CALLS = 50

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Timing:
    """Seconds of one contestant's calls after the warm-up."""

    median: float  #: over the rounds
    spread: tuple[float, float]  #: (10th, 90th percentile) of the rounds
    host: float  #: median of the seconds until the call came back; on CUDA the device may still have been at work then
    calls: int  #: in each round, of which a round's figure is the mean
    rounds: tuple[float, ...]  #: seconds of each


class Clock(Protocol):
    """How long one call of a function takes, as the mean of some."""

    name: str

    def seconds(self, function: Callable[[], object], calls: int = 1) -> tuple[float, float]:
        """(seconds of the work, seconds until the function came back) per call."""
        ...


def _wait_for(device: torch.device) -> Callable[[], object]:
    return functools.partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None


class HostClock:
    """The clock of the processor; for work that is done when the function comes back."""

    name = "host"
    wait: Callable[[], object] = staticmethod(lambda: None)
    least = 1  # calls

    @checks.arguments
    def seconds(self, function: Callable[[], object], calls: int = 1) -> tuple[float, float]:
        calls = max(calls, self.least)
        self.wait()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        host = time.perf_counter() - start
        self.wait()
        return (time.perf_counter() - start) / calls, host / calls


class DeviceClock:
    """CUDA events before and after each call. Between calls the L2 cache is overwritten, as other layers would do."""

    name = "device events"

    def __init__(self, device: torch.device) -> None:
        self.device = device
        cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
        self.flush = torch.empty(max(2 * cache, 2**26), dtype=torch.uint8, device=device)

    def seconds(self, function: Callable[[], object], calls: int = 1) -> tuple[float, float]:
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
        host = 0.0
        torch.cuda.synchronize(self.device)
        with torch.cuda.device(self.device):  # whose current stream the events are recorded in
            for start, end in events:
                self.flush.zero_()
                start.record()
                before = time.perf_counter()
                function()
                host += time.perf_counter() - before
                end.record()
        torch.cuda.synchronize(self.device)
        return sum(start.elapsed_time(end) for start, end in events) / 1e3 / calls, host / calls


class ThroughputClock(HostClock):
    """A clock for steps that follow each other: several in a row, and the device done at the end.

    Unlike a clock that stops after each step, it sees what a training run sees: the host may run ahead of the device.
    """

    name = "throughput"

    @checks.arguments
    def __init__(self, device: torch.device) -> None:
        self.wait = _wait_for(device)
        self.least = 10 if device.type == "cuda" else 1


@checks.arguments
def clock_for(device: torch.device) -> Clock:
    """The clock that sees the work of ``device``."""
    return DeviceClock(device) if device.type == "cuda" else HostClock()


@checks.arguments
def first_call(function: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    """Seconds of a call that may compile and allocate, until the device is done, and what it returned."""
    wait = _wait_for(device)
    wait()
    start = time.perf_counter()
    result = function()
    wait()
    return time.perf_counter() - start, result


@checks.arguments
def race(
    contestants: Mapping[Name, Callable[[], object]], repeats: int = 11, warmup: int = 2, clock: Clock | None = None
) -> dict[Name, Timing]:
    """Time functions side by side: in every round each has its turn, so a slow moment of the machine hits all alike.

    Args:
        contestants: name to function without arguments.
        repeats: rounds that count, at least 3.
        warmup: rounds before that, at least 1; the last one tells how many calls a measurement needs.
        clock: the processor's where none is given.
    """
    checks.integer("repeats", repeats, at_least=3)
    checks.integer("warmup", warmup, at_least=1)
    clock = clock or HostClock()
    calls = dict.fromkeys(contestants, 1)
    for _ in range(warmup):
        for name, function in contestants.items():
            seconds, _ = clock.seconds(function)
            calls[name] = max(1, min(MOST_CALLS, math.ceil(SHORTEST / max(seconds, 1e-9))))
    rounds: dict[Name, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, function in contestants.items():
            rounds[name].append(clock.seconds(function, calls[name]))
    return {name: _timing(measured, calls[name]) for name, measured in rounds.items()}


def _timing(measured: list[tuple[float, float]], calls: int) -> Timing:
    work, host = ([pair[i] for pair in measured] for i in (0, 1))
    cuts = statistics.quantiles(work, n=10, method="inclusive")
    return Timing(statistics.median(work), (cuts[0], cuts[-1]), statistics.median(host), calls, tuple(work))
