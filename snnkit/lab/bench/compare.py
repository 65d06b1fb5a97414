"""IPUs against this machine: the network of snnTorch's IPU tutorial, measured, predicted and as published.

    snnkit bench compare --out FILE.json --plot FILE.png

All candidates train from the same weights on the same batch with the same loss and optimizer. They take turns in the
same run, and one update is first compared with our eager engine's. ``hardware.roofline`` predicts IPUs; none was run.

The tutorial shows one image for all steps, so the first layer gives the same currents 25 times. snnTorch computes them
in every step, our ``Sequential`` once. To show the effect of this alone, ours also runs with the first layer in every
step, and snnTorch with the first layer once.

Columns: "first s" is the first update. "x floor" is the time as a multiple of the floating-point operations (first
layer once) at the rate of a large matrix product on the same device. "times snnTorch" compares samples per second with
its eager code. Predictions are below the measurements, never in one column with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Literal

import torch
from torch import nn

from snnkit import checks
from snnkit.device import Precision
from snnkit.lab.bench import baselines, neurons, suite
from snnkit.lab.bench.baselines import SNNTORCH, BaselineTrainer, snntorch_net
from snnkit.lab.bench.suite import OURS, Outcome, Record, Row, Rows, Suite, by_case, option, same_case, table, times
from snnkit.lab.bench.training import PRECISIONS, UpdateRace
from snnkit.lab.bench.workloads import Candidate, Ours, Workload, dense
from snnkit.lab.hardware import chips, roofline

KEY = ("dtype", "width", "steps", "batch")
HIDDEN, BATCH, STEPS = 1000, 128, 25  # of the tutorial

# Engines by device, beside the eager loop.
ENGINES = {"cpu": ("block", "cpp"), "cuda": ("block", "triton")}
EVERY_STEP = "layer 1 every step"
ONCE = f"{SNNTORCH}, layer 1 once"


@dataclass(frozen=True)
class Claim:
    """A published speed, as a multiple of eager PyTorch code on a GPU, or of a GPU. None was measured here.

    ``said`` is the multiple in the source's words, ``low`` and ``high`` are its numbers. It is drawn at its own
    ``batch`` and ``hidden`` if they are known, else at the tutorial's. ``derived``: computed here from published times.
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


_BENCHMARK = (
    "Open Neuromorphic's benchmark of libraries, data.csv",
    "https://open-neuromorphic.org/blog/spiking-neural-network-framework-benchmarking/",
)
_LAYER = "a layer of 4096 neurons, batch 16, 500 steps, forward and backward in"

# Figures in samples per second of the work behind the tutorial (arXiv:2211.10725) could not be retrieved.
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
        f"SpikingJelly with CuPy kernels against eager snnTorch, both on one GPU: {_LAYER} 0.00996 s and 0.265 s",
        16, 4096, *_BENCHMARK, derived=True,
    ),
    Claim(
        "Norse over snnTorch", "20.2", 20.2, 20.2,
        f"Norse under torch.compile against eager snnTorch, both on one GPU: {_LAYER} 0.0131 s and 0.265 s",
        16, 4096, *_BENCHMARK, derived=True,
    ),
)  # fmt: skip


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench compare``. ``batch`` and ``width`` are the tutorial's."""

    batches: Sequence[int] = option(
        "Samples of an update, with as many neurons as the tutorial.",
        (16, 128, 1024), cuda=(16, 32, 64, 128, 256, 512, 1024), quick=(4,), flag="batch",
    )  # fmt: skip
    hidden: Sequence[int] = option(
        "Hidden neurons, with the batch of the tutorial.",
        (128, 1000, 4096), cuda=(128, 256, 512, 1000, 2048, 4096), quick=(8,),
    )  # fmt: skip
    batch: int = field(default=BATCH, metadata={"quick": 4})
    width: int = field(default=HIDDEN, metadata={"quick": 8})
    steps: int = option("Time steps.", STEPS, quick=3)
    dtypes: Sequence[str] = option(
        "amp: mixed precision.", PRECISIONS[:1], cuda=PRECISIONS, flag="dtype", choices=PRECISIONS
    )
    chips: Sequence[str] = option("IPUs to predict.", ("GC200", "Bow"), flag="chip")
    peers: bool = suite.peers_option()
    repeats: int = suite.repeats_option(7)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.chips:
            if (chip := chips.get(name)).kind != "ipu":
                raise ValueError(f"chip must be an IPU, but {chip.name} is a {chip.kind.upper()}")


def _adam(parameters: list[nn.Parameter], fused: bool) -> torch.optim.Adam:
    """The tutorial's optimizer. ``fused``: one kernel for all parameters, and steps counted on the device."""
    return torch.optim.Adam(parameters, lr=1e-3, fused=fused or None, capturable=fused and parameters[0].is_cuda)


def tutorial(hidden: int = HIDDEN, batch: int = BATCH, steps: int = STEPS) -> Workload:
    """784-hidden-10 of ``Leaky(0.9)`` neurons, cross-entropy of the spike counts, Adam.

    The tutorial's text says that the loss takes spikes, but its code passes the membrane. Here it gets spikes.
    """
    return dense("Leaky", hidden, batch, steps, optimizer=_adam)


def candidates(device: torch.device, workload: Workload, peers: bool) -> Iterator[Candidate]:
    """All candidates that run on ``device``; ``unavailable`` names the other engines."""
    missing = unavailable(device)
    for engine in ("eager", *ENGINES[device.type], "auto"):
        if engine not in missing:
            yield Candidate(engine, OURS, Ours(engine), default=engine == "auto")
    if device.type == "cuda":
        yield Candidate("CUDA graph", OURS, Ours("auto", graphed=True))
        yield Candidate(f"CUDA graph, {EVERY_STEP}", OURS, Ours("auto", graphed=True, static=False))
    yield Candidate(f"auto, {EVERY_STEP}", OURS, Ours("auto", static=False))
    if peers:
        for other in baselines.networks(workload):
            if other.library == SNNTORCH and not other.compiles:
                yield other
                if other.default:
                    yield Candidate(ONCE, SNNTORCH, BaselineTrainer(partial(snntorch_net, once=True)))


def unavailable(device: torch.device) -> dict[str, str]:
    """Engines for this kind of device that do not run here, and why."""
    return neurons.candidates(device, ENGINES[device.type], peers=False)[1]


# PyTorch's mixed precision is closest to an IPU's half precision.
_ON_IPU: dict[str, Literal["float32", "float16"]] = {"float32": "float32", "bfloat16": "float16", "float16": "float16"}


def predictions(workload: Workload, dtype: str, names: Iterable[str]) -> tuple[list[Row], dict[str, str]]:
    """For each IPU its band in samples per second; and for IPUs without a band, name to reason.

    The band reaches from the slowest case, with the first layer computed in every step as in the tutorial, to the
    fastest, with the first layer computed once. Whether Poplar's compiler detects the equal products is not known. The
    middle is the likely value of the first case.
    """
    bands, missing = [], {}
    sizes = (workload.batch, workload.width, workload.steps)
    works = [_work(*sizes, hoisted=hoisted) for hoisted in (False, True)]
    for chip in names:
        try:
            ends = [roofline.ipu(work, chip, precision=_ON_IPU[dtype]) for work in works]
        except roofline.DoesNotFit as error:
            missing[chip] = str(error)
            continue
        written, once = (end.samples_per_s for end in ends)
        band = {"low": min(written.low, once.low), "likely": written.value, "high": max(written.high, once.high)}
        about = {"chip": chip, "precision": _ON_IPU[dtype], "mark": "predicted", "source": ends[0].source}
        bands.append(about | band)
    return bands, missing


# A training step with the first layer in every step or once; the next dtype has the same two.
_work = lru_cache(maxsize=2)(roofline.tutorial)


class _PredictedRace(UpdateRace):
    """Measured here, and predicted for IPUs."""

    chips: Sequence[str] = ()

    def measure(self, repeats: int) -> Outcome:
        outcome = super().measure(repeats)
        bands, missing = predictions(self.workload, self.labels["dtype"], self.chips)
        skipped = [self.labels | {"contestant": chip, "reason": reason} for chip, reason in missing.items()]
        references = outcome.references | {"predictions": [self.labels | band for band in bands]}
        return Outcome(outcome.rows, references, outcome.skipped + skipped, outcome.defects)


def _cases(arguments: Arguments, device: torch.device) -> Iterator[UpdateRace]:
    sizes = [(batch, arguments.width) for batch in sorted(arguments.batches)]
    sizes += [(arguments.batch, hidden) for hidden in sorted(arguments.hidden)]
    for batch, hidden in dict.fromkeys(sizes):
        workload = tutorial(hidden, batch, arguments.steps)
        every = list(candidates(device, workload, arguments.peers))
        for dtype in arguments.dtypes:
            precision = Precision.choose(device, dtype == "amp")
            case = _PredictedRace(workload, precision, [c for c in every if c.suits(precision)])
            case.chips = list(dict.fromkeys(chips.get(name).name for name in arguments.chips))
            yield case


def _rate(rows: Rows, contestant: str) -> float | None:
    """Samples per second; None if it was not timed."""
    return next((row["samples_per_s"] for row in rows if row["contestant"] == contestant), None)


def _table(record: Record, rows: Rows) -> str:
    dtype, width, steps, batch = (rows[0][key] for key in KEY)
    title = f"measured: 784-{width}-10, {dtype}, T = {steps}, batch {batch}"
    slow = _rate(rows, SNNTORCH)
    over = {f"times {SNNTORCH}": lambda row: times(row["samples_per_s"], slow)}
    bands = [
        f"predicted, never run: {band['chip']} ({band['precision']}) {band['low']:,.0f} to {band['high']:,.0f} "
        f"samples/s, likely {band['likely']:,.0f}"
        for band in same_case(record["predictions"], rows[0], KEY)
    ]
    return "\n".join([table(title, {**suite.THROUGHPUT, **over}, rows), *bands])


def summary(record: Record) -> str:
    """At the tutorial's size: our speed as a multiple of eager snnTorch's; and the published speeds."""
    size = {name: record["arguments"][name] for name in ("width", "steps", "batch")}
    lines = []
    for rows in by_case(record["rows"], KEY):
        mine, slow = [row for row in rows if row["library"] == OURS], _rate(rows, SNNTORCH)
        if slow is None or not mine or not same_case([rows[0]], size, list(size)):
            continue
        best = max(mine, key=lambda row: row["samples_per_s"])
        parts = [f"{best['samples_per_s'] / slow:.2f} times the samples/s of eager snnTorch ({best['contestant']})"]
        if often := [row["samples_per_s"] for row in mine if EVERY_STEP in row["contestant"]]:
            parts.append(f"{max(often) / slow:.2f} times with layer 1 in every step for both")
        if once := _rate(rows, ONCE):
            parts.append(f"{best['samples_per_s'] / once:.2f} times with it once for both")
        case = f"784-{size['width']}-10, batch {size['batch']}, {rows[0]['dtype']}, on one and the same device"
        lines += [f"{case}:", *(f"    {part}" for part in parts)]
    for claim in record["claims"]:
        mark = "derived from published times" if claim["derived"] else "published"
        source = f"{claim['source']}, {claim['url']}"
        lines.append(f"{mark}, not measured here: {claim['said']} times: {claim['what']} ({source})")
    return "\n".join(lines)


_PUBLISHED = {"claims": [asdict(claim) for claim in CLAIMS]}
SUITE = Suite("compare", KEY, _cases, _table, lambda _, device: unavailable(device), summary, _PUBLISHED)
benchmark, tables = SUITE.run, SUITE.tables
