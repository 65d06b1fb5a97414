"""What others have published about IPUs, GPUs and fused kernels: ratios, each with its source. None was measured here.

All are times as fast as eager PyTorch code on a GPU, or a GPU itself. Figures in samples per second of the work behind
the tutorial (arXiv:2211.10725) could not be retrieved, so none is shown.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A published ratio.

    Attributes:
        who: short, for a legend.
        said: how many times as fast, in its own words.
        low, high: the same as numbers, between which it is drawn; equal where one figure was published.
        what: what is compared with what, on which network.
        batch, hidden: where it is drawn: its own size, where it is known, or the tutorial's.
        source: who published it.
        url: where.
        derived: whether the ratio was computed here from published times.
    """

    who: str
    said: str
    low: float
    high: float
    what: str
    batch: int
    hidden: int
    source: str
    url: str
    derived: bool = False


_BENCHMARK = "https://open-neuromorphic.org/blog/spiking-neural-network-framework-benchmarking/"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "IPU over CUDA, tutorial", "up to 10", 10, 10,
        "training of spiking networks in mixed precision, an IPU against CUDA; network, GPU and batch are not said",
        128, 1000, "snnTorch, tutorial on IPUs",
        "https://snntorch.readthedocs.io/en/latest/tutorials/tutorial_ipu_1.html",
    ),
    Claim(
        "IPU over GPU, authors", "5 to 10", 5, 10,
        "training with snnTorch, an IPU against GPUs; on par for recurrent networks with 1-to-1 connections",
        128, 1000, "Neuromorphic Computing Group, UC Santa Cruz, on arXiv:2211.10725", "https://ncg.ucsc.edu/2022/11/",
    ),
    Claim(
        "IPU over A100, sparse", "5 to 10 (38 where activity is sparsest)", 5, 38,
        "training of dense nets of 2932 hidden neurons, batch 48, by sparse operations on IPUs against an A100",
        48, 2932, "Finkbeiner et al., AAAI 2024", "https://arxiv.org/abs/2311.04386",
    ),
    Claim(
        "CuPy over snnTorch", "26.6", 26.6, 26.6,
        "SpikingJelly with CuPy kernels against eager snnTorch, both on one GPU: a layer of 4096 neurons, batch 16, "
        "500 steps, forward and backward in 0.00996 s and 0.265 s",
        16, 4096, "Open Neuromorphic's benchmark of libraries, data.csv", _BENCHMARK, derived=True,
    ),
    Claim(
        "Norse over snnTorch", "20.2", 20.2, 20.2,
        "Norse under torch.compile against eager snnTorch, both on one GPU: a layer of 4096 neurons, batch 16, 500 "
        "steps, forward and backward in 0.0131 s and 0.265 s",
        16, 4096, "Open Neuromorphic's benchmark of libraries, data.csv", _BENCHMARK, derived=True,
    ),
)  # fmt: skip
