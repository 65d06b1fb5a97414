"""How long ranks take to add up their gradients: the alpha-beta model of a hierarchical all-reduce.

A message of S bytes over a link takes alpha + S / beta. A ring of n ranks passes S / n bytes on 2 (n - 1) times: once
around to add up, once more to spread the sums (Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002). On several
nodes the ranks of each node add up among themselves first, so that every rank holds its share of the node's sum; then
each share goes around the nodes, all at once over all adapters; then it is spread inside. So 2 (N - 1) / N of S leave
each of N nodes, where a ring through all ranks, one after the other, would send up to 2 S.

A ring's steps grow with the nodes. Two binary trees that share the work move as many bytes in 2 log2 steps (Sanders,
Speck and Träff 2009, doi:10.1016/j.parco.2009.09.001), which is why NCCL goes over to them on many nodes; but data goes
through a tree in chunks, and until the first one is through, links wait.
"""

from __future__ import annotations

import math
from typing import Literal

from ..checks import between
from .topology import Cluster

Algorithm = Literal["ring", "tree", "fastest"]
ALGORITHMS = ("ring", "tree", "fastest")

# Of NCCL's trees: bytes of a chunk, and the share of a ring's bandwidth that they reach (src/graph/tuning.cc, 2.7).
_CHUNK = 256 * 1024
_TREE = 0.9


def all_reduce_s(size: float, cluster: Cluster, ranks: int, algorithm: Algorithm = "ring") -> float:
    """Seconds until ``size`` bytes of each of ``ranks`` are added up everywhere.

    Args:
        size: bytes of the gradient (of one bucket of it).
        cluster: where the ranks are; they fill one node after the other.
        ranks: how many, up to ``cluster.most_ranks``.
        algorithm: between the nodes: "ring", "tree" (two binary trees), or "fastest" of the two.

    Raises:
        ValueError, TypeError: a size below zero, more ranks than there are, an unknown algorithm.
    """
    between("size", size, 0, math.inf)
    check_algorithm(algorithm)
    nodes, here = cluster.placed(ranks)
    if ranks == 1:
        return 0.0
    return cluster.start + _inside(size, cluster, here) + _across(size, cluster, nodes, here, algorithm)


def check_algorithm(algorithm: str) -> None:
    """ValueError unless it is one."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(map(repr, ALGORITHMS))}, but it is {algorithm!r}")


def _inside(size: float, cluster: Cluster, ranks: int) -> float:
    return 2 * (ranks - 1) * (cluster.inside.latency + size / ranks / cluster.inside.bandwidth)


def _across(size: float, cluster: Cluster, nodes: int, ranks: int, algorithm: Algorithm) -> float:
    if nodes == 1 or cluster.between is None:
        return 0.0
    # A rank alone drives one adapter; several share them out.
    moved = 2 * (nodes - 1) / nodes * size / (cluster.between.bandwidth * min(ranks, cluster.adapters))
    latency = cluster.between.latency
    ring = 2 * (nodes - 1) * latency + moved
    first = min(_CHUNK, size) / cluster.between.bandwidth
    tree = 2 * math.ceil(math.log2(nodes)) * (latency + first) + moved / _TREE
    return {"ring": ring, "tree": tree, "fastest": min(ring, tree)}[algorithm]
