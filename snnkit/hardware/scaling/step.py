"""One update on many ranks: computing, slowed down by who shares the machine, and the communication that is not hidden.

While backward still runs, the gradients it is done with are sent in buckets, as DistributedDataParallel does (Li et al.
2020, doi:10.14778/3415478.3415530). A bucket starts when all its gradients are there and the bucket before it is
through; what is left of the communication when backward is done, everybody waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..checks import above_zero, between, whole
from . import allreduce
from .allreduce import Algorithm
from .topology import Cluster

Scaling = Literal["weak", "strong"]
MEBI = 2**20


@dataclass(frozen=True)
class Workload:
    """A training run as the model sees it.

    Attributes:
        name: for tables and figures.
        samples: of an update of one rank alone (its batch).
        step_s: seconds of such an update, measured on one rank alone.
        gradient_bytes: that all ranks add up in each update.
        backward: share of ``step_s`` that backward takes, during which buckets are sent. Two thirds are what two
            products for each one of forward come to.
        fixed_s: part of ``step_s`` that doesn't shrink with the batch (launches, the optimizer). It counts where a
            batch is shared out.
        first_bucket: bytes of the first bucket, a small one, so that sending starts early; DDP's default.
        bucket: most bytes of the others; DDP's default.

    Raises:
        ValueError, TypeError: a number that can't be.
    """

    name: str
    samples: int
    step_s: float
    gradient_bytes: int
    backward: float = 2 / 3
    fixed_s: float = 0.0
    first_bucket: int = MEBI
    bucket: int = 25 * MEBI

    def __post_init__(self) -> None:
        for name in ("samples", "gradient_bytes", "first_bucket", "bucket"):
            whole(name, getattr(self, name))
        above_zero("step_s", self.step_s)
        between("backward", self.backward, 0.0, 1.0)
        between("fixed_s", self.fixed_s, 0.0, self.step_s)

    def buckets(self) -> Iterator[int]:
        """Bytes of each bucket, in the order in which they are sent."""
        left, most = self.gradient_bytes, self.first_bucket
        while left > 0:
            yield min(left, most)
            left, most = left - most, self.bucket


@dataclass(frozen=True)
class Prediction:
    """What ``predict`` says about a number of ranks.

    Attributes:
        ranks: processes, one for each GPU.
        nodes: that they fill.
        samples: of an update of all ranks together.
        step_s: seconds of an update.
        compute_s: of them, computing.
        communication_s: of all-reduces, hidden ones included.
        exposed_s: of communication that is waited for; with ``compute_s`` it is ``step_s``.
        samples_per_s: of all ranks together.
        speedup: ``samples_per_s`` over that of one rank.
        efficiency: ``speedup`` over the ranks: 1 where nothing is lost.
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


def predict(
    workload: Workload, cluster: Cluster, ranks: int, *, scaling: Scaling = "weak", algorithm: Algorithm = "ring"
) -> Prediction:
    """One update of ``workload`` on ``ranks`` of ``cluster``.

    Args:
        scaling: "weak": every rank has ``workload.samples``; "strong": all together have them.
        algorithm: of the all-reduce between nodes, see ``allreduce.all_reduce_s``.

    Raises:
        ValueError, TypeError: more ranks than there are, a batch that they can't share evenly, an unknown setting.
    """
    if scaling not in ("weak", "strong"):
        raise ValueError(f"scaling must be 'weak' or 'strong', but it is {scaling!r}")
    allreduce.check_algorithm(algorithm)
    nodes, here = cluster.placed(ranks)
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
    speedup = rate / (workload.samples / workload.step_s)
    return Prediction(
        ranks, nodes, samples, compute + exposed, compute, communication, exposed, rate, speedup, speedup / ranks
    )


def slowdown(cluster: Cluster, ranks: int) -> float:
    """How many times longer a rank computes when ``ranks`` are at work on its node."""
    if cluster.cores is None:
        return 1.0 + cluster.sharing * (ranks - 1)
    # More ranks than cores take turns, and only those at work get into each other's way.
    turns = max(1.0, ranks * cluster.threads / cluster.cores)
    return turns * (1.0 + cluster.sharing * (ranks / turns - 1))


def _communication(
    workload: Workload, cluster: Cluster, ranks: int, backward_s: float, algorithm: Algorithm
) -> tuple[float, float]:
    """(seconds of all all-reduces, seconds of them that are waited for)."""
    if ranks == 1:
        return 0.0, 0.0
    ready, through, total = 0.0, 0.0, 0.0
    for size in workload.buckets():
        took = allreduce.all_reduce_s(size, cluster, ranks, algorithm)
        # Gradients come evenly over backward, for want of a profile.
        ready += backward_s * size / workload.gradient_bytes
        through = max(ready, through) + took
        total += took
    waited = through - backward_s
    # Where no hardware of its own does it, the hidden part is taken from those who compute.
    return total, waited + (1 - cluster.overlap) * (total - waited)
