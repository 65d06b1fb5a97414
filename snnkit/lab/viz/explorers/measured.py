"""Explorers that measure this machine, and so need the kernel: a race of engines, and the memory of a training step."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import plotly.graph_objects as go
import torch

from snnkit import checks, models, tables
from snnkit.data import resolve_device
from snnkit.device import training_step
from snnkit.engine import missing_compiler
from snnkit.lab.bench import neurons as bench
from snnkit.lab.viz.drawing import NOTE
from snnkit.lab.viz.explorer import explore
from snnkit.lab.viz.figures import Marked, marked, shares
from snnkit.measure.machine import provenance

CPU, GPU = "this CPU", "this GPU"
_WIDTH = 58  # characters of a note on a line: half a page, as at 200 %, has room for them
_INPUTS, _CLASSES = 784, 10  # of the network whose memory is measured
_ADAM = 2  # numbers that it stores for each weight


def engines() -> list[str]:
    """Engines that can run on a device of this machine; the fastest without a long compilation comes first."""
    compiled = [] if missing_compiler("cpu") else ["cpp"]
    compiled += ["triton"] if torch.cuda.is_available() and not missing_compiler("cuda") else []
    return [*compiled, "eager", *(["block"] if compiled else [])]


CONTROLS: dict[str, Any] = {
    "T": [4, 8, 16, 32, 64, 128],
    "N": [256, 1024, 4096, 16384],
    "dtype": ["float32", "bfloat16"],
    "engine": engines(),
    "device": [CPU, *([GPU] if torch.cuda.is_available() else [])],
}


def figure(
    T: Annotated[int, "time steps"] = 16,
    N: Annotated[int, "neurons in the layer"] = 4096,
    dtype: Annotated[str, "numbers of the input"] = "float32",
    engine: Annotated[str, "races against the Python loop (eager)"] = CONTROLS["engine"][0],
    device: Annotated[str, "where it runs"] = CPU,
) -> go.Figure:
    """Milliseconds for a layer of N LIF neurons over T steps, forward, and the least time that its bytes need.

    The eager loop and ``engine`` are compared, then timed side by side: circles are medians, lines reach from the 10th
    to the 90th percentile. The first race of an engine compiles it.
    """
    for name, value in {"T": T, "N": N, "dtype": dtype, "engine": engine, "device": device}.items():
        checks.choice(name, value, CONTROLS[name])
    return _raced(T, N, dtype, engine, torch.device("cuda" if device == GPU else "cpu"))


def _raced(steps: int, neurons: int, dtype: str, engine: str, device: torch.device) -> go.Figure:
    candidates, excluded = bench.candidates(device, ("eager", engine), peers=False)
    size = {"neurons": neurons, "steps": steps}
    case = bench.Case(candidates, size, (steps, 1, neurons), getattr(torch, dtype), bench.INFERENCE, device)
    repeats = 7 if neurons * steps <= 2**17 else 3  # a move of a slider should not take long
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        outcome = case.measure(repeats)
    notes = [f"measured here, {repeats} rounds: {_machine(_provenance(device))}"]
    notes += [f"{name}: {reason}" for name, reason in excluded.items()]
    notes += [f"{skip['contestant']}: {skip['reason']}" for skip in outcome.skipped]
    return _drawn(outcome.rows, _result(outcome.rows, engine), notes)


@functools.lru_cache(maxsize=4)
def _provenance(device: torch.device) -> dict[str, Any]:
    return provenance(device)


def _result(rows: Sequence[Mapping[str, Any]], engine: str) -> str:
    """The outcome, for the title."""
    if not rows:
        return "nothing could be timed"
    size = f"T = {rows[0]['steps']}, N = {rows[0]['neurons']:,}, {rows[0]['dtype']}"
    by_name = {row["contestant"]: row for row in rows}
    loop = by_name["eager"]
    if engine == "eager" or engine not in by_name:
        return f"{size}: the loop takes {loop['median_s'] * 1e3:.3g} ms"
    other = by_name[engine]
    if loop["p10_s"] <= other["p90_s"] and other["p10_s"] <= loop["p90_s"]:
        return f"{size}<br>{engine} and the loop overlap, so neither wins"
    return f"{size}<br>{engine} is {loop['median_s'] / other['median_s']:.3g} times as fast as the loop"


def _machine(origin: Mapping[str, Any]) -> str:
    parts = [origin["device"]["name"], tables.count_of(origin["threads"], "thread")]
    return ", ".join([*parts, f"torch {origin['versions']['torch']}", origin["date"][:10]])


def _drawn(rows: Sequence[Mapping[str, Any]], title: str, notes: Sequence[str]) -> go.Figure:
    numbers = []
    for row in rows:
        low, middle, high = (row[key] * 1e3 for key in ("p10_s", "median_s", "p90_s"))
        source = f"{row['over_floor']:.2f} times the floor<br>first call {row['first_s'] * 1e3:.3g} ms"
        numbers.append(Marked(row["contestant"], "measured", middle, low, high, source))
    if not numbers:
        return go.Figure(layout={"title": {"text": f"{title}<br>{'; '.join(notes)}"}})
    floor = max(rows, key=lambda row: row["floor_bytes"])
    source = f"{floor['floor_bytes'] / 1e6:.3g} MB at the bandwidth of a copy in the same race"
    numbers.append(Marked("floor", "predicted", floor["floor_s"] * 1e3, source=source))
    page = marked(numbers, "milliseconds", title=title)
    lines = [line for note in notes for line in textwrap.wrap(note, _WIDTH)]
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 5}
    page.add_annotation(text="<br>".join(lines), align="left", **place, **NOTE)
    extra = 18 * len(lines)
    layout: Any = page.layout
    return page.update_layout(height=layout.height + extra, margin={"t": layout.margin.t + extra})


def engine_race() -> None:
    """Show the race of an engine against the Python loop, here and now. (One choice alone gets no control.)"""
    explore(figure, **{name: spec for name, spec in CONTROLS.items() if not isinstance(spec, list) or len(spec) > 1})


@checks.arguments
def beside_measured(
    bill: Callable[[int, int, int, int, int, int], tuple[int, int]] | None = None, where: torch.device | str = "cpu"
) -> Callable[..., go.Figure]:
    """For ``explore``: a function of ``steps``, ``batch``, ``neurons`` and ``numbers`` that draws two bars for the
    network 784-neurons-10 in training with Adam: the result of ``bill``, and what a training step holds.

    Args:
        bill: (weights, held, steps, batch, copies, width) to bytes (of the model, of its activity): numbers of weights,
            numbers held per sample and step, T, B, numbers that the optimizer stores per weight, bytes of a number.
            None: the measured bar alone.
        where: the device of the training step.
    """
    where = resolve_device(where, "where")

    def figure(
        steps: Annotated[int, "time steps, whose inputs all differ"] = 16,
        batch: Annotated[int, "samples in a batch"] = 16,
        neurons: Annotated[int, "of the hidden layer"] = 500,
        numbers: Annotated[str, "of the activity"] = "float32",
    ) -> go.Figure:
        checks.counts(steps=steps, batch=batch, neurons=neurons)
        dtype = getattr(torch, checks.choice("numbers", numbers, ("float32", "bfloat16", "float16")))
        with torch.random.fork_rng([]):  # initial weights and spikes are drawn; the caller's generator stays as it is
            net = models.mlp((_INPUTS, neurons, _CLASSES)).to(where)
            x = (torch.rand(steps, batch, _INPUTS) < 0.15).to(where, dtype)
        count = sum(p.numel() for p in net.parameters())
        each = _INPUTS + 2 * neurons + _CLASSES  # inputs of both Linear and of both Leaky
        predicted = (
            {} if bill is None else {"predicted": _activity(bill(count, each, steps, batch, _ADAM, dtype.itemsize))}
        )
        with torch.autocast(where.type, dtype, enabled=numbers != "float32"):
            held = training_step(net, x).held + x.nbytes
        model = {"weights": 4 * count, "gradients": 4 * count, "optimizer": 4 * _ADAM * count}
        wholes = {
            name: {part: size / 1e6 for part, size in (model | {"activity": size}).items()}
            for name, size in (predicted | {"measured": held}).items()
        }
        title = f"Model {sum(model.values()) / 1e6:.1f} MB, activity {held / 1e6:.1f} MB"
        if predicted:
            title = f"Predicted {predicted['predicted'] / 1e6:.1f} MB of activity, measured {held / 1e6:.1f} MB"
        return shares(wholes, "MB", title=title)

    return figure


def _activity(answer: Any) -> float:
    """The second of the two numbers that a bill returns."""
    *_, activity = checks.instance("the result of bill", answer, (tuple, list), "two numbers of bytes")
    return checks.number("the activity by bill", activity, at_least=0)
