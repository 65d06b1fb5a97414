"""The encoder lab: a digit, its spikes, what a reader makes of them, and what more time would buy."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import plotly.graph_objects as go
import torch
from torch import Tensor

from snnkit import data

from .. import theme
from ..axes import log_ticks
from ..coding import coded_image
from ..strokes import add_line, add_marks
from .lab import Lab
from .readers import CODES, Code

LONGEST = 64
_LENGTHS = (1, 2, 4, 8, 16, 32, LONGEST)
_HEIGHT, _CURVE = 500, 0.3  # pixels; what the error's curve takes of the plot's height
_LEAST = 1e-3  # errors below are drawn here: a logarithmic axis has no zero

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
    code = CODES[encoding]
    x = contrast * _digits()[digit : digit + 1].flatten(1)
    side = _digits().shape[-1]
    spikes = code.write(x, T)
    decoded = code.read(spikes)
    error = _error(decoded, x)
    sent = float(spikes.count_nonzero()) / x.numel()
    title = f"{encoding}, T = {T}: error {error:.3f} for {sent:.2g} {_events(spikes)} per pixel"
    page = coded_image(x.view(side, side), spikes[:, 0], decoded.view(side, side), title)
    _error_curve(page, code, x, T, error)
    return page


@functools.lru_cache(maxsize=1)
def _digits() -> Tensor:
    """Of each class the image that is nearest to the mean of its class, [10, 8, 8] in [0, 1]."""
    images, labels = data.load("digits")
    flat = data.to_unit(images).flatten(1)
    means = torch.stack([flat[labels == digit].mean(0) for digit in range(10)])
    distance = torch.cdist(means, flat).masked_fill(labels != torch.arange(10).unsqueeze(1), torch.inf)
    return data.to_unit(images)[distance.argmin(1), 0]


def _error(decoded: Tensor, x: Tensor) -> float:
    """Root mean square."""
    return float((decoded - x).square().mean().sqrt())


def _events(spikes: Tensor) -> str:
    return "spikes" if bool(((spikes == 0) | (spikes == 1)).all()) else "numbers"


def _error_curve(page: go.Figure, code: Code, x: Tensor, T: int, error: float) -> None:
    """Under the three panels: the error against T, and where it is now."""
    errors = [max(_error(code.read(code.write(x, steps)), x), _LEAST) for steps in _LENGTHS]
    hover = "T = %{x}<br>error %{y:.3g}<extra></extra>"
    axes: dict[str, Any] = {"xaxis": "x4", "yaxis": "y4", "hovertemplate": hover}
    add_line(page, _LENGTHS, errors, "error", colour=theme.VERMILION, symbol="circle", showlegend=False, **axes)
    look: dict[str, Any] = {"symbol": "diamond", "size": 12, "colour": theme.BLUE, "name": "now"}
    add_marks(page, [T], max(error, _LEAST), **look, **axes)
    page.update_yaxes(domain=[_CURVE + 0.19, 1])
    under: dict[str, Any] = {"type": "log", "anchor": "x4", "domain": [0, _CURVE], "tickvals": [1, 0.1, 0.01, _LEAST]}
    under |= {"ticktext": ["1", "0.1", "0.01", f"≤ {_LEAST}"], "title": {"text": "error (RMS)"}, "range": [-3.15, 0.1]}
    across: dict[str, Any] = {"type": "log", "anchor": "y4", "domain": [0, 1], "tickvals": log_ticks(_LENGTHS)}
    across |= {"title": {"text": "time steps T"}, "range": [-0.05, 1.86]}
    page.update_layout(xaxis4=across, yaxis4=under, height=_HEIGHT)


LAB = Lab(
    "encoder_lab",
    "Encoder lab",
    figure,
    CONTROLS,
    "How do spikes carry a grey level, what gets lost on the way, and what does more time buy?",
)


def encoder_lab(**start: Any) -> None:
    """Show the encoder lab: an image, its spikes and what is read back from them, for six codes.

    Args:
        start: first values of ``encoding``, ``digit``, ``contrast`` or ``T``.

    Raises:
        TypeError, ValueError: a setting that there is not, or a value that its control can't take.
    """
    LAB.show(**start)
