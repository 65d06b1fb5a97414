"""Predict the speed of training on many ranks, from one rank alone and from the links.

All-reduce: the alpha-beta model of a hierarchical one. A message of S bytes over a link takes alpha + S / beta. A ring
of n ranks passes S / n bytes on 2 (n - 1) times (Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002). On several
nodes, the ranks of each node add up first. Then each rank's share goes around the nodes, all at once over all adapters.
Two binary trees that share the work move as many bytes in 2 log2 steps (Sanders, Speck and Träff 2009,
doi:10.1016/j.parco.2009.09.001), but in chunks, and links wait for the first one. The faster of the two is taken.

Overlap: while backward runs, finished gradients are sent in buckets, as DistributedDataParallel does (Li et al. 2020,
doi:10.14778/3415478.3415530). A bucket starts when all its gradients are complete and the bucket before it has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from snnkit import checks

Scaling = Literal["weak", "strong"]

# Of DDP: bytes of the first bucket, and most bytes of the others.
_FIRST_BUCKET, _BUCKET = 2**20, 25 * 2**20
# Share of an update that backward takes: two products for each one in forward.
_BACKWARD = 2 / 3
# Of NCCL's trees: bytes of a chunk, and the share of a ring's bandwidth that they reach (src/graph/tuning.cc, 2.7).
_CHUNK, _TREE = 256 * 1024, 0.9


@dataclass(frozen=True)
class Link:
    """The link between two neighbours of a ring.

    ``bandwidth`` is in bytes per second, in one direction, as a ring of ranks reaches it; ``latency`` in seconds, of
    one step of a ring. ``source`` says where both are from, and whether they were measured or specified.
    """

    name: str
    bandwidth: float
    latency: float
    source: str

    def __post_init__(self) -> None:
        checks.number("bandwidth", self.bandwidth, above=0)
        checks.number("latency", self.latency, above=0)


@dataclass(frozen=True)
class Cluster:
    """Nodes that are all alike.

    ``overlap`` is the share of the communication during backward that takes no computing time: 1 if adapters and copy
    engines do it, 0 if the computing cores do.
    """

    name: str
    ranks_per_node: int  # processes (one for each GPU) of a full node
    inside: Link  # joins the ranks of a node
    between: Link | None  # joins a network adapter of one node to one of another; None for a single machine
    source: str
    adapters: int = 1  # of a node
    nodes: int = 1
    start: float = 0.0  # seconds that launching an all-reduce takes, whatever its size
    cores: int | None = None  # shared by the ranks of a node that compute on them; None where each has a GPU
    sharing: float = 0.0  # by which share a busy rank slows down each other one on its node (memory, caches, clock)
    overlap: float = 1.0

    def __post_init__(self) -> None:
        checks.counts(ranks_per_node=self.ranks_per_node, adapters=self.adapters, nodes=self.nodes)
        if self.cores is not None:
            checks.counts(cores=self.cores)
        checks.number("sharing", self.sharing, at_least=0)
        checks.number("overlap", self.overlap, at_least=0, at_most=1)
        if self.between is None and self.nodes > 1:
            raise ValueError(f"between must be a Link where there are {self.nodes} nodes, but it is None")

    def placed(self, ranks: int) -> tuple[int, int]:
        """(nodes, ranks on the fullest of them) that hold ``ranks``, filling one node after the other."""
        checks.integer(f"ranks on {self.name}", ranks, at_least=1, at_most=self.nodes * self.ranks_per_node)
        return -(-ranks // self.ranks_per_node), min(ranks, self.ranks_per_node)

    def with_settings(self, **settings: Any) -> Cluster:
        """The same with some attributes replaced."""
        return replace(self, **settings)


_NCCL_STEP = "latency: NCCL 2.7's own figure for a ring's step, src/graph/tuning.cc"
_TCP_STEP = "latency: 8 bytes broadcast by NCCL over TCP between two nodes, measured, NVIDIA/nccl-tests issue 82"

_LINKS = (
    Link(
        "nvlink3", 235e9, 3.4e-6,
        "bandwidth: most that NCCL 2.7 reckons with for A100, src/graph/tuning.cc (232.5 GB/s measured on "
        f"eight A100: NVIDIA/nccl issue 1048; 300 GB/s specified); {_NCCL_STEP}",
    ),
    Link(
        "infiniband-hdr200", 24e9, 9.6e-6,
        "bandwidth: what NCCL reaches of an adapter's 25 GB/s, by its maintainer, NVIDIA/nccl-tests issue 119; "
        f"{_NCCL_STEP}",
    ),
    Link(
        "ethernet-100g", 5e9, 38e-6,
        "bandwidth: NCCL over TCP, measured at 4 to 6 of the 12.5 GB/s, NVIDIA/nccl issue 450; " + _TCP_STEP,
    ),
    Link(
        "ethernet-10g", 10e9 / 8 * 1448 / 1538, 38e-6,
        "bandwidth: 1448 bytes of data in the 1538 that a full frame takes on the wire (IEEE 802.3, TCP with "
        "time stamps), a limit that is reached; " + _TCP_STEP,
    ),
    Link(
        "loopback-gloo", 1.35e9, 216e-6,
        "measured by `snnkit bench scaling`, all-reduces of 1 kB to 17 MB by 2 and 4 processes (PyTorch 2.13, "
        "gloo) on two cores of an AMD EPYC (Zen 4, a virtual machine), which were not idle otherwise",
    ),
)  # fmt: skip
LINKS: Mapping[str, Link] = MappingProxyType({link.name: link for link in _LINKS})

JUWELS_BOOSTER = Cluster(
    "juwels-booster", ranks_per_node=4, inside=LINKS["nvlink3"], between=LINKS["infiniband-hdr200"], adapters=4,
    nodes=936, start=8.4e-6,  # NCCL 2.7's own figure, src/graph/tuning.cc
    source="JUWELS Booster Overview, Jülich Supercomputing Centre: 936 nodes with 4 A100 (NVLink 3) and 4 HDR200 "
    "adapters each, DragonFly+, https://apps.fz-juelich.de/jsc/hps/juwels/booster-overview.html",
)  # fmt: skip


def this_machine(cores: int, *, link: Link | None = None, sharing: float = 0.0) -> Cluster:
    """Processes on one machine that compute on its cores and add up their gradients over ``link``.

    ``link`` is "loopback-gloo" of the catalogue by default; `snnkit bench scaling` measures this machine's.
    ``sharing``: the share by which a busy process slows another one.
    """
    return Cluster(
        "this machine", ranks_per_node=4096, inside=link or LINKS["loopback-gloo"], between=None,
        source="the machine that ran", cores=cores, sharing=sharing, overlap=0.0,
    )  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """A training run as the model describes it."""

    name: str
    samples: int  # of an update of one rank alone (its batch)
    step_s: float  # seconds of such an update, measured on one rank alone
    gradient_bytes: int  # that all ranks add up in each update
    fixed_s: float = 0.0  # part of step_s that does not shrink with the batch (launches, optimizer), for strong scaling

    def __post_init__(self) -> None:
        checks.counts(samples=self.samples, gradient_bytes=self.gradient_bytes)
        checks.number("step_s", self.step_s, above=0)
        checks.number("fixed_s", self.fixed_s, at_least=0, at_most=self.step_s)


@dataclass(frozen=True)
class Prediction:
    """One update on some ranks (processes, one for each GPU).

    ``samples`` are of all ranks together. ``step_s`` seconds are ``compute_s + exposed_s``: computing, and
    communication that the ranks wait for. ``efficiency``: ``samples_per_s`` over that of as many ranks alone.
    """

    ranks: int
    samples: int
    compute_s: float
    exposed_s: float
    efficiency: float

    @property
    def step_s(self) -> float:
        """Seconds of the update."""
        return self.compute_s + self.exposed_s

    @property
    def samples_per_s(self) -> float:
        """Of all ranks."""
        return self.samples / self.step_s


def all_reduce_s(size: float, cluster: Cluster, ranks: int) -> float:
    """Seconds until ``size`` bytes of each of ``ranks``, which fill one node after the other, are added up on all."""
    nodes, here = cluster.placed(ranks)
    if ranks == 1:
        return 0.0
    inside = cluster.start + 2 * (here - 1) * (cluster.inside.latency + size / here / cluster.inside.bandwidth)
    if nodes == 1 or cluster.between is None:
        return inside
    latency, bandwidth = cluster.between.latency, cluster.between.bandwidth
    # A single rank of a node drives one adapter; several drive all of them.
    moved = 2 * (nodes - 1) / nodes * size / (bandwidth * min(here, cluster.adapters))
    ring = 2 * (nodes - 1) * latency + moved
    tree = 2 * math.ceil(math.log2(nodes)) * (latency + min(_CHUNK, size) / bandwidth) + moved / _TREE
    return inside + min(ring, tree)


def predict(workload: Workload, cluster: Cluster, ranks: int, *, scaling: Scaling = "weak") -> Prediction:
    """One update of ``workload`` on ``ranks`` of ``cluster``.

    Every rank has ``workload.samples`` in "weak" scaling; all together have them in "strong" scaling, where a batch
    that they can't share evenly is a ValueError.
    """
    strong = scaling == "strong"
    _, here = cluster.placed(ranks)
    if strong and workload.samples % ranks:
        raise ValueError(f"ranks must share {workload.samples} samples evenly in strong scaling, but it is {ranks}")
    alone = workload.fixed_s + (workload.step_s - workload.fixed_s) / (ranks if strong else 1)
    compute = alone * slowdown(cluster, here)
    exposed = _exposed_s(workload, cluster, ranks, compute * _BACKWARD)
    efficiency = workload.step_s / (compute + exposed) / (ranks if strong else 1)
    return Prediction(ranks, workload.samples * (1 if strong else ranks), compute, exposed, efficiency)


def curve(workload: Workload, cluster: Cluster, ranks: Iterable[int], *, scaling: Scaling = "weak") -> list[Prediction]:
    """``predict`` for each number of ranks."""
    return [predict(workload, cluster, n, scaling=scaling) for n in ranks]


def slowdown(cluster: Cluster, ranks: int) -> float:
    """How many times longer a rank computes with ``ranks`` busy on its node."""
    # More ranks than cores take turns, and only running ones slow each other down.
    turns = 1.0 if cluster.cores is None else max(1.0, ranks / cluster.cores)
    return turns * (1.0 + cluster.sharing * (ranks / turns - 1))


def _exposed_s(workload: Workload, cluster: Cluster, ranks: int, backward_s: float) -> float:
    """Seconds of the all-reduces of an update that the ranks wait for."""
    if ranks == 1:
        return 0.0
    ready, through, total = 0.0, 0.0, 0.0
    left, most = workload.gradient_bytes, _FIRST_BUCKET
    while left > 0:
        size = min(left, most)
        took = all_reduce_s(size, cluster, ranks)
        # Without a profile, gradients are taken to come evenly over backward.
        ready += backward_s * size / workload.gradient_bytes
        through = max(ready, through) + took
        total += took
        left, most = left - size, _BUCKET
    waited = through - backward_s
    # Without hardware of its own, the hidden part takes time from computing.
    return waited + (1 - cluster.overlap) * (total - waited)


@dataclass(frozen=True)
class Measured:
    """Seconds of an update on a number of ranks in weak scaling; several for one number of ranks are its rounds."""

    ranks: int
    step_s: float

    def __post_init__(self) -> None:
        checks.integer("ranks", self.ranks, at_least=1)
        checks.number("step_s", self.step_s, above=0)


def fit_link(name: str, measured: Sequence[Sequence[float]], source: str) -> Link:
    """Fit a link to measured ring all-reduces, by least squares of the relative errors.

    ``measured`` are (ranks, bytes, seconds) of all-reduces on one node, of at least two sizes; ``source`` says how.
    """
    import numpy as np

    if not all(isinstance(one, Sequence) and len(one) == 3 for one in measured):
        raise ValueError(f"measured must hold (ranks, bytes, seconds), but it is {checks.shown(measured)}")
    if len({size for ranks, size, _ in measured if ranks > 1}) < 2:
        raise ValueError("measured must hold all-reduces of at least two sizes on two or more ranks")
    # Linear in the latency and in the inverse of the bandwidth; divided by the time, so that errors are relative.
    rows = [(2 * (n - 1) / took, 2 * (n - 1) * size / n / took) for n, size, took in measured]
    scale = np.abs(rows).max(axis=0)
    latency, per_byte = np.linalg.lstsq(np.array(rows) / scale, np.ones(len(rows)), rcond=None)[0] / scale
    if per_byte <= 0 or latency <= 0:
        raise ValueError(f"measured must take longer for more bytes, and some time for none, but it is {measured}")
    return Link(name, float(1 / per_byte), float(latency), source)


checks.all_arguments(__name__)
