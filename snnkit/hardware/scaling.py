"""What a training run on many ranks will reach: predict it, fit the model to measurements, plan a run.

    work = scaling.Workload("conv", samples=128, step_s=0.021, gradient_bytes=4 * 33_000_000)
    juwels = scaling.cluster("juwels-booster")
    [p.efficiency for p in scaling.curve(work, juwels, (1, 4, 8, 64, 1024))]
    print(scaling.plan(work, juwels, nodes=2, samples=60_000, epochs=10))

    here = scaling.this_machine(cores=2)
    fitted = scaling.fit([scaling.Measured(1, 0.30), scaling.Measured(2, 0.33), scaling.Measured(4, 0.67)], work, here)
    fitted.error, fitted.predict(8).efficiency

All-reduce: the alpha-beta model of a hierarchical one. A message of S bytes over a link takes alpha + S / beta. A ring
of n ranks passes S / n bytes on 2 (n - 1) times, once around to add up and once to distribute the sums (Patarasuk and
Yuan 2009, doi:10.1016/j.jpdc.2008.09.002). On several nodes the ranks of each node add up among themselves first, so
that every rank holds its share of the node's sum; then each share goes around the nodes, all at once over all adapters;
then it is distributed inside. So 2 (N - 1) / N of S leave each of N nodes, where a ring through all ranks in sequence
would send up to 2 S. The steps of a ring grow with the nodes. Two binary trees that share the work move as many bytes
in 2 log2 steps (Sanders, Speck and Träff 2009, doi:10.1016/j.parco.2009.09.001), which is why NCCL uses them on many
nodes; but data passes through a tree in chunks, and links wait for the first one.

Overlap: while backward runs, finished gradients are sent in buckets, as DistributedDataParallel does (Li et al. 2020,
doi:10.14778/3415478.3415530). A bucket starts when all its gradients are there and the bucket before it is through; all
ranks wait for the communication that remains when backward is done.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from .. import checks

Algorithm = Literal["ring", "tree", "fastest"]
ALGORITHMS = ("ring", "tree", "fastest")
Scaling = Literal["weak", "strong"]
Free = Literal["sharing", "bandwidth"]

_MEBI = 2**20
# Of NCCL's trees: bytes of a chunk, and the share of a ring's bandwidth that they reach (src/graph/tuning.cc, 2.7).
_CHUNK, _TREE = 256 * 1024, 0.9


@dataclass(frozen=True)
class Link:
    """What joins two neighbours of a ring.

    ``bandwidth`` is in bytes per second, in one direction, as a ring of ranks reaches it; ``latency`` in seconds, of
    one step of a ring. ``source`` says where both are from, and whether they were measured or specified.
    """

    name: str
    bandwidth: float
    latency: float
    source: str
    url: str = ""

    def __post_init__(self) -> None:
        checks.number("bandwidth", self.bandwidth, above=0)
        checks.number("latency", self.latency, above=0)
        if not self.source:
            raise ValueError(f"source of link {self.name!r} must say where its figures are from, but it is empty")


@dataclass(frozen=True)
class Cluster:
    """Nodes that are all alike.

    Attributes:
        name: for messages.
        ranks_per_node: processes (one for each GPU) of a full node.
        inside: joins the ranks of a node.
        between: joins a network adapter of one node to one of another; None for a single machine.
        source, url: of the figures.
        adapters: network adapters of a node.
        nodes: their number.
        start: seconds that launching an all-reduce takes, whatever its size.
        cores: processor cores shared by the ranks of a node that compute on them; None where each has a GPU.
        threads: of each rank, where ``cores`` is given.
        sharing: share by which one busy rank slows down each other one on its node (memory bandwidth, caches, clock).
        overlap: share of the communication during backward that takes no computing time: 1 where adapters and copy
            engines do it, 0 where the computing cores do.
    """

    name: str
    ranks_per_node: int
    inside: Link
    between: Link | None
    source: str
    url: str = ""
    adapters: int = 1
    nodes: int = 1
    start: float = 0.0
    cores: int | None = None
    threads: int = 1
    sharing: float = 0.0
    overlap: float = 1.0

    def __post_init__(self) -> None:
        for name in ("ranks_per_node", "adapters", "nodes", "threads", *(("cores",) if self.cores is not None else ())):
            checks.integer(name, getattr(self, name), at_least=1)
        for name in ("start", "sharing"):
            checks.number(name, getattr(self, name), at_least=0)
        checks.number("overlap", self.overlap, at_least=0, at_most=1)
        if self.between is None and self.nodes > 1:
            raise ValueError(f"between must be a Link where there are {self.nodes} nodes, but it is None")

    @property
    def most_ranks(self) -> int:
        """Ranks of all its nodes."""
        return self.nodes * self.ranks_per_node

    def placed(self, ranks: int) -> tuple[int, int]:
        """(nodes, ranks on the fullest of them) that hold ``ranks``, filling one node after the other."""
        if checks.integer("ranks", ranks, at_least=1) > self.most_ranks:
            raise ValueError(
                f"ranks must be at most {self.most_ranks} on {self.name} ({self.nodes} nodes with "
                f"{self.ranks_per_node} ranks each), but it is {ranks}"
            )
        return -(-ranks // self.ranks_per_node), min(ranks, self.ranks_per_node)

    def with_settings(self, **settings: Any) -> Cluster:
        """The same with some attributes replaced."""
        return replace(self, **settings)


# --- The catalogue

_GIGA, _MICRO = 1e9, 1e-6
# The figures that NCCL 2.7 itself uses to choose an algorithm (hwLat and baseLat, ring, Simple protocol).
_NCCL = "https://github.com/NVIDIA/nccl/blob/01afd20a77b5804e0ecf1042509dd9d20ebf9e93/src/graph/tuning.cc"
_NCCL_STEP = "latency: NCCL 2.7's own figure for a ring's step, src/graph/tuning.cc"
_NCCL_START = 8.4 * _MICRO
_TCP_STEP = "latency: 8 bytes broadcast by NCCL over TCP between two nodes, measured, NVIDIA/nccl-tests issue 82"
_TCP_LATENCY = 38 * _MICRO


def _ethernet(gigabits: float) -> float:
    """Bytes per second of TCP on Ethernet: of 1538 bytes on the wire for a frame of 1500, 1448 are data."""
    return gigabits * _GIGA / 8 * 1448 / 1538


LINKS: Mapping[str, Link] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Link(
                "nvlink3", 235 * _GIGA, 3.4 * _MICRO,
                "bandwidth: most that NCCL 2.7 reckons with for A100, src/graph/tuning.cc (232.5 GB/s measured on "
                f"eight A100: NVIDIA/nccl issue 1048; 300 GB/s specified); {_NCCL_STEP}", _NCCL,
            ),
            Link(
                "nvlink4", 370 * _GIGA, 3.4 * _MICRO,
                "bandwidth: what NCCL reaches of the 450 GB/s specified for H100, by its maintainer, NVIDIA/nccl-tests "
                f"issue 212; {_NCCL_STEP} (NVLink 3)", "https://github.com/NVIDIA/nccl-tests/issues/212",
            ),
            Link(
                "infiniband-hdr200", 24 * _GIGA, 9.6 * _MICRO,
                "bandwidth: what NCCL reaches of an adapter's 25 GB/s, by its maintainer, NVIDIA/nccl-tests issue 119; "
                f"{_NCCL_STEP}", "https://github.com/NVIDIA/nccl-tests/issues/119",
            ),
            Link(
                "infiniband-hdr100", 12 * _GIGA, 9.6 * _MICRO,
                "bandwidth: what NCCL reaches of an adapter's 12.5 GB/s, by its maintainer, NVIDIA/nccl-tests issue "
                f"119; {_NCCL_STEP}", "https://github.com/NVIDIA/nccl-tests/issues/119",
            ),
            Link(
                "ethernet-100g", 5 * _GIGA, _TCP_LATENCY,
                "bandwidth: NCCL over TCP, measured at 4 to 6 of the 12.5 GB/s, NVIDIA/nccl issue 450; " + _TCP_STEP,
                "https://github.com/NVIDIA/nccl/issues/450",
            ),
            Link(
                "ethernet-25g", _ethernet(25), _TCP_LATENCY,
                "bandwidth: 1448 bytes of data in the 1538 that a full frame takes on the wire (IEEE 802.3, TCP with "
                "time stamps), a limit; " + _TCP_STEP, "https://github.com/NVIDIA/nccl-tests/issues/82",
            ),
            Link(
                "ethernet-10g", _ethernet(10), _TCP_LATENCY,
                "bandwidth: 1448 bytes of data in the 1538 that a full frame takes on the wire (IEEE 802.3, TCP with "
                "time stamps), a limit that is reached; " + _TCP_STEP, "https://github.com/NVIDIA/nccl-tests/issues/82",
            ),
            Link(
                "loopback-gloo", 1.35 * _GIGA, 216 * _MICRO,
                "measured by `snnkit bench scaling`, all-reduces of 1 kB to 17 MB by 2 and 4 processes (PyTorch 2.13, "
                "gloo) on two cores of an AMD EPYC (Zen 4, a virtual machine), which were not idle otherwise",
            ),
        )
    }
)  # fmt: skip

_JUWELS = "https://apps.fz-juelich.de/jsc/hps/juwels/booster-overview.html"

CLUSTERS: Mapping[str, Cluster] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Cluster(
                "juwels-booster", ranks_per_node=4, inside=LINKS["nvlink3"], between=LINKS["infiniband-hdr200"],
                adapters=4, nodes=936, start=_NCCL_START, url=_JUWELS,
                source="JUWELS Booster Overview, Jülich Supercomputing Centre: 936 nodes with 4 A100 (NVLink 3) and 4 "
                "HDR200 adapters each, DragonFly+",
            ),
        )
    }
)  # fmt: skip


def link(name: str) -> Link:
    """The link of this name in ``LINKS``."""
    return LINKS[checks.choice("link", name, LINKS)]


def cluster(name: str) -> Cluster:
    """The cluster of this name in ``CLUSTERS``."""
    return CLUSTERS[checks.choice("cluster", name, CLUSTERS)]


def this_machine(cores: int, *, link: Link | None = None, threads: int = 1, sharing: float = 0.0) -> Cluster:
    """Processes on one machine that compute on its cores and add up their gradients over ``link``.

    ``link`` is "loopback-gloo" of the catalogue by default; `snnkit bench scaling` measures this machine's.
    ``sharing``, the share by which a busy process slows down another one, is what ``fit`` determines.
    """
    return Cluster(
        "this machine", ranks_per_node=4096, inside=link or LINKS["loopback-gloo"], between=None,
        source="the machine that ran", cores=cores, threads=threads, sharing=sharing, overlap=0.0,
    )  # fmt: skip


# --- One update


@dataclass(frozen=True)
class Workload:
    """A training run as the model describes it.

    Attributes:
        name: for tables and figures.
        samples: of an update of one rank alone (its batch).
        step_s: seconds of such an update, measured on one rank alone.
        gradient_bytes: that all ranks add up in each update.
        backward: share of ``step_s`` that backward takes, during which buckets are sent; two thirds follow from two
            products in backward for each one in forward.
        fixed_s: part of ``step_s`` that does not shrink with the batch (launches, the optimizer), for strong scaling.
        first_bucket, bucket: bytes of the first bucket and most bytes of the others; DDP's defaults.
    """

    name: str
    samples: int
    step_s: float
    gradient_bytes: int
    backward: float = 2 / 3
    fixed_s: float = 0.0
    first_bucket: int = _MEBI
    bucket: int = 25 * _MEBI

    def __post_init__(self) -> None:
        for name in ("samples", "gradient_bytes", "first_bucket", "bucket"):
            checks.integer(name, getattr(self, name), at_least=1)
        checks.number("step_s", self.step_s, above=0)
        checks.number("backward", self.backward, at_least=0, at_most=1)
        checks.number("fixed_s", self.fixed_s, at_least=0, at_most=self.step_s)

    def buckets(self) -> Iterator[int]:
        """Bytes of each bucket, in the order in which they are sent."""
        left, most = self.gradient_bytes, self.first_bucket
        while left > 0:
            yield min(left, most)
            left, most = left - most, self.bucket


@dataclass(frozen=True)
class Prediction:
    """One update on some ranks (processes, one for each GPU) that fill some nodes.

    ``samples`` are of all ranks together. ``step_s`` seconds are ``compute_s + exposed_s``: computing, and
    communication that the ranks wait for; ``communication_s`` are all all-reduces, hidden ones included.
    ``efficiency`` is ``speedup`` (``samples_per_s`` over that of one rank) over the ranks: 1 where nothing is lost.
    """

    ranks: int
    nodes: int
    samples: int
    step_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    samples_per_s: float
    speedup: float
    efficiency: float


def all_reduce_s(size: float, cluster: Cluster, ranks: int, algorithm: Algorithm = "ring") -> float:
    """Seconds until ``size`` bytes of each of ``ranks`` are added up on all of them.

    Ranks fill one node after the other. ``algorithm`` between the nodes: "ring", "tree" (two binary trees), or
    "fastest" of the two.
    """
    checks.number("size", size, at_least=0)
    checks.choice("algorithm", algorithm, ALGORITHMS)
    nodes, here = cluster.placed(ranks)
    if ranks == 1:
        return 0.0
    inside = cluster.start + 2 * (here - 1) * (cluster.inside.latency + size / here / cluster.inside.bandwidth)
    if nodes == 1 or cluster.between is None:
        return inside
    # A single rank of a node drives one adapter; several drive all of them.
    moved = 2 * (nodes - 1) / nodes * size / (cluster.between.bandwidth * min(here, cluster.adapters))
    latency = cluster.between.latency
    ring = 2 * (nodes - 1) * latency + moved
    first = min(_CHUNK, size) / cluster.between.bandwidth
    tree = 2 * math.ceil(math.log2(nodes)) * (latency + first) + moved / _TREE
    return inside + {"ring": ring, "tree": tree, "fastest": min(ring, tree)}[algorithm]


def predict(
    workload: Workload, cluster: Cluster, ranks: int, *, scaling: Scaling = "weak", algorithm: Algorithm = "ring"
) -> Prediction:
    """One update of ``workload`` on ``ranks`` of ``cluster``.

    Args:
        scaling: "weak": every rank has ``workload.samples``; "strong": all together have them.
        algorithm: of the all-reduce between nodes, see ``all_reduce_s``.

    Raises:
        ValueError, TypeError: more ranks than there are, a batch that they cannot share evenly, an unknown setting.
    """
    checks.choice("scaling", scaling, ("weak", "strong"))
    checks.choice("algorithm", algorithm, ALGORITHMS)
    _, here = cluster.placed(ranks)
    share = 1.0
    if scaling == "strong":
        if workload.samples % ranks:
            raise ValueError(f"ranks must share {workload.samples} samples evenly in strong scaling, but it is {ranks}")
        share = 1 / ranks
    alone = workload.fixed_s + (workload.step_s - workload.fixed_s) * share
    compute = alone * slowdown(cluster, here)
    communication, exposed = _communication(workload, cluster, ranks, compute * workload.backward, algorithm)
    samples = workload.samples * (ranks if scaling == "weak" else 1)
    rate = samples / (compute + exposed)
    speedup = rate * workload.step_s / workload.samples
    return Prediction(
        ranks=ranks, nodes=cluster.placed(ranks)[0], samples=samples, step_s=compute + exposed, compute_s=compute,
        communication_s=communication, exposed_s=exposed, samples_per_s=rate, speedup=speedup,
        efficiency=speedup / ranks,
    )  # fmt: skip


def curve(
    workload: Workload,
    cluster: Cluster,
    ranks: Iterable[int],
    *,
    scaling: Scaling = "weak",
    algorithm: Algorithm = "ring",
) -> list[Prediction]:
    """``predict`` for each number of ranks."""
    return [predict(workload, cluster, n, scaling=scaling, algorithm=algorithm) for n in ranks]


def slowdown(cluster: Cluster, ranks: int) -> float:
    """How many times longer a rank computes with ``ranks`` busy on its node."""
    if cluster.cores is None:
        return 1.0 + cluster.sharing * (ranks - 1)
    # More ranks than cores take turns, and only running ones slow each other down.
    turns = max(1.0, ranks * cluster.threads / cluster.cores)
    return turns * (1.0 + cluster.sharing * (ranks / turns - 1))


def _communication(
    workload: Workload, cluster: Cluster, ranks: int, backward_s: float, algorithm: Algorithm
) -> tuple[float, float]:
    """(seconds of all all-reduces, seconds of them that the ranks wait for)."""
    if ranks == 1:
        return 0.0, 0.0
    ready, through, total = 0.0, 0.0, 0.0
    for size in workload.buckets():
        took = all_reduce_s(size, cluster, ranks, algorithm)
        # Without a profile, gradients are taken to come evenly over backward.
        ready += backward_s * size / workload.gradient_bytes
        through = max(ready, through) + took
        total += took
    waited = through - backward_s
    # Without hardware of its own, the hidden part takes time from computing.
    return total, waited + (1 - cluster.overlap) * (total - waited)


# --- Fits


@dataclass(frozen=True)
class Measured:
    """Seconds of an update on a number of ranks in weak scaling; several for one number of ranks are its rounds."""

    ranks: int
    step_s: float

    def __post_init__(self) -> None:
        checks.integer("ranks", self.ranks, at_least=1)
        checks.number("step_s", self.step_s, above=0)


@dataclass(frozen=True)
class Fit:
    """A fitted model: ``value`` of the ``free`` number, in ``cluster``, from what was ``measured``.

    Attributes:
        residuals: (predicted - measured) / measured of an update's seconds, for each number of ranks above one.
        left_out: the same, for a fit to the other numbers of ranks alone; empty where there is no other above one.
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
        """Largest relative error for ranks that were left out of the fit; without any, the largest residual."""
        return max(map(abs, (self.left_out or self.residuals).values()))

    def predict(self, ranks: int) -> Prediction:
        """Weak scaling to ``ranks`` by the fitted model."""
        return predict(self.workload, self.cluster, ranks)


def fit(measured: Sequence[Measured], workload: Workload, cluster: Cluster, *, free: Free | None = None) -> Fit:
    """Fit the model to measured updates, by least squares of the relative errors.

    One number is fitted, the one that no source gives: by how much busy ranks on one machine slow each other down, or
    the share of their bandwidth that the links reach. With more, three numbers of ranks would say nothing about the
    error.

    Args:
        measured: weak scaling on some numbers of ranks, one of them above one.
        workload: what was run. Where one rank was measured, its median replaces ``step_s``.
        cluster: where it ran.
        free: what is fitted, "sharing" or "bandwidth"; by default sharing where ranks share cores, else bandwidth.

    Raises:
        ValueError: no measurement on two or more ranks, more ranks than the cluster has, an unknown ``free``.
    """
    free = free or ("bandwidth" if cluster.cores is None else "sharing")
    checks.choice("free", free, ("sharing", "bandwidth"))
    several = sorted({m.ranks for m in measured if m.ranks > 1})
    if not several:
        raise ValueError("measured must hold an update on two or more ranks, but it holds none")
    if alone := [m.step_s for m in measured if m.ranks == 1]:
        base = statistics.median(alone)
        workload = replace(workload, step_s=base, fixed_s=min(workload.fixed_s, base))

    def error(ranks: int, fitted: Cluster) -> float:
        took = statistics.median(m.step_s for m in measured if m.ranks == ranks)
        return predict(workload, fitted, ranks).step_s / took - 1

    value = _best(measured, workload, cluster, free)
    fitted = _with(cluster, free, value)
    left_out = {}
    for ranks in several if len(several) > 1 else ():
        others = [m for m in measured if m.ranks != ranks]
        left_out[ranks] = error(ranks, _with(cluster, free, _best(others, workload, cluster, free)))
    residuals = {ranks: error(ranks, fitted) for ranks in several}
    return Fit(workload, fitted, tuple(measured), free, value, residuals, left_out)


def _best(measured: Sequence[Measured], workload: Workload, cluster: Cluster, free: Free) -> float:
    from scipy.optimize import minimize_scalar

    several = [m for m in measured if m.ranks > 1]

    def loss(value: float) -> float:
        at = _with(cluster, free, value)
        seconds = {ranks: predict(workload, at, ranks).step_s for ranks in {m.ranks for m in several}}
        return sum((seconds[m.ranks] / m.step_s - 1) ** 2 for m in several)

    def minimum(low: float, high: float, function: Callable[[float], float]) -> float:
        result: Any = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
        return float(result.x)

    # Bounds that no machine reaches: each neighbour making a rank eleven times slower, a factor of 1000.
    if free == "sharing":
        return minimum(0.0, 10.0, loss)
    return math.exp(minimum(-math.log(1e3), math.log(1e3), lambda exponent: loss(math.exp(exponent))))


def _with(cluster: Cluster, free: Free, value: float) -> Cluster:
    if free == "sharing":
        return replace(cluster, sharing=value)

    def times(link: Link) -> Link:
        source = f"{link.source}; bandwidth times {value:.3g}, fitted"
        return replace(link, bandwidth=link.bandwidth * value, source=source)

    return replace(cluster, inside=times(cluster.inside), between=cluster.between and times(cluster.between))


def fit_link(name: str, measured: Sequence[tuple[int, int, float]], source: str) -> Link:
    """Fit a link to measured ring all-reduces, by least squares of the relative errors.

    Args:
        name: of the link.
        measured: (ranks, bytes, seconds) of all-reduces on one node, of at least two sizes.
        source: how they were measured.

    Raises:
        ValueError: fewer than two sizes on two or more ranks, or times that do not grow with the bytes.
        TypeError: a number of ranks or bytes that is not an integer.
    """
    import numpy as np

    rows = []
    for ranks, size, took in measured:
        checks.integer("ranks", ranks, at_least=1)
        checks.integer("bytes", size, at_least=1)
        checks.number("seconds", took, above=0)
        # Linear in the latency and in the inverse of the bandwidth; divided by the time, so that errors are relative.
        steps = 2 * (ranks - 1)
        rows.append((steps / took, steps * size / ranks / took))
    if len({size for ranks, size, _ in measured if ranks > 1}) < 2:
        raise ValueError("measured must hold all-reduces of at least two sizes on two or more ranks")
    scale = np.abs(rows).max(axis=0)
    latency, per_byte = np.linalg.lstsq(np.array(rows) / scale, np.ones(len(rows)), rcond=None)[0] / scale
    if per_byte <= 0 or latency <= 0:
        raise ValueError(f"measured must take longer for more bytes, and some time for none, but it is {measured}")
    return Link(name, float(1 / per_byte), float(latency), source)


# --- Plans


@dataclass(frozen=True)
class Plan:
    """A planned run; ``str(plan)`` is a short text.

    ``seconds`` of all ``updates``, without the start of the job, evaluation and checkpoints; ``rank_hours``, which
    computing centres that count GPUs charge; ``alone_s`` seconds of the same epochs on one rank. A last update of an
    epoch that is not full counts as one.
    """

    workload: Workload
    cluster: Cluster
    prediction: Prediction
    updates_per_epoch: int
    updates: int
    seconds: float
    rank_hours: float
    alone_s: float

    def __str__(self) -> str:
        p = self.prediction
        lines = (
            f"{self.workload.name} on {self.cluster.name}: {p.nodes} node(s), {p.ranks} ranks",
            f"batch         {p.samples:,} ({self.workload.samples:,} on each rank)",
            f"update        {p.step_s * 1e3:.3g} ms: computing {p.compute_s * 1e3:.3g}, "
            f"waiting for the network {p.exposed_s * 1e3:.3g} (of {p.communication_s * 1e3:.3g} communicating)",
            f"samples/s     {p.samples_per_s:,.0f}, efficiency {p.efficiency:.1%}",
            f"updates       {self.updates:,} ({self.updates_per_epoch:,} an epoch)",
            f"time          {_duration(self.seconds)}; on one rank {_duration(self.alone_s)}",
            f"rank hours    {self.rank_hours:.3g}",
        )
        return "\n".join(lines)


def plan(
    workload: Workload, cluster: Cluster, nodes: int, *, samples: int, epochs: int = 1, algorithm: Algorithm = "fastest"
) -> Plan:
    """A run on ``nodes`` full nodes, every rank with ``workload.samples`` of an update, over ``samples`` an epoch.

    NCCL chooses the fastest algorithm between nodes, too.
    """
    for name, value in (("nodes", nodes), ("samples", samples), ("epochs", epochs)):
        checks.integer(name, value, at_least=1)
    if nodes > cluster.nodes:
        raise ValueError(f"nodes must be at most {cluster.nodes} on {cluster.name}, but it is {nodes}")
    at = predict(workload, cluster, nodes * cluster.ranks_per_node, algorithm=algorithm)
    per_epoch = -(-samples // at.samples)
    seconds = per_epoch * epochs * at.step_s
    alone = -(-samples // workload.samples) * epochs * workload.step_s
    return Plan(
        workload,
        cluster,
        at,
        per_epoch,
        per_epoch * epochs,
        seconds,
        rank_hours=seconds * at.ranks / 3600,
        alone_s=alone,
    )


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
