"""The memory calculator: what training a network takes, part by part, and whether that fits."""

from __future__ import annotations

from typing import Annotated, Any

import plotly.graph_objects as go

from ..memory_bars import memory_bars
from .bill import AGAIN, NETWORKS, NOTHING, SAVINGS, Setting, bill, largest_batch
from .lab import Lab

_NEURONS = 8  # of a dense layer, for each channel of a convolution of the same width

CONTROLS: dict[str, Any] = {
    "network": list(NETWORKS),
    "layers": (1, 6),
    "width": (8, 128, 8),
    "T": (1, 64),
    "batch": (8, 2048, 8),
    "numbers": ["float32", "bfloat16"],
    "saving": list(SAVINGS),
    "gigabytes": [1, 4, 8, 16, 24, 40, 80, 141],
}


def figure(
    network: Annotated[str, "Linear and Leaky, or 3 × 3 convolutions and IF, the first two with max-pooling"] = (
        "convolutional"
    ),
    layers: Annotated[int, "hidden layers"] = 3,
    width: Annotated[int, "channels of a convolution; a dense layer has 8 neurons for each"] = 64,
    T: Annotated[int, "time steps, whose inputs all differ"] = 16,
    batch: Annotated[int, "samples in a batch"] = 128,
    numbers: Annotated[str, "of the activity; weights and their optimizer stay in float32"] = "float32",
    saving: Annotated[str, "what device.optimize_memory_usage does; in time, √T steps are held at once"] = AGAIN,
    gigabytes: Annotated[int, "memory of the device, in 10⁹ bytes"] = 8,
) -> go.Figure:
    """What one training step with Adam holds for images of 28 × 28 pixels, and the line of what there is."""
    size = width * _NEURONS if network == "dense" else width
    plain = Setting(network, layers, size, T, batch, numbers, NOTHING)
    chosen = plain._replace(saving=saving)
    bars = {"plain": plain} | ({saving: chosen} if saving != NOTHING else {})
    bills = {name: bill(of)._asdict() for name, of in bars.items()}
    title = f"{_verdict(sum(bill(chosen)), gigabytes)}: {_up_to(largest_batch(chosen, gigabytes * 1e9))}"
    return memory_bars(bills, {"the device": gigabytes * 1e9}, title=title)


def _verdict(total: int, gigabytes: float) -> str:
    return f"{'Fits' if total <= gigabytes * 1e9 else 'Does not fit'} in {gigabytes:g} GB"


def _up_to(samples: int) -> str:
    return f"room for up to {samples:,} samples" if samples else "no room for a single sample"


LAB = Lab(
    "memory_calculator",
    "Memory calculator",
    figure,
    CONTROLS,
    "What does training hold in memory, what grows with what, and which batch fits?",
)


def memory_calculator(**start: Any) -> None:
    """Show the memory calculator: the bill of training, part by part, and whether it fits.

    Args:
        start: first values of ``network``, ``layers``, ``width``, ``T``, ``batch``, ``numbers``, ``saving`` or
            ``gigabytes``.

    Raises:
        TypeError, ValueError: a setting that there is not, or a value that its control can't take.
    """
    LAB.show(**start)
