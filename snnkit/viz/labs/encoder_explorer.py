"""The encoder lab: a digit as spikes, decoded again, and the error against the number of time steps.

Each code has a reader that takes spikes [T, ...] and gives brightness [...].
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import plotly.graph_objects as go
import torch
from torch import Tensor

from snnkit import data, encode

from .. import theme
from ..drawing import add_line, add_marks, log_ticks
from ..figures import coded_image
from .lab import Lab

LONGEST = 64
_LENGTHS = (1, 2, 4, 8, 16, 32, LONGEST)
_LEAST = 1e-3  # errors below are drawn here: a logarithmic axis has no zero
_CURVE = 0.3  # what the error's curve takes of the plot's height

GAIN = 4.0  # current per brightness into the LIF code: pixels darker than 1 / GAIN never fire
_DECAY = 0.9  # decay of that code's membrane per step: 1 - dt tau_mem_inv
DELTA = 0.1  # smallest change that the delta code sends


def read_rate(spikes: Tensor) -> Tensor:
    """The mean over time."""
    return spikes.mean(0)


def read_latency(spikes: Tensor) -> Tensor:
    """Of at most one spike per pixel, the earlier the brighter: 1 - t / (T - 1); silence is black."""
    when = spikes.argmax(0).to(spikes.dtype)
    return torch.where(spikes.any(0), 1 - when / max(len(spikes) - 1, 1), 0.0)


def read_lif(spikes: Tensor) -> Tensor:
    """Inverts the rate of a LIF neuron that integrates a constant current for as long as its period."""
    rate = spikes.mean(0)
    period = 1 / rate.clamp(min=1e-9) - 0.5  # it crossed the threshold somewhere within the last step
    current = 1 / (1 - _DECAY ** period.clamp(min=0.3))
    return torch.where(rate > 0, (current / GAIN).clamp(max=1), 0.0)


def _poisson(x: Tensor, steps: int) -> Tensor:
    # The same draw at every move of a slider: only the setting changes.
    return encode.poisson(x, steps, generator=torch.Generator().manual_seed(0))


# Of each code: (x [B, ...] in [0, 1], steps) to [T, B, ...], and its reader.
CODES: dict[str, tuple[Callable[[Tensor, int], Tensor], Callable[[Tensor], Tensor]]] = {
    "Poisson": (_poisson, read_rate),
    "latency": (lambda x, steps: encode.latency(x, steps, linear=True), read_latency),
    "latency (logarithm)": (encode.latency, read_latency),
    "LIF neuron": (lambda x, steps: encode.constant_current_lif(GAIN * x, steps), read_lif),
    "delta": (
        lambda x, steps: encode.delta(encode.repeat(x, steps), threshold=DELTA),
        lambda spikes: DELTA * spikes.sum(0),
    ),
    "direct": (encode.repeat, read_rate),
}

CONTROLS: dict[str, Any] = {
    "encoding": list(CODES),
    "digit": (0, 9),
    "contrast": (0.1, 1.0, 0.05),
    "T": (1, LONGEST),
}


def figure(
    encoding: Annotated[str, "where the spikes carry the information"] = "Poisson",
    digit: Annotated[int, "which of ten typical digits"] = 3,
    contrast: Annotated[float, "what its brightness is multiplied by"] = 1.0,
    T: Annotated[int, "time steps"] = 16,
) -> go.Figure:
    """An image of the digits as spikes, read back again; below, the reader's error for other T."""
    write, read = CODES[encoding]
    x = contrast * _digits()[digit : digit + 1].flatten(1)
    side = _digits().shape[-1]

    def error(decoded: Tensor) -> float:
        """Root mean square."""
        return float((decoded - x).square().mean().sqrt())

    spikes = write(x, T)
    decoded = read(spikes)
    now = error(decoded)
    events = "spikes" if bool(((spikes == 0) | (spikes == 1)).all()) else "numbers"
    sent = float(spikes.count_nonzero()) / x.numel()
    title = f"{encoding}, T = {T}: error {now:.3f} for {sent:.2g} {events} per pixel"
    page = coded_image(x.view(side, side), spikes[:, 0], decoded.view(side, side), title)
    axes: dict[str, Any] = {"xaxis": "x4", "yaxis": "y4", "hovertemplate": "T = %{x}<br>error %{y:.3g}<extra></extra>"}
    errors = [max(error(read(write(x, steps))), _LEAST) for steps in _LENGTHS]
    add_line(page, _LENGTHS, errors, "error", colour=theme.VERMILION, symbol="circle", showlegend=False, **axes)
    look: dict[str, Any] = {"symbol": "diamond", "size": 12, "colour": theme.BLUE, "name": "now"}
    add_marks(page, [T], max(now, _LEAST), **look, **axes)
    page.update_yaxes(domain=[_CURVE + 0.19, 1])
    under: dict[str, Any] = {"type": "log", "anchor": "x4", "domain": [0, _CURVE], "tickvals": [1, 0.1, 0.01, _LEAST]}
    under |= {"ticktext": ["1", "0.1", "0.01", f"≤ {_LEAST}"], "title": {"text": "error (RMS)"}, "range": [-3.15, 0.1]}
    across: dict[str, Any] = {"type": "log", "anchor": "y4", "domain": [0, 1], "tickvals": log_ticks(_LENGTHS)}
    across |= {"title": {"text": "time steps T"}, "range": [-0.05, 1.86]}
    return page.update_layout(xaxis4=across, yaxis4=under, height=500)


@functools.lru_cache(maxsize=1)
def _digits() -> Tensor:
    """Of each class the image that is nearest to the mean of its class, [10, 8, 8] in [0, 1]."""
    images, labels = data.load("digits")
    flat = data.to_unit(images).flatten(1)
    means = torch.stack([flat[labels == digit].mean(0) for digit in range(10)])
    distance = torch.cdist(means, flat).masked_fill(labels != torch.arange(10).unsqueeze(1), torch.inf)
    return data.to_unit(images)[distance.argmin(1), 0]


encoder_lab = Lab("encoder_lab", figure, CONTROLS)
