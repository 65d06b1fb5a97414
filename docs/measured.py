"""Writes the tables of measurements in the README and in docs/ from the records that come with the kit.

    python docs/measured.py            writes them, and the pictures of "Why spikes?" and of few spikes
    python docs/measured.py --check    says whether they are as the records have it; exit code 1 if not

A table stands between ``<!-- measured: NAME -->`` and ``<!-- /measured -->``.
"""

from __future__ import annotations

import functools
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from snnkit import data, encode, files, records, tables
from snnkit.lab import pages, viz
from snnkit.lab.hardware import energy
from snnkit.lab.viz import figures

DOCS = Path(__file__).parent
PAGES = (DOCS.parent / "README.md", *(DOCS / f"{name}.md" for name in ("benchmarks", "frameworks", "why_spikes")))
FRAMEWORKS, SPARSITY = "frameworks_cpu_epyc_1thread", "sparsity_cpu_epyc_1thread"
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- /measured -->)", re.DOTALL)

LAYERS = {"SpikingJelly": "`LIFNode`", "snnTorch": "`Leaky`", "Norse": "`LIF`"}
NETS = (
    ("conv", "SpikingJelly", "conv net of SpikingJelly's tutorial, 32 channels, T = 4"),
    ("mlp", "snnTorch", "784-1000-10, T = 25: snnTorch `Leaky`"),
    ("mlp", "SpikingJelly", "the same with SpikingJelly `LIFNode`"),
    ("mlp", "Norse", "the same with Norse `LIF`"),
)


def layers() -> str:
    rows = [
        row
        for row in records.load("cpu_epyc_1thread")["rows"]
        if (row["neurons"], row["steps"], row["dtype"]) == (2**18, 32, "float32") and row["out_dtype"] != "uint8"
    ]
    lines = [
        "| the other library | its forward | ours | | its forward + backward | ours | |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for library, name in LAYERS.items():
        cells = [f"{library} {name}"]
        for mode in ("inference", "training"):
            theirs = _one(row for row in rows if row["library"] == library and row["mode"] == mode)
            ours = _one(
                row
                for row in rows
                if row["engine"] == "cpp" and row["equation"] == theirs["equation"] and row["mode"] == mode
            )
            cells += [_ms(theirs), _ms(ours), _times(theirs, ours)]
        lines.append(_row(cells))
    return "\n".join(lines)


def frameworks() -> str:
    every = [r for r in records.load(FRAMEWORKS)["rows"] if r["mode"] == "training"]
    lines = [
        "| the other library | neurons, n = 512 | ours | | n = 2048 | ours | | both layers, n = 512 | ours | |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for library, name in {**LAYERS, "Spyx": "`LIF` (JAX)"}.items():
        cells = [f"{library} {name}"]
        for part, features in (("neurons", 512), ("neurons", 2048), ("layer", 512)):
            rows = [row for row in every if (row["part"], row["features"]) == (part, features)]
            theirs = _one(row for row in rows if row["library"] == library)
            ours = _one(row for row in rows if row["engine"] == "cpp" and row["equation"] == theirs["equation"])
            cells += [_ms(theirs), _ms(ours), _times(theirs, ours)]
        lines.append(_row(cells))
    return "\n".join(lines)


def contestants() -> str:
    """All rows of the comparison: a table for the layer and one for the neurons alone, of each size."""
    record = records.load(FRAMEWORKS)
    blocks = []
    for features in sorted({row["features"] for row in record["rows"]}):
        for part, named in (("layer", f"`Linear({features}, {features})` and neurons"), ("neurons", "neurons alone")):
            rows = [row for row in record["rows"] if (row["part"], row["features"]) == (part, features)]
            ours = [row for row in rows if row["library"] == "snnkit"]
            lines = [
                f"**n = {features:,}, {named}**\n",
                "| | equation | forward | × ours | forward + backward | × ours | peak memory |",
                "|---|---|--:|--:|--:|--:|--:|",
            ]
            for name, equation in dict.fromkeys((row["contestant"], row["equation"]) for row in rows):
                cells = ["snnkit" if any(one["contestant"] == name for one in ours) else name, equation]
                for mode in ("inference", "training"):
                    row = _one(r for r in rows if (r["contestant"], r["equation"], r["mode"]) == (name, equation, mode))
                    best = _best(one for one in ours if (one["equation"], one["mode"]) == (equation, mode))
                    cells += [_ms(row), f"{row['median_s'] / best['median_s']:.2f}"]
                lines.append(_row([*cells, f"{row['peak_bytes'] / 1e6:.0f} MB"]))
            scales = [s for s in record["scales"] if (s["part"], s["features"]) == (part, features)]
            if scales:
                both = " and ".join(_ms(_one(s for s in scales if s["mode"] == m)) for m in ("inference", "training"))
                what = "The matrix products alone" if part == "layer" else "A copy of the input"
                lines.append(f"\n{what}: {both}.")
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def nets() -> str:
    every = records.load("training_cpu_epyc_1thread")["rows"]
    lines = [
        "| network, and the other library | its update | its best setting | ours | over its best "
        "| bfloat16: its best | ours | over its best |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for net, library, name in NETS:
        cells = [name]
        for dtype in ("float32", "bfloat16"):
            rows = [row for row in every if row["net"] == net and row["dtype"] == dtype]
            theirs = [row for row in rows if row["library"] == library]
            best = _best(theirs)
            ours = _best(row for row in rows if row["library"] == "snnkit" and row["equation"] == best["equation"])
            if dtype == "float32":
                cells.append(_ms(_one(row for row in theirs if row["default"]), 0))
            cells += [_ms(best, 0), _ms(ours, 0), _times(best, ours)]
        lines.append(_row(cells))
    return "\n".join(lines)


def ports() -> str:
    every = records.load("ports_cpu_epyc_1thread")["rows"]
    lines = [
        "| example | original | its update | lines | ours: `auto` | compiled | over the original | lines |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in dict.fromkeys(row["port"] for row in every):
        auto, compiled, theirs = (
            _one(row for row in every if row["port"] == name and chosen(row))
            for chosen in (
                lambda row: row["contestant"] == "auto",
                lambda row: row["contestant"] == "cpp",
                lambda row: row["library"] != "snnkit",
            )
        )
        size = f"`{name}`, T = {auto['steps']}, {tables.count_of(auto['batch'], 'sample')}"
        best = _times(theirs, _best([auto, compiled]))
        cells = [size, theirs["library"], _ms(theirs), str(theirs["lines"]), _ms(auto), _ms(compiled), best]
        lines.append(_row([*cells, str(auto["lines"])]))
    return "\n".join(lines)


def products() -> str:
    """The first shape of the record, by density."""
    every = [row for row in records.load(SPARSITY)["rows"] if row["mode"] in ("forward", "training")]
    lines = [
        f"| spikes, {every[0]['case'].replace('x', '×').replace('->', '→')} | ours | dense | | `torch.sparse` "
        "| brainevent "
        "| with gradients: ours | dense | |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for density in dict.fromkeys(row["density"] for row in every):
        cells = [f"{density:.1%}"]
        for mode in ("forward", "training"):
            found = {
                row["contestant"]: row
                for row in every
                if (row["case"], row["mode"], row["density"]) == (every[0]["case"], mode, density)
            }
            dense = _best([found["dense"], found["PyTorch"]])
            cells += [_ms(found["snnkit"]), _ms(dense), _times(dense, found["snnkit"])]
            cells += [_ms(found[name]) for name in ("CSR", "brainevent") if mode == "forward"]
        lines.append(_row(cells))
    return "\n".join(lines)


def steps() -> str:
    every = [row for row in records.load(SPARSITY)["rows"] if row["mode"] == "training step"]
    peers = ("snnTorch", "SpikingJelly", "Norse", "Spyx")
    lines = [
        f"| a training step of | ours | of an event list | dense products | the loop, too | {' | '.join(peers)} |",
        f"|---|{'--:|' * (4 + len(peers))}",
    ]
    for case in dict.fromkeys(row["case"] for row in every):
        rows = {(row["contestant"], row["equation"]): row for row in every if row["case"] == case}
        ways = ("snnkit", "snnkit, event list", "snnkit, dense products", "snnkit, dense products, loop")
        cells = [case] + [_ms(rows[way, "Leaky"], 0) if (way, "Leaky") in rows else "" for way in ways]
        for peer in peers:
            theirs = _one(row for (name, _), row in rows.items() if name == peer)
            cells.append(f"{_ms(theirs, 0)}, {_times(theirs, rows['snnkit', theirs['equation']])}")
        lines.append(_row(cells))
    return "\n".join(lines)


def mnist() -> str:
    lines = ["| recipe | test accuracy | training |", "|---|--:|--:|"]
    for recipe, prefix in (("mnist-small", "mnist_small_cpu_epyc"), ("dense", "mnist_dense_cpu_epyc")):
        runs = [records.load(name) for name in records.names() if name.startswith(prefix)]
        runs.sort(key=lambda run: run["arguments"]["seed"])
        found = [100 * run["rows"][-1]["test_accuracy"] for run in runs]
        seeds = ", ".join(str(run["arguments"]["seed"]) for run in runs)
        minutes = sum(row["seconds"] for row in runs[0]["rows"]) / 60
        each = ", ".join(f"{one:.2f}" for one in found)
        lines.append(
            _row([f"`{recipe}`", f"**{statistics.mean(found):.1f} %** (seeds {seeds}: {each})", _about(minutes)])
        )
    return "\n".join(lines)


# --- "Why spikes?" ----------------------------------------------------------------------------------------------------

# Picojoules at 45 nm and 0.9 V: M. Horowitz, ISSCC 2014, doi:10.1109/ISSCC.2014.6757323, figure 1.1.9. A number of 32
# bits from a cache of 8 kB is half an access of 64 bits there; from DRAM, half of 1.3 to 2.6 nJ.
PRICES = {
    "add, 8-bit integers": 0.03,
    "add, 32-bit integers": 0.1,
    "multiply, 8-bit integers": 0.2,
    "add, 32-bit floats": 0.9,
    "multiply, 32-bit floats": 3.7,
    "fetch 32 bits from a small cache": 5.0,
}
DRAM = (650.0, 1300.0)
ADD, MAC = PRICES["add, 32-bit floats"], PRICES["add, 32-bit floats"] + PRICES["multiply, 32-bit floats"]
INT_ADD = PRICES["add, 32-bit integers"]
INT_MAC = PRICES["multiply, 8-bit integers"] + INT_ADD
WATTS, NEURONS = 20, 86e9  # of a brain: doi:10.1073/pnas.2008173118, doi:10.3389/neuro.09.031.2009
RATE = 0.16  # spikes per second and cortical neuron: doi:10.1016/S0960-9822(03)00135-0
DVS, FRAMES = 15e-6, 30  # seconds, doi:10.1109/JSSC.2007.914337; frames per second of a usual camera


@functools.cache
def reading() -> dict[str, float]:
    """What the network of notebook 00 does, per test image of the digits."""
    images, labels = data.load("digits", "test")
    net, x = pages.reader_network(), encode.repeat(data.to_unit(images), steps=20)
    count = energy.count(net, x)
    first, _, second, _ = count.layers
    by_step = (net(x)[0].cumsum(0).argmax(2) == labels).float().mean(1)
    return {
        "accuracy": float(by_step[-1]),
        "enough": int((by_step >= by_step[-1] - 0.01).nonzero()[0]) + 1,
        "share": 1 - count.activation_sparsity if count.activation_sparsity is not None else 0.0,
        "first dense": first.dense / len(images) / 20,
        "first": first.effective / len(images) / 20,  # grey pixels that are not 0, once, as the image stands still
        "second dense": second.dense / len(images) / 20,
        "second": second.effective / len(images),  # additions, in all steps
        "updates": count.membrane_updates,
    }


def ways() -> dict[str, dict[str, float]]:
    """Nanojoules of reading a digit, by what computes."""
    n = reading()

    def of(first: float, second: float, updates: float = 0.0) -> dict[str, float]:
        parts = {"first layer": first, "second layer": second, "membranes": updates}
        return {name: picojoules / 1e3 for name, picojoules in parts.items() if picojoules}

    return {
        "floats, no spikes": of(n["first dense"] * MAC, n["second dense"] * MAC),
        "floats, spikes": of(n["first"] * MAC, n["second"] * ADD, n["updates"] * MAC),
        "floats, no spikes, zero pixels skipped": of(n["first"] * MAC, n["second dense"] * MAC),
        "integers, no spikes": of(n["first dense"] * INT_MAC, n["second dense"] * INT_MAC),
        "integers, spikes": of(n["first"] * INT_MAC, n["second"] * INT_ADD, n["updates"] * INT_MAC),
        "integers, no spikes, zero pixels skipped": of(n["first"] * INT_MAC, n["second dense"] * INT_MAC),
    }


def digit() -> str:
    lines = ["| a digit is read with | first layer | second layer | membranes | all |", "|---|--:|--:|--:|--:|"]
    for name, parts in ways().items():
        cells = [f"{parts[part]:.2f}" if part in parts else "" for part in ("first layer", "second layer", "membranes")]
        lines.append(_row([name, *cells, f"**{sum(parts.values()):.3g} nJ**"]))
    return "\n".join(lines)


def numbers() -> str:
    n, low, high = reading(), *DRAM
    rows = {
        f"power of a neuron in the brain: {WATTS} W / {NEURONS / 1e9:.0f} billion": f"{1e9 * WATTS / NEURONS:.2f} nW",
        f"seconds between spikes at {RATE} per second": f"{1 / RATE:.0f} s",
        f"float MAC ({MAC:.1f} pJ) / float addition ({ADD} pJ)": f"{MAC / ADD:.1f}",
        f"float addition / integer MAC ({INT_MAC:.1f} pJ)": f"{ADD / INT_MAC:.1f}",
        f"32 bits from DRAM ({low:.0f} to {high:.0f} pJ) / float MAC": f"{low / MAC:.0f} to {high / MAC:.0f}",
        "outputs of neurons, in the network of notebook 00, that are spikes": f"{n['share']:.1%}",
        "its spikes save in the second layer (floats)": f"{1 - n['second'] * ADD / (n['second dense'] * MAC):.0%}",
        "steps of 20 until it is within 1 % of its final accuracy": f"{n['enough']}",
        f"a frame of 1/{FRAMES} s / {DVS * 1e6:.0f} µs": f"{1 / FRAMES / DVS:,.0f}",
    }
    return "\n".join(["| number | |", "|---|--:|", *(_row(list(row)) for row in rows.items())])


def pictures() -> None:
    prices = {name: {"energy": price} for name, price in PRICES.items()}
    for name, figure in {
        "why_prices": figures.shares(
            prices, "pJ", title="A float is multiplied at the price of four additions (45 nm)"
        ).update_layout(showlegend=False),
        "why_digit": figures.shares(ways(), "nJ", title="A digit: spikes cost more than skipping the zero pixels"),
        "break_even": figures.break_even(records.load(SPARSITY)),
    }.items():
        (DOCS / f"{name}.png").write_bytes(viz.png_bytes(figure))


TABLES: dict[str, Callable[[], str]] = {"layers": layers, "frameworks": frameworks, "contestants": contestants}
TABLES |= {"products": products, "steps": steps}
TABLES |= {"ports": ports, "nets": nets, "mnist": mnist, "digit": digit, "numbers": numbers}


def written(text: str) -> str:
    """``text`` with its tables as the records have them. KeyError for a table that there is not."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", text)


def _one(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


def _best(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return min(rows, key=lambda row: row["median_s"])


def _ms(row: dict[str, Any], digits: int = 1) -> str:
    return f"{1e3 * row['median_s']:.{digits}f} ms"


def _times(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    return f"**{theirs['median_s'] / ours['median_s']:.1f} ×**"


def _about(minutes: float) -> str:
    return f"{round(60 * minutes)} s" if minutes < 0.75 else f"{round(minutes)} min"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        pictures()
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = written(before)
        if "--check" in sys.argv[1:] and before != after:
            sys.exit(f"{page.name} is not as the records have it: python docs/measured.py")
        files.write_text(page, after)
