"""The model fitted to measured updates, with its error: what it gets wrong where it was fitted, and where it was not.

One number is fitted, the one that nobody can look up: by how much busy ranks on one machine slow each other down, or
what the links reach of their bandwidth. With more, three measured numbers of ranks would say nothing about the error.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..checks import above_zero, whole
from .step import Prediction, Workload, predict
from .topology import Cluster, Link

Free = Literal["sharing", "bandwidth"]
_GOLDEN = (math.sqrt(5) - 1) / 2
_SHARING_MOST = 10.0  # each neighbour making a rank eleven times slower: beyond what a machine does
_FACTOR_MOST = 1e3


@dataclass(frozen=True)
class Measured:
    """Seconds of an update on so many ranks in weak scaling; several of one number of ranks are its rounds.

    Raises:
        ValueError, TypeError: no whole number of ranks, or no time.
    """

    ranks: int
    step_s: float

    def __post_init__(self) -> None:
        whole("ranks", self.ranks)
        above_zero("step_s", self.step_s)


@dataclass(frozen=True)
class Fit:
    """A model that was fitted.

    Attributes:
        workload: with the seconds of an update on one rank as they were measured.
        cluster: with the fitted sharing or bandwidth.
        measured: what it was fitted to.
        free: which of the two was fitted.
        value: what was found: ``cluster.sharing``, or what bandwidths were multiplied by.
        residuals: (predicted - measured) / measured of an update's seconds, for each number of ranks above one.
        left_out: the same, where a number of ranks was predicted by a fit to the others alone; empty where there is no
            other above one.
    """

    workload: Workload
    cluster: Cluster
    measured: tuple[Measured, ...]
    free: Free
    value: float
    residuals: dict[int, float]
    left_out: dict[int, float]

    @property
    def error(self) -> float:
        """Largest share by which a prediction for ranks that it never saw was off; the largest residual without one."""
        return max(map(abs, (self.left_out or self.residuals).values()))

    def predict(self, ranks: int) -> Prediction:
        """The fitted model's word on ``ranks``, in weak scaling."""
        return predict(self.workload, self.cluster, ranks)


def fit(measured: Sequence[Measured], workload: Workload, cluster: Cluster, *, free: Free | None = None) -> Fit:
    """The model that comes closest to what was measured, in the sum of squared relative errors.

    Args:
        measured: weak scaling on some numbers of ranks, one of them above one.
        workload: what was run. Where one rank was measured, its median takes the place of ``step_s``.
        cluster: where it ran.
        free: what is fitted, "sharing" or "bandwidth"; sharing where ranks compute on common cores, else bandwidth.

    Raises:
        ValueError: nothing measured on two or more ranks, more ranks than the cluster has, an unknown ``free``.
    """
    free = free or ("bandwidth" if cluster.cores is None else "sharing")
    if free not in ("sharing", "bandwidth"):
        raise ValueError(f"free must be 'sharing' or 'bandwidth', but it is {free!r}")
    several = sorted({m.ranks for m in measured if m.ranks > 1})
    if not several:
        raise ValueError("measured must hold an update on two or more ranks, but it holds none")
    if alone := [m.step_s for m in measured if m.ranks == 1]:
        base = statistics.median(alone)
        workload = replace(workload, step_s=base, fixed_s=min(workload.fixed_s, base))
    value = _best(measured, workload, cluster, free)
    fitted = _with(cluster, free, value)
    left_out = {}
    for ranks in several if len(several) > 1 else ():
        others = [m for m in measured if m.ranks != ranks]
        blind = _with(cluster, free, _best(others, workload, cluster, free))
        left_out[ranks] = _error(measured, ranks, workload, blind)
    residuals = {ranks: _error(measured, ranks, workload, fitted) for ranks in several}
    return Fit(workload, fitted, tuple(measured), free, value, residuals, left_out)


def fit_link(name: str, measured: Sequence[tuple[int, int, float]], source: str) -> Link:
    """The link with which a ring's all-reduces take closest to what they took, in the sum of squared relative errors.

    Args:
        name: of the link.
        measured: (ranks, bytes, seconds) of all-reduces on one node, of at least two sizes.
        source: how they were measured.

    Raises:
        ValueError: fewer than two sizes on two or more ranks, or times from which no bandwidth follows: they must grow
            with the bytes.
        TypeError: a number of ranks or bytes that is none.
    """
    rows = []
    for ranks, size, took in measured:
        whole("ranks", ranks)
        whole("bytes", size)
        above_zero("seconds", took)
        # A ring's time is linear in its latency and in the inverse of its bandwidth; divided by what it took, the
        # errors are relative.
        steps = 2 * (ranks - 1)
        rows.append((steps / took, steps * size / ranks / took))
    if len({size for ranks, size, _ in measured if ranks > 1}) < 2:
        raise ValueError("measured must hold all-reduces of at least two sizes on two or more ranks")
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    latency, per_byte = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if per_byte <= 0 or latency <= 0:
        raise ValueError(f"measured must take longer for more bytes, and some time for none; {list(measured)} does not")
    return Link(name, 1 / per_byte, latency, source)


def _error(measured: Sequence[Measured], ranks: int, workload: Workload, cluster: Cluster) -> float:
    took = statistics.median(m.step_s for m in measured if m.ranks == ranks)
    return predict(workload, cluster, ranks).step_s / took - 1


def _best(measured: Sequence[Measured], workload: Workload, cluster: Cluster, free: Free) -> float:
    rounds: dict[int, list[float]] = {}
    for m in measured:
        if m.ranks > 1:
            rounds.setdefault(m.ranks, []).append(m.step_s)

    def loss(value: float) -> float:
        at = _with(cluster, free, value)
        found = {ranks: predict(workload, at, ranks).step_s for ranks in rounds}
        return sum((found[ranks] / took - 1) ** 2 for ranks, times in rounds.items() for took in times)

    if free == "sharing":
        return _lowest(loss, 0.0, _SHARING_MOST)
    # A factor of ten either way is the same step.
    exponent = _lowest(lambda e: loss(math.exp(e)), -math.log(_FACTOR_MOST), math.log(_FACTOR_MOST))
    return math.exp(exponent)


def _with(cluster: Cluster, free: Free, value: float) -> Cluster:
    if free == "sharing":
        return replace(cluster, sharing=value)
    between = cluster.between and _times(cluster.between, value)
    return replace(cluster, inside=_times(cluster.inside, value), between=between)


def _times(link: Link, factor: float) -> Link:
    source = f"{link.source}; bandwidth times {factor:.3g}, fitted"
    return replace(link, bandwidth=link.bandwidth * factor, source=source)


def _lowest(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where ``loss``, which falls and then rises, is lowest: golden-section search (Kiefer 1953)."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-7 * (1 + abs(low)):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2
