"""A run on a cluster before anybody has waited for it: how long, on how much of it, and what one rank would take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..checks import whole
from .allreduce import Algorithm
from .step import Prediction, Scaling, Workload, predict
from .topology import Cluster


@dataclass(frozen=True)
class Plan:
    """What ``plan`` says. ``str(plan)`` is a short text.

    Attributes:
        workload: of one rank.
        cluster: where it would run.
        prediction: of one update.
        updates_per_epoch: a last one that is not full counts as one.
        updates: of all epochs.
        seconds: that they take, without the start of the job, evaluation and checkpoints.
        rank_hours: ranks times hours: what a computing centre puts to your account, if it counts GPUs.
        alone_s: seconds of the same epochs on one rank.
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
    """A run on ``nodes`` full nodes, every rank with ``workload.samples`` of an update.

    Args:
        samples: of an epoch.
        epochs: passes over them.
        algorithm: of the all-reduce between nodes; NCCL chooses the fastest, too.

    Raises:
        ValueError, TypeError: more nodes than there are, a number that can't be.
    """
    for name, value in (("nodes", nodes), ("samples", samples), ("epochs", epochs)):
        whole(name, value)
    if nodes > cluster.nodes:
        raise ValueError(f"nodes must be at most {cluster.nodes} on {cluster.name}, but it is {nodes}")
    at = predict(workload, cluster, nodes * cluster.ranks_per_node, algorithm=algorithm)
    per_epoch = -(-samples // at.samples)
    updates = per_epoch * epochs
    seconds = updates * at.step_s
    alone = -(-samples // workload.samples) * epochs * workload.step_s
    return Plan(workload, cluster, at, per_epoch, updates, seconds, seconds * at.ranks / 3600, alone)


def curve(
    workload: Workload,
    cluster: Cluster,
    ranks: Iterable[int],
    *,
    scaling: Scaling = "weak",
    algorithm: Algorithm = "ring",
) -> list[Prediction]:
    """``predict`` for each number of ranks, in their order; errors as there."""
    return [predict(workload, cluster, n, scaling=scaling, algorithm=algorithm) for n in ranks]


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
