"""The memory calculator: the memory of training, part by part, by formula, and whether it fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import plotly.graph_objects as go
import torch

from snnkit import checks, device, models
from snnkit.data import resolve_device

from ..drawing import add_mark
from ..explorer import Lab
from ..figures import shares

INPUTS, CLASSES, _SIDE = 784, 10, 28
_POOLED = 2  # so many convolutions are followed by 2 × 2 max-pooling
_PER_CHANNEL = 8  # neurons of a dense layer, for each channel of a convolution of the same width
_ADAM = 2  # numbers that it stores for each weight
NOTHING, AGAIN, OVER_TIME = "nothing", "recompute and pack", "checkpoints in time"

CONTROLS: dict[str, Any] = {
    "network": ["dense", "convolutional"],
    "layers": (1, 6),
    "width": (8, 128, 8),
    "T": (1, 64),
    "batch": (8, 2048, 8),
    "numbers": ["float32", "bfloat16"],
    "saving": [NOTHING, AGAIN, OVER_TIME],
    "gigabytes": [1, 4, 8, 16, 24, 40, 80, 141],
}


class Setting(NamedTuple):
    """The network in training: hidden layers of ``width`` neurons or channels on [T, B, ...], whose steps all differ.

    ``numbers`` is "float32" or a dtype for autocast; ``saving`` over time uses chunks of √T steps, which need least
    memory.
    """

    network: str
    layers: int
    width: int
    steps: int
    batch: int
    numbers: str
    saving: str


class Memory(NamedTuple):
    """Bytes that one training step with Adam holds between forward and backward; ``activity``: of layers' inputs."""

    weights: int
    gradients: int
    optimizer: int
    activity: int


def memory_of(of: Setting) -> Memory:
    """By formula; the estimates of ``snnkit.device`` for the same networks agree."""
    size, calls = getattr(torch, of.numbers).itemsize, of.steps * of.batch
    weights = plain = recomputed = 0
    for i, (matrix, biases, inputs, neurons, pooled) in enumerate(_blocks(of.network, of.layers, of.width)):
        weights += matrix + biases
        cast = matrix * size if size < 4 else 0  # autocast's narrow copy of the weights
        indices = 8 * pooled  # bytes of the places that max-pooling has chosen
        # The weights' input, and the neurons' input, from which backward runs them again. Pooling holds their output.
        plain += calls * (inputs * size + neurons * size + (neurons * size if pooled else 0) + indices) + cast
        # Spikes are packed, eight to a byte; neurons are run again, and pooling saves a byte for each place.
        packed = calls * inputs // 8 if i else calls * inputs * size + cast
        recomputed += packed + calls * (neurons * size + pooled)
    activity = plain if of.saving == NOTHING else recomputed
    if of.saving == OVER_TIME:
        activity = int(plain * min(math.ceil(math.sqrt(of.steps)) / of.steps, 1)) + 4 * calls * INPUTS
    return Memory(4 * weights, 4 * weights, 4 * _ADAM * weights, activity)


def _blocks(network: str, layers: int, width: int) -> list[tuple[int, int, int, int, int]]:
    """Of each layer: weights, biases, inputs, neurons, and values after its pooling (0: none)."""
    if network == "dense":
        sizes = (INPUTS, *[width] * layers, CLASSES)
        return [(a * b, b, a, b, 0) for a, b in pairwise(sizes)]
    blocks, channels, side = [], 1, _SIDE
    for i in range(layers):
        pixels, after = side**2, side // 2 if i < _POOLED else side
        blocks.append((9 * channels * width, 0, channels * pixels, width * pixels, width * after**2 * (i < _POOLED)))
        channels, side = width, after
    inputs = channels * side**2
    return [*blocks, (inputs * CLASSES, CLASSES, inputs, CLASSES, 0)]


def largest_batch(of: Setting, limit: float) -> int:
    """Number of samples that fit into ``limit`` bytes: 0 if the model alone is too large."""
    one, two = sum(memory_of(of)), sum(memory_of(of._replace(batch=2 * of.batch)))
    each = (two - one) / of.batch
    return max(math.floor((limit - (one - each * of.batch)) / each), 0)


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
    """The memory of one training step with Adam for images of 28 × 28 pixels, and the line of the device's memory."""
    size = width * _PER_CHANNEL if network == "dense" else width
    plain = Setting(network, layers, size, T, batch, numbers, NOTHING)
    chosen = plain._replace(saving=saving)
    bars = {"plain": plain} | ({saving: chosen} if saving != NOTHING else {})
    parts = {name: {part: count / 1e9 for part, count in memory_of(of)._asdict().items()} for name, of in bars.items()}
    fits = "Fits" if sum(memory_of(chosen)) <= gigabytes * 1e9 else "Does not fit"
    most = largest_batch(chosen, gigabytes * 1e9)
    room = f"room for up to {most:,} samples" if most else "no room for a single sample"
    page: Any = shares(parts, "GB", title=f"{fits} in {gigabytes:g} GB: {room}")
    longest = page.layout.xaxis.range[1]
    if gigabytes < 5 * longest:  # a line beyond would leave the bars no room
        add_mark(page, "the device", gigabytes, [0, max(longest, gigabytes)])
        page.update_xaxes(range=[0, 1.05 * max(longest, gigabytes)])
    return page.update_layout(margin={"t": 72})


memory_calculator = Lab("memory_calculator", figure, CONTROLS)


@checks.arguments
def beside_measured(
    bill: Callable[[int, int, int, int, int, int], tuple[int, int]], where: torch.device | str = "cpu"
) -> Callable[..., go.Figure]:
    """For ``explore``: a function of ``steps``, ``batch``, ``neurons`` and ``numbers`` that draws two bars for the
    network 784-neurons-10 in training with Adam: the result of ``bill``, and what a training step holds.

    Args:
        bill: (weights, held, steps, batch, copies, width) to bytes (of the model, of its activity): numbers of weights,
            numbers held per sample and step, T, B, numbers that the optimizer stores per weight, bytes of a number.
        where: the device of the training step.
    """
    where = resolve_device(where, "where")

    def figure(
        steps: Annotated[int, "time steps, whose inputs all differ"] = 16,
        batch: Annotated[int, "samples in a batch"] = 16,
        neurons: Annotated[int, "of the hidden layer"] = 500,
        numbers: Annotated[str, "of the activity"] = "float32",
    ) -> go.Figure:
        dtype = getattr(torch, numbers)
        with torch.random.fork_rng([]):  # initial weights and spikes are drawn; the caller's generator stays as it is
            net = models.mlp((INPUTS, neurons, CLASSES)).to(where)
            x = (torch.rand(steps, batch, INPUTS) < 0.15).to(where, dtype)
        count = sum(p.numel() for p in net.parameters())
        each = INPUTS + 2 * neurons + CLASSES  # inputs of both Linear and of both Leaky
        _, activity = bill(count, each, steps, batch, _ADAM, dtype.itemsize)
        with torch.autocast(where.type, dtype, enabled=numbers != "float32"):
            held = device.training_step(net, x).held + x.nbytes
        model = {"weights": 4 * count, "gradients": 4 * count, "optimizer": 4 * _ADAM * count}
        wholes = {
            name: {part: size / 1e6 for part, size in (model | {"activity": size}).items()}
            for name, size in {"predicted": activity, "measured": held}.items()
        }
        title = f"Predicted {activity / 1e6:.1f} MB of activity, measured {held / 1e6:.1f} MB"
        return shares(wholes, "MB", title=title)

    return figure
