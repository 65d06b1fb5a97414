"""Pictures that compute in the page: modules of ``snnkit/lab/web/`` with their data. They need no kernel."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from torch import Tensor

from snnkit import checks
from snnkit.lab.pages import web
from snnkit.lab.viz.alt import spoken
from snnkit.lab.viz.frontend import in_notebook

MOST_LETTERS = 1_000_000  # of a page within a notebook
MOST_NEURONS = 16  # of a train: more pitches are a noise


def listen(trains: Mapping[str, Tensor], *, seconds_per_step: float = 0.01) -> None:
    """Show spike trains, each with a button that plays a click for every spike. The page makes the sound.

    Args:
        trains: name to spikes, [T] or [T, N] with at most 16 neurons, each at its own pitch; T is the same for all.
        seconds_per_step: length of a step; all steps take at most 30 s.
    """
    spikes = {name: train.detach().cpu().reshape(len(train), -1) for name, train in trains.items()}
    shapes = [list(train.shape) for train in trains.values()]
    if len({len(one) for one in spikes.values()}) != 1 or any(one.shape[1] > MOST_NEURONS for one in spikes.values()):
        raise ValueError(f"trains must be [T] or [T, N] of one length with at most 16 neurons, but they are {shapes}")
    steps = len(next(iter(spikes.values())))
    checks.number("steps times seconds_per_step", steps * seconds_per_step, above=0, at_most=30)
    rows = [{"name": name, "neurons": [row.nonzero()[:, 0].tolist() for row in one.T]} for name, one in spikes.items()]
    counts = ", ".join(f"{name} {int(one.count_nonzero())} spikes" for name, one in spikes.items())
    data = {"seconds": seconds_per_step, "steps": steps, "trains": rows}
    _show("listen", data, f"To listen to, {steps * seconds_per_step:g} s each: {counts}.")


def landscape(
    loss: Tensor,
    gradient: Tensor,
    *,
    low: float,
    high: float,
    target: Sequence[float],
    axes: Sequence[str] = ("weight 1", "weight 2"),
) -> None:
    """Show the loss over two weights as a surface that you can turn, and drop balls on.

    Args:
        loss: [n, n], at the i-th value of the first weight and the j-th of the second, both evenly from ``low`` to
            ``high``.
        gradient: [2, n, n], the surrogate gradient at the same places, which the balls follow.
        target: the two weights of the minimum, where a flag is.
        axes: names of the two weights.
    """
    for name, values, size in (("loss", loss, (len(loss),) * 2), ("gradient", gradient, (2, len(loss), len(loss)))):
        if values.shape != size or not values.is_floating_point() or values.is_meta or not values.numel():
            raise ValueError(f"{name} must be real numbers, {list(size)}, but it is {checks.shown(values)}")
    if not len(target) == len(axes) == 2:
        raise ValueError(f"target and axes must be of two weights, but they are {list(target)} and {list(axes)}")
    data = {"low": low, "high": high, "target": list(target), "axes": list(axes)}
    data |= {"loss": _rounded(loss, 4), "gradient": _rounded(gradient, 3)}
    words = f"A landscape of the loss over {axes[0]} and {axes[1]}, from {loss.min():.3g} to {loss.max():.3g}"
    _show("landscape", data, f"{words}; it is lowest at {', '.join(f'{one:g}' for one in target)}.")


def embed(path: str | os.PathLike[str], *, height: int = 900, compact: bool = False) -> None:
    """Show a page that ``export`` wrote, alive without a kernel; outside a notebook, or of more than 1 MB, its name.

    Args:
        path: the HTML file; it becomes part of the notebook.
        height: of its place, in pixels, until it tells how high it is.
        compact: of a network's page, show only what one draws on, the neurons, and the answer.
    """
    file = Path(path)
    page = file.read_text(encoding="utf-8")
    words = f"{file.name}, {len(page) / 1e3:,.0f} kB, opens in any browser."
    if not in_notebook() or len(page) > MOST_LETTERS:
        print(words)
        return
    from IPython.display import display

    title = re.search("<title>(.*?)</title>", page)
    key = f"snn-{uuid.uuid4().hex}"
    name = f'id="{key}" name="{"compact" * compact}" title="{title[1] if title else file.name}"'
    frame = f'<iframe {name} style="width: 100%; height: {height}px; border: 0" srcdoc="{escape(page)}"></iframe>'
    call = f'{web.bundle("frame.js")}\nsnnkit.follow(document.getElementById("{key}"));'
    script = f"<script>(() => {{\n{call}\n}})();</script>"
    display({"text/html": f"<div>{frame}{script}</div>", "text/plain": words}, raw=True)


def _rounded(values: Tensor, digits: int) -> Any:
    return (values.detach().cpu().double() * 10**digits).round().div(10**digits).tolist()


def _show(name: str, data: Mapping[str, Any], words: str) -> None:
    """Display what the function ``name`` of the module of this name makes of ``data``; elsewhere print ``words``."""
    if not in_notebook():
        print(words)
        return
    from IPython.display import display

    key = f"snn-{uuid.uuid4().hex}"
    call = f"snnkit.{name}(document.getElementById({json.dumps(key)}), {json.dumps(data, separators=(',', ':'))});"
    # "</script" and "<!--" within a script element would end it, or change how the rest is read.
    code = re.sub(r"<(?=/script|!--|script)", r"\\x3c", f"{web.bundle(f'{name}.js')}\n{call}", flags=re.IGNORECASE)
    page = f'{spoken(words)}<style>{web.read("style.css")}</style><div class="snn" id="{key}"></div>'
    display({"text/html": f"{page}<script>(() => {{\n{code}\n}})();</script>", "text/plain": words}, raw=True)


checks.all_arguments(__name__)
