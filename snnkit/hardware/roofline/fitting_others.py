"""What matrix products, convolutions, other operations and the optimizer take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from . import probes
from .counting import OPTIMIZERS
from .curves import Curve
from .machine import Product
from .ranges import Range
from .timings import Timed, less

_PRODUCT = (2048, 512, 512)  # as layers have them: many rows, those of all steps
_SMALL = (1, 4, 16, 64, 256)
_CONVOLUTION = (16, 64, 64, 14)  # images, channels in and out, pixels of a side
_CHANNELS = (1, 4, 16)
_STREAM_SIZES = (2**8, 2**14, 2**20)
_UPDATE_SIZES = (1, 2**12, 2**16, 2**19, 2**22)
_ADAM = 7  # operations on values of the parameter's size, as ``count`` sees them


def products(device: torch.device, timed: Timed) -> Product:
    """Of two matrices: large ones, and with each of the three sizes small."""
    # A GPU is through with the smaller one as soon as it is launched.
    shape = (8192, 2048, 2048) if device.type == "cuda" else _PRODUCT
    sizes: dict[str, tuple[int, int, int]] = {"all": shape, "one": (1, 1, 1)}
    m, n, k = shape
    for small in _SMALL:
        sizes |= {f"m {small}": (small, n, k), f"n {small}": (m, small, k), f"k {small}": (m, n, small)}
    took = timed({name: probes.product(*dims, device) for name, dims in sizes.items()})
    flops = {name: 2 * math.prod(dims) for name, dims in sizes.items()}
    return _as_product(took, flops, "mnk", _SMALL, dict(zip("mnk", shape, strict=True)))


def _as_product(
    took: dict[str, Range], flops: dict[str, int], axes: str, small: Sequence[int], largest: dict[str, int]
) -> Product:
    start = took["one"]
    flop = took["all"] * (1 / flops["all"])
    slower = {}
    for axis in axes:
        points = [(largest[axis], Range(1.0, 1.0, 1.0))]
        for size in small:
            name = f"{axis} {size}"
            net = max(took[name].value - start.value, 1e-9) / flops[name]
            points.append((size, Range.of(max(net / flop.value, 1e-3))))
        slower[axis] = Curve.through(points)
    return Product(flop, slower, start)


def convolutions(device: torch.device, timed: Timed) -> dict[str, Product]:
    """Forward and backward: with many channels, with few in, with few out."""
    samples, inputs, outputs, side = _CONVOLUTION
    shapes: dict[str, tuple[int, int, int, int]] = {"all": _CONVOLUTION, "one": (1, 1, 1, 1)}
    shapes |= {f"k {9 * c}": (samples, c, outputs, side) for c in _CHANNELS}
    shapes |= {f"n {c}": (samples, inputs, c, side) for c in _CHANNELS}
    made = {name: probes.convolution(*shape, device) for name, shape in shapes.items()}
    flops = {name: 2 * 9 * math.prod(shape[:3]) * shape[3] ** 2 for name, shape in shapes.items()}
    took = timed({f"forward {n}": pair[0] for n, pair in made.items()} | {f"both {n}": p[1] for n, p in made.items()})
    forward = {name: took[f"forward {name}"] for name in shapes}
    backward = {name: less(took[f"both {name}"], forward[name]) for name in shapes}
    twice = {name: 2 * number for name, number in flops.items()}  # the gradients of image and weight
    return {"forward": _as_convolution(forward, flops), "backward": _as_convolution(backward, twice)}


def _as_convolution(took: dict[str, Range], flops: dict[str, int]) -> Product:
    _, inputs, outputs, _ = _CONVOLUTION
    k = _as_product(took, flops, "k", [9 * c for c in _CHANNELS], {"k": 9 * inputs})
    n = _as_product(took, flops, "n", _CHANNELS, {"n": outputs})
    return Product(k.flop, {**k.slower, **n.slower}, k.start)


def streams(device: torch.device, timed: Timed) -> dict[str, Curve]:
    """Of operations that are no arithmetic, by their bytes."""
    points: dict[str, list[tuple[float, Range]]] = {}
    for values in _STREAM_SIZES:
        made = probes.streams(values, device)
        contestants = {f"{name} forward": pair[0] for name, pair in made.items()}
        took = timed(contestants | {f"{name} both": pair[1] for name, pair in made.items() if pair[1]})
        for name, (_, backward) in made.items():
            forward = took[f"{name} forward"]
            bytes_forward, bytes_backward = _stream_bytes(name, values)
            if backward is None:
                points.setdefault(name, []).append((bytes_forward, forward))
                continue
            points.setdefault(f"{name} forward", []).append((bytes_forward, forward))
            left = less(took[f"{name} both"], forward)
            points.setdefault(f"{name} backward", []).append((bytes_backward, left))
    return {name: Curve.through(found) for name, found in points.items()}


def _stream_bytes(name: str, values: int) -> tuple[int, int]:
    """As ``bench.traffic`` counts what the probes read and write, forward and backward."""
    x = 4 * values
    pooled = values // 4
    return {
        "copy": (2 * x, 0),
        "reduction": (x, 0),
        "norm": (2 * x, 3 * x),
        "pool": (x + pooled * 12, 2 * x + pooled * 12),
        "other": (3 * x, 3 * x),
    }[name]


def updates(device: torch.device, timed: Timed) -> Curve:
    """Of one operation of Adam, by the values of the parameter."""
    took = timed({str(n): probes.update(n, OPTIMIZERS["adam"], device) for n in _UPDATE_SIZES})
    return Curve.through((n, took[str(n)] * (1 / _ADAM)) for n in _UPDATE_SIZES)
