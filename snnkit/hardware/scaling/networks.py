"""The catalogue of networks: links between processors with the source of each figure, and clusters made of them.

    link("infiniband-hdr200").bandwidth        # bytes per second
    cluster("juwels-booster").ranks_per_node   # 4

A link's bandwidth is what a ring of ranks gets out of it, not the number on the box; its latency is one step of a ring
that moves hardly anything. They are beta and alpha of the model in ``allreduce``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .topology import Cluster, Link

__all__ = ["CLUSTERS", "LINKS", "Cluster", "Link", "cluster", "link"]

_GIGA, _MICRO = 1e9, 1e-6
_MOST_LOCAL = 4096  # processes on one machine: more than anybody starts
# What NCCL 2.7 itself reckons with when it chooses an algorithm (hwLat and baseLat, ring, Simple protocol).
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


def this_machine(cores: int, *, link: Link | None = None, threads: int = 1, sharing: float = 0.0) -> Cluster:
    """Processes on one machine that compute on its cores and add up their gradients over ``link``.

    Args:
        cores: that they share.
        link: "loopback-gloo" of the catalogue where it is not given; better what was measured here, as `snnkit bench
            scaling` does (through shared memory where ranks use that).
        threads: of each process.
        sharing: by which share a busy process slows another one down; ``fit`` finds it.

    Raises:
        ValueError, TypeError: a number that can't be.
    """
    return Cluster(
        "this machine", ranks_per_node=_MOST_LOCAL, inside=link or LINKS["loopback-gloo"], between=None,
        source="the machine that ran", cores=cores, threads=threads, sharing=sharing, overlap=0.0,
    )  # fmt: skip


def link(name: str) -> Link:
    """The link of this name in ``LINKS``. ValueError: there is none."""
    return _named("link", name, LINKS)


def cluster(name: str) -> Cluster:
    """The cluster of this name in ``CLUSTERS``. ValueError: there is none."""
    return _named("cluster", name, CLUSTERS)


def _named(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}, but it is {name!r}")
    return known[name]
