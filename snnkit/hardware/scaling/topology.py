"""What joins processors: links, and clusters of nodes made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..checks import above_zero, between, whole


@dataclass(frozen=True)
class Link:
    """What joins two neighbours of a ring.

    Attributes:
        name: for messages.
        bandwidth: bytes per second, in one direction.
        latency: seconds of one step of a ring.
        source: where both figures are from, and whether they were measured or specified.
        url: of that source; "" for what was measured here.

    Raises:
        ValueError, TypeError: a bandwidth or latency that is no number above zero; no source.
    """

    name: str
    bandwidth: float
    latency: float
    source: str
    url: str = ""

    def __post_init__(self) -> None:
        above_zero("bandwidth", self.bandwidth)
        above_zero("latency", self.latency)
        if not self.source:
            raise ValueError(f"source of link {self.name!r} must say where its figures are from, but it is empty")


@dataclass(frozen=True)
class Cluster:
    """Nodes that are all alike.

    Attributes:
        name: for messages.
        ranks_per_node: processes (one for each GPU) of a full node.
        inside: joins the ranks of a node.
        between: joins a network adapter of one node to one of another; None for a machine that stands alone.
        adapters: network adapters of a node.
        nodes: that there are.
        start: seconds every all-reduce takes, whatever it moves: its launch.
        cores: processor cores that ranks of a node share, where they compute on them; None where each has a GPU.
        threads: that a rank computes with, where ``cores`` is given.
        sharing: share by which one busy rank slows down each other one on its node (memory bandwidth, caches, clock).
        overlap: share of the communication during backward that costs no time of its own: 1 where adapters and copy
            engines do it, 0 where the cores that compute do it.
        source: where the figures are from.
        url: of that source.

    Raises:
        ValueError, TypeError: a number that can't be; no link between nodes of which there are several.
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
        for name in ("ranks_per_node", "adapters", "nodes", "threads"):
            whole(name, getattr(self, name))
        if self.cores is not None:
            whole("cores", self.cores)
        for name, most in (("start", math.inf), ("sharing", math.inf), ("overlap", 1.0)):
            between(name, getattr(self, name), 0.0, most)
        if self.between is None and self.nodes > 1:
            raise ValueError(f"between must be a Link where there are {self.nodes} nodes, but it is None")

    @property
    def most_ranks(self) -> int:
        """Ranks of all its nodes."""
        return self.nodes * self.ranks_per_node

    def placed(self, ranks: int) -> tuple[int, int]:
        """(nodes, ranks on the fullest of them) that hold ``ranks``, filling one node after the other.

        Raises:
            ValueError: there are not that many.
        """
        whole("ranks", ranks)
        if ranks > self.most_ranks:
            raise ValueError(
                f"ranks must be at most {self.most_ranks} on {self.name} ({self.nodes} nodes with "
                f"{self.ranks_per_node} ranks each), but it is {ranks}"
            )
        return -(-ranks // self.ranks_per_node), min(ranks, self.ranks_per_node)

    def with_settings(self, **settings: Any) -> Cluster:
        """The same with some attributes replaced; errors as the class, TypeError for one that it has not."""
        return replace(self, **settings)
