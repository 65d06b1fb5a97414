"""Figures of what neurons do: spikes, membrane potentials and firing rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from snnkit import checks, tables
from snnkit.lab.viz import concepts, theme
from snnkit.lab.viz.drawing import (
    NOTE,
    SPIKES,
    TICK,
    Times,
    add_line,
    add_marks,
    as_array,
    as_arrays,
    by_name,
    compact,
    finish,
    legend_below,
    panels,
    tick_size,
    times,
    whole_ticks,
)
from snnkit.recording import Activity


@checks.arguments
def raster(spikes: Any, title: str = "Spikes") -> go.Figure:
    """One mark per spike: time to the right, neurons upwards.

    Args:
        spikes: [T, N], non-zero where a neuron spiked.
    """
    array = as_array(spikes, "spikes", "[T, N]")
    time = times(len(array), None)
    figure = go.Figure()
    when, who = np.nonzero(array)
    neurons = array.shape[1]
    flat = neurons > 2 * len(array)  # more rows than columns: a tick would be too low to see
    look = {"symbol": "square" if flat else TICK, "size": 4 if flat else tick_size(neurons, 160)}
    look |= {"colour": concepts.colour("spike"), "name": "spikes"}
    add_marks(figure, time.at[when], who, hovertemplate=f"neuron %{{y}}<br>{time.title} %{{x}}<extra></extra>", **look)
    counted = f"{title} ({tables.count_of(len(when), 'spike')})"
    rows = {"title_text": "neuron", "range": [-0.7, neurons - 0.3], "tickvals": whole_ticks([0, neurons - 1])}
    return finish(figure, counted, time.look(), rows, height=340)


@checks.arguments
def traces(
    v: Any, spikes: Any = None, threshold: float | None = None, current: Any = None, title: str = "Membrane potential"
) -> go.Figure:
    """Membrane potential over time, with the threshold, the spikes and the input current if given.

    Args:
        v: [T], or a dict of name to [T] to compare several.
        spikes: [T] of 0/1, or (when ``v`` is a dict) a dict of name to [T].
        threshold: drawn as a line.
        current: [T], drawn in a panel of its own above.
    """
    potentials = by_name(v, "v", "membrane", "[T]")
    fired = by_name(spikes, "spikes", "membrane", "[T]") if spikes is not None else {}
    if unknown := sorted(set(fired) - set(potentials)):
        raise ValueError(f"spikes must hold names of v ({', '.join(potentials)}), but it holds {', '.join(unknown)}")
    given = potentials | {f"spikes of {name}": one for name, one in fired.items()}
    given |= {"current": (current, "[T]")} if current is not None else {}
    arrays = dict(zip(given, as_arrays(given), strict=True))
    time = times(len(arrays[next(iter(potentials))]), None)
    rows = 2 if current is not None else 1
    figure = panels(rows, 1, shared_xaxes=True, row_heights=[0.27, 0.73][-rows:], vertical_spacing=0.07)
    if current is not None:
        look: dict[str, Any] = {"colour": concepts.colour("input"), "width": 1.8, "shape": "hv", "row": 1, "col": 1}
        hover = "input %{y:.3g}<extra></extra>"
        add_line(figure, time.at, arrays["current"], "input", hovertemplate=hover, showlegend=False, **look)
        figure.update_yaxes(title_text="input", row=1, col=1)
    levels = [] if threshold is None else [checks.number("threshold", threshold)]
    top = max([*levels, *(float(np.nanmax(arrays[name])) for name in potentials)])
    span = max(top - min(float(np.nanmin(arrays[name])) for name in potentials), 1e-6)
    place: dict[str, Any] = {"row": rows, "col": 1}
    for i, (name, ink) in enumerate(zip(potentials, concepts.colours(potentials), strict=True)):
        look = {"colour": ink, "dash": theme.dash(i), "showlegend": len(potentials) > 1}
        hover = f"{name} %{{y:.4g}}<extra></extra>"
        add_line(figure, time.at, arrays[name], name, hovertemplate=hover, shape="hv", **look, **place)
        if name in fired:
            when = np.nonzero(arrays[f"spikes of {name}"])[0]
            mark = ink if len(potentials) > 1 else concepts.colour("spike")
            look = {"symbol": SPIKES[i % len(SPIKES)], "size": 8, "colour": mark}
            hover = f"{name} spikes at {time.title} %{{x}}<extra></extra>"
            look |= {"hovertemplate": hover, "name": f"spikes of {name}"}
            add_marks(figure, time.at[when], top + (0.08 + 0.07 * i) * span, **look, **place)
    for level in levels:
        look = {"colour": concepts.colour("threshold"), "dash": "dash", "width": 1.5}
        hover = "threshold %{y:.4g}<extra></extra>"
        add_line(figure, time.at[[0, -1]], [level, level], "threshold", hovertemplate=hover, **look, **place)
    figure.update_yaxes(title_text="potential", **place)
    finish(figure, title, _across(time), height=(340, 430)[rows - 1], showlegend=len(potentials) > 1)
    return figure.update_xaxes(title_text=time.title, **place)


def _across(time: Times) -> dict[str, Any]:
    """For panels that share a time axis, which is named under the last."""
    return {"range": time.ends, "tickvals": whole_ticks(time.at)}


@checks.arguments
def gallery(
    runs: Mapping[Any, tuple[Any, Any] | list[Any]], columns: int = 2, title: str = "Neurons side by side"
) -> go.Figure:
    """One small panel per neuron: its membrane, a mark for each of its spikes, and its own scale.

    Args:
        runs: name to (v [T], spikes [T]).
        columns: panels per row.
    """
    if not runs:
        raise ValueError("runs must hold at least one neuron, but it is empty")
    columns = min(checks.integer("columns", columns, at_least=1), len(runs))
    rows = -(-len(runs) // columns)
    spacing = {"vertical_spacing": 0.3 / rows, "horizontal_spacing": 0.1}
    figure = panels(rows, columns, list(runs), shared_xaxes=True, **spacing)
    for i, (name, (v, spikes)) in enumerate(runs.items()):
        membrane, fired = as_arrays({f"v of {name}": (v, "[T]"), f"spikes of {name}": (spikes, "[T]")})
        time = times(len(membrane), None)
        place: dict[str, Any] = {"row": i // columns + 1, "col": i % columns + 1}
        look = {"colour": concepts.colour("membrane"), "width": 1.6, "shape": "hv", "showlegend": False}
        add_line(figure, time.at, membrane, name, hovertemplate=f"{name}<br>%{{y:.3g}}<extra></extra>", **look, **place)
        low, high = float(np.nanmin(membrane)), float(np.nanmax(membrane))
        span = max(high - low, 1e-6)
        look = {"symbol": TICK, "size": 9, "colour": concepts.colour("spike"), "hoverinfo": "x"}
        look["name"] = f"spikes of {name}"
        add_marks(figure, time.at[np.nonzero(fired)[0]], high + 0.2 * span, **look, **place)
        figure.update_yaxes(range=[low - 0.08 * span, high + 0.36 * span], **place)
        last = {"title_text": time.title, "showticklabels": True} if i + columns >= len(runs) else {}
        figure.update_xaxes(range=time.ends, tickvals=whole_ticks(time.at, 6), **last, **place)
    figure.update_yaxes(title_text="potential", col=1)
    return finish(figure, title, height=90 + 165 * rows)


@checks.arguments
def recording(
    rec: Activity,
    sample: int = 0,
    neurons: Mapping[str, Sequence[int]] | None = None,
    title: str = "Inside the network",
) -> go.Figure:
    """The layers that ``nn.recording`` has seen, in order: the raster of each and, if its states were recorded, the
    membranes of a few neurons, which have the same colours in both.

    Args:
        rec: read after a call of the network.
        sample: of the batch.
        neurons: name of a layer to the neurons whose membranes to draw, as counted in a step that was flattened; None:
            of each layer the two that fired most or, without spikes, rose highest.
    """
    spikes = {name: _one(out, sample, "spikes", name) for name, out in rec.spikes.items()}
    # The first part of a state is the membrane, whatever its name.
    membranes = {name: _one(state[0], sample, "states", name) for name, state in rec.states.items()}
    chosen = {name: _most_active(spikes.get(name), v) for name, v in membranes.items()}
    for name, some in (neurons or {}).items():
        if name not in membranes:
            known = ", ".join(map(repr, membranes)) or "none"
            raise ValueError(f"neurons must hold names of layers with recorded states ({known}), but it holds {name!r}")
        last = membranes[name].shape[1] - 1
        chosen[name] = [checks.integer(f"a neuron of {name!r}", one, at_least=0, at_most=last) for one in some]
    rows = [(name, spikes) for name in spikes] + [(name, membranes) for name, some in chosen.items() if some]
    order = list(membranes or spikes)
    rows.sort(key=lambda row: order.index(row[0]))  # a layer's spikes stay before its membranes
    if not rows:
        raise ValueError("rec must hold spikes or states of a layer, but it holds none")
    titles = [_about(name, spikes[name] if kind is spikes else None, chosen.get(name, ())) for name, kind in rows]
    each, gap = 118, 36  # pixels
    plot = len(rows) * (each + gap) - gap
    figure = panels(len(rows), 1, titles, shared_xaxes=True, vertical_spacing=gap / plot)
    for row, (name, kind) in enumerate(rows, start=1):
        place: dict[str, Any] = {"row": row, "col": 1}
        array = kind[name]
        time = times(len(array), None)
        if kind is spikes:
            when, who = np.nonzero(array)
            crowd = ~np.isin(who, chosen.get(name, ()))
            size = tick_size(array.shape[1], each)
            hover = f"neuron %{{y}}<br>{time.title} %{{x}}<extra></extra>"
            look: dict[str, Any] = {"symbol": TICK, "hovertemplate": hover} | place
            pale = theme.TEXT if any(chosen.values()) else concepts.colour("spike")  # beside neurons that have colours
            crowd_look = look | {"size": size, "colour": pale, "name": f"spikes of {name}"}
            add_marks(figure, time.at[when[crowd]], who[crowd], **crowd_look)
            for i, neuron in enumerate(chosen.get(name, ())):
                own = look | {"size": max(size, 8), "colour": theme.colour(i)}
                add_marks(
                    figure, time.at[when[who == neuron]], neuron, name=f"spikes of neuron {neuron} of {name}", **own
                )
            figure.update_yaxes(title_text="neuron", range=[-0.7, array.shape[1] - 0.3], **place)
            figure.update_yaxes(tickvals=whole_ticks([0, array.shape[1] - 1], 5), **place)
        else:
            for i, neuron in enumerate(chosen[name]):
                label = f"membrane of neuron {neuron} of {name}"
                look = {"colour": theme.colour(i), "dash": theme.dash(i), "showlegend": False}
                look |= {"hovertemplate": f"neuron {neuron}<br>%{{y:.3g}}<extra></extra>"} | place
                add_line(figure, time.at, array[:, neuron], label, shape="hv", **look)
            figure.update_yaxes(title_text="potential", **place)
        figure.update_xaxes(**_across(time), **place)
    figure.update_xaxes(title_text="time step", row=len(rows), col=1)
    margin = theme.MARGIN | {"t": theme.MARGIN["t"] + 24}
    return finish(figure, title, height=plot + margin["t"] + margin["b"], margin=margin)


def _one(sequence: Any, sample: int, what: str, name: str) -> np.ndarray:
    """One sample of [T, B, ...] as [T, N]."""
    sample = checks.integer("sample", sample, at_least=0, at_most=sequence.shape[1] - 1)
    return as_array(sequence[:, sample].reshape(len(sequence), -1), f"{what} of {name}", "[T, N]")


def _most_active(spikes: np.ndarray | None, v: np.ndarray) -> list[int]:
    """Two neurons, in order."""
    activity = v.max(0) if spikes is None else spikes.sum(0)
    return sorted(np.argsort(-activity, kind="stable")[:2].tolist())


def _about(name: str, spikes: np.ndarray | None, neurons: Sequence[int]) -> str:
    if spikes is None:
        return f"{name}: membrane of {'neurons' if len(neurons) > 1 else 'neuron'} {', '.join(map(str, neurons))}"
    return f"{name}: {np.count_nonzero(spikes):,} spikes of {spikes.shape[1]:,} neurons"


@checks.arguments
def rate_histogram(rates: Any, bins: int = 20, title: str = "Firing rates") -> go.Figure:
    """How many neurons fire at each rate; silent, active and saturated neurons look different.

    A neuron that never fires has no spikes to learn from. A neuron that fires in nine of ten steps or more gives nearly
    the same output for every input. Both are of little use to the network.

    Args:
        rates: [N] in spikes per step, in [0, 1].
        bins: number of bins between 0 and the highest rate.
    """
    bins = checks.integer("bins", bins, at_least=1)
    array = as_array(rates, "rates", "[N]").astype(float)
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"rates must be in [0, 1], but they reach from {array.min()} to {array.max()}")
    top = float(array.max()) or 1.0
    edges = np.linspace(0.0, top, bins + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    silent, saturated = array == 0, array >= 0.9
    kinds = {
        "silent": (np.array([-middles[0] * 2]), np.array([silent.sum()]), 1),  # apart, to the left of 0
        "active": (middles, np.histogram(array[~silent & ~saturated], bins=edges)[0], 0),
        "saturated": (middles, np.histogram(array[saturated], bins=edges)[0], 3),
    }
    figure = go.Figure()
    for kind, (places, counts, look) in kinds.items():
        some = counts > 0  # a bar of height 0 has no label
        figure.add_bar(
            x=compact(places[some]), y=compact(counts[some]), name=kind, width=[0.92 * edges[1]] * sum(some),
            text=[f"{n:,}" for n in counts[some]] if kind != "active" else None, textposition="outside",
            marker=theme.bar(look), hovertemplate=f"%{{x:.3g}} spikes per step<br>%{{y}} {kind}<extra></extra>",
        )  # fmt: skip
    counted = f"{title}: {array.size:,} neurons, {silent.sum():,} silent, {saturated.sum():,} saturated"
    if silent.any():  # they have no rate: a word takes the place of a number below 0 on the axis
        below = {"yref": "paper", "y": 0, "yanchor": "top", "yshift": -4}
        figure.add_annotation(x=-middles[0] * 2, text="never", **(NOTE | below))
    legend_below(figure, 220, list(kinds))
    across = {"title_text": "firing rate (spikes per step)", "range": [-2 * top / bins, 1.03 * top]}
    up = {"title_text": "neurons", "range": [0, 1.18 * max(int(counts.max()) for _, counts, _ in kinds.values())]}
    return finish(figure, counted, across, up, barmode="stack")
