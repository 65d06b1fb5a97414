"""The catalogue of chips: every figure with its source and its reliability. None was measured here.

    get("GC200").value("fp32_flops")        # 6.2e13, operations per second

A figure without a known source is None; a prediction that needs it raises ``MissingFigure``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from snnkit import checks
from snnkit.tables import text_table

Kind = Literal["gpu", "ipu"]
# On the machine at hand; read on a page of a third party; computed from other figures; no source is known.
Mark = Literal["measured", "secondary", "derived", "unknown"]

# What each figure is, and its unit.
FIGURES = {
    "fp32_flops": ("dense float32 arithmetic, without TF32", "FLOP/s"),
    "fp16_flops": ("dense matrix products in float16", "FLOP/s"),
    "memory_bandwidth": ("bandwidth of the device's main memory", "B/s"),
    "memory_bytes": ("main memory", "B"),
    "cache_bytes": ("last cache before the main memory", "B"),
    "tiles": ("processors, each with its own memory", ""),
    "threads_per_tile": ("worker threads of a tile", ""),
    "clock": ("clock", "Hz"),
    "tile_bytes": ("memory of a tile", "B"),
    "on_chip_bytes": ("memory of all tiles", "B"),
    "sram_bandwidth": ("bandwidth of all tiles' memories", "B/s"),
    "exchange_bandwidth": ("bandwidth between tiles", "B/s"),
    "power": ("power", "W"),
}


class MissingFigure(ValueError):
    """A prediction needs a figure of a chip that is not in the catalogue."""


@checks.arguments
@dataclass(frozen=True)
class Figure:
    """One number with its origin; ``str(figure)`` shows all of it."""

    value: float | None  # in ``unit``; None if it is unknown
    unit: str  # SI, without prefix
    mark: Mark
    source: str  # where it was read, or how it was computed

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown ({self.source})"
        return f"{f'{self.value:.4g} {self.unit}'.rstrip()} ({self.mark}: {self.source})"


@checks.arguments
@dataclass(frozen=True)
class Chip:
    """A processor."""

    name: str
    kind: Kind
    title: str  # the exact model
    figures: Mapping[str, Figure] = field(repr=False)  # by key of ``FIGURES``, without those that the kind has not

    @checks.arguments
    def figure(self, key: str) -> Figure:
        """The figure under ``key`` of ``FIGURES``. Raises MissingFigure if it is unknown for this chip."""
        checks.choice("key", key, FIGURES)
        figure = self.figures.get(key)
        what = f"the {key} of {self.name} ({FIGURES[key][0]})"
        if figure is None:
            raise MissingFigure(f"{what} is not in the catalogue, where no {self.kind.upper()} has it")
        if figure.value is None:
            raise MissingFigure(f"{what} is not known: {figure.source}")
        return figure

    def value(self, key: str) -> float:
        """The number of ``figure(key)``."""
        value = self.figure(key).value
        assert value is not None
        return value


_Given = float | tuple[float | None, Mark, str]  # value, or value, mark and source


def _chip(name: str, kind: Kind, title: str, usual: str, **given: _Given) -> Chip:
    """A number without a mark is "secondary", read on the ``usual`` page."""
    figures = {}
    for key, figure in given.items():
        value, mark, source = figure if isinstance(figure, tuple) else (figure, "secondary", usual)
        figures[key] = Figure(value, FIGURES[key][1], mark, source)
    return Chip(name, kind, title, figures)


_BLAKE = "thecharlieblake.co.uk/ipus"
_CAMBRIAN = "cambrian-ai.com/could-graphcores-second-chip-challenge-nvidia"
_KLOCKWOOD = "glennklockwood.com/garden/processors"
_SYSRQMTS = "sysrqmts.com"
_HMC = "hmc-tech.com"

_TILES, _GC200_CLOCK, _TILE = 1472, 1.325e9, 624 * 1024
_IPU_POWER = "of an IPU-Machine of four, by 4 (it holds other things, too), eenewseurope.com"


def _ipu(name: str, title: str, clock: float, clock_source: tuple[Mark, str], power: _Given) -> Chip:
    """Both generations have the same tiles; what is proportional to the clock is computed from it."""
    scaled = clock / _GC200_CLOCK
    sram = ("secondary", _BLAKE) if scaled == 1 else ("derived", "GC200's × the ratio of the clocks")
    return _chip(
        name, "ipu", title, _BLAKE,
        fp32_flops=(_TILES * 16 * 2 * clock, "derived", "tiles × 16 multiply-adds a cycle × clock"),
        fp16_flops=(_TILES * 64 * 2 * clock, "derived", "tiles × 64 multiply-adds a cycle × clock"),
        tiles=_TILES, threads_per_tile=6, clock=(clock, *clock_source),
        tile_bytes=(_TILE, "derived", f"the 900 MB sold ({_BLAKE}) by the tiles; 624 KiB give it within 0.5 %"),
        on_chip_bytes=(_TILES * _TILE, "derived", "tiles × bytes of a tile; sold as 900 MB"),
        sram_bandwidth=(47.5e12 * scaled, sram[0], sram[1]),
        exchange_bandwidth=(_TILES * 4 * clock, "derived", "tiles × 4 bytes a cycle × clock"), power=power,
    )  # fmt: skip


_ALL = (
    _ipu(
        "GC200", "Graphcore Colossus Mk2 GC200", _GC200_CLOCK,
        ("derived", f"gives the 250 ({_BLAKE}) and 62.5 TFLOP/s sold ({_CAMBRIAN}) within 0.5 %"),
        (1500 / 4, "derived", "1.5 kW " + _IPU_POWER),
    ),
    _ipu(
        "Bow", "Graphcore Bow (GC200's tiles, wafer on wafer)", 1.85e9,
        ("secondary", "talent-republic.tv; gives the 350 TFLOP/s sold within 0.5 %"),
        (1250 / 4, "derived", "1.25 kW on average " + _IPU_POWER),
    ),
    _chip(
        "T4", "gpu", "NVIDIA T4", _SYSRQMTS, fp32_flops=8.14e12, fp16_flops=65.13e12, memory_bandwidth=320e9,
        memory_bytes=16e9, cache_bytes=4 * 2**20, power=70,
    ),
    _chip(
        "V100", "gpu", "NVIDIA V100 SXM2", _SYSRQMTS, fp32_flops=15.7e12, fp16_flops=(125e12, "secondary", _HMC),
        memory_bandwidth=900e9, memory_bytes=(None, "unknown", "sold with 16 and with 32 GB"), cache_bytes=6 * 2**20,
        power=(300, "secondary", _HMC),
    ),
    _chip(
        "RTX 2080 Ti", "gpu", "NVIDIA GeForce RTX 2080 Ti", _SYSRQMTS, fp32_flops=13.45e12,
        fp16_flops=(None, "unknown", "sources give only the vector units' 26.9 TFLOP/s, not the tensor cores'"),
        memory_bandwidth=616e9, cache_bytes=(None, "unknown", "no source is known"), power=250,
    ),
    *(
        _chip(
            name, "gpu", f"NVIDIA A100 SXM {gigabytes} GB", f"{_KLOCKWOOD}/A100",
            fp32_flops=(19.5e12, "secondary", f"{_KLOCKWOOD}/A100, after NVIDIA's data sheet"),
            fp16_flops=(312e12, "secondary", f"{_KLOCKWOOD}/A100, after NVIDIA's data sheet"),
            memory_bandwidth=bandwidth, memory_bytes=gigabytes * 1e9, power=400,
            cache_bytes=(40 * 2**20, "secondary", "upb-pc2.atlassian.net, deviceQuery: 41 943 040 bytes"),
        )
        for name, gigabytes, bandwidth in (("A100", 40, 1555e9), ("A100 80GB", 80, 2039e9))
    ),
    _chip(
        "L4", "gpu", "NVIDIA L4", "fpsbench.com", fp32_flops=30.3e12,
        fp16_flops=(121e12, "derived", "half of the 242 TFLOP/s sold with sparsity, grokipedia.com"),
        memory_bandwidth=300e9, memory_bytes=24e9, cache_bytes=48 * 2**20, power=72,
    ),
    _chip(
        "H100", "gpu", "NVIDIA H100 SXM", f"{_KLOCKWOOD}/h100", fp32_flops=66.9e12, fp16_flops=989.4e12,
        memory_bandwidth=3.35e12, memory_bytes=80e9, cache_bytes=(50 * 2**20, "secondary", _SYSRQMTS), power=700,
    ),
    _chip(
        "H200", "gpu", "NVIDIA H200 SXM", "aiminingco.com/gpu/h200/specs",
        fp32_flops=(66.9e12, "secondary", f"{_KLOCKWOOD}/h100"),
        fp16_flops=(989.4e12, "secondary", f"{_KLOCKWOOD}/h100"), memory_bandwidth=4.8e12, memory_bytes=141e9,
        cache_bytes=(60 * 2**20, "secondary", "chipsandcheese.com, of the whole GH100, H100s have less"), power=700,
    ),
)  # fmt: skip
CHIPS: Mapping[str, Chip] = MappingProxyType({chip.name: chip for chip in _ALL})


@checks.arguments
def names(kind: Kind | None = None) -> tuple[str, ...]:
    """The names in the catalogue, of all chips or of those of one kind."""
    return tuple(chip.name for chip in CHIPS.values() if kind in (None, chip.kind))


@checks.arguments
def compare(*chips: str) -> str:
    """The figures of some chips side by side, as text: value and mark, and below the sources by number."""
    sources: dict[str, int] = {}

    def cell(figure: Figure | None) -> str:
        if figure is None or figure.value is None:
            return "-"
        number = sources.setdefault(figure.source, len(sources) + 1)
        prefix = next((p for p in (1e12, 1e9, 1e6, 1e3) if figure.value >= p), 1.0) if figure.unit else 1.0
        unit = {1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k", 1.0: ""}[prefix] + figure.unit
        return f"{figure.value / prefix:,.4g} {unit}".strip() + f" ({figure.mark}, {number})"

    chosen = [get(name) for name in chips]
    keys = [key for key in FIGURES if any(key in chip.figures for chip in chosen)]
    rows = [(key.replace("_", " "), *(cell(chip.figures.get(key)) for chip in chosen)) for key in keys]
    lines = text_table(("", *(f"{chip.name} ({chip.kind.upper()})" for chip in chosen)), rows)
    return "\n".join([*lines, *(f"({number}) {source}" for source, number in sources.items())])


@checks.arguments
def get(name: str) -> Chip:
    """The chip of this name, in any case; ValueError, listing the names, if there is none."""
    wanted = name.strip().casefold()
    known = next((known for known in CHIPS if known.casefold() == wanted), name)
    return CHIPS[checks.choice("chip", known, CHIPS)]
