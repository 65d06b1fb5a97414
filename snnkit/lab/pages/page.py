"""A trained network as one HTML file that draws, runs and explains it: equations, weights and page, without a server.

    pages.page(net, "net.html", encode=encoder, images=(test_images, test_labels), labels=data.CLASSES["digits"])

Layers without state become sums in ``js/src/network.js``. Neurons become JavaScript, which ``engine.js`` writes
from their equations. So the file computes the same as ``net`` in evaluation mode. Modules of your own that are not
elementwise can't be translated, and are refused.
"""

from __future__ import annotations

import base64
import copy
import html
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from snnkit import checks, data, encode
from snnkit.engine import js
from snnkit.engine.program import Untranslatable
from snnkit.engine.trace import NotElementwise
from snnkit.files import expanded, write_text
from snnkit.lab.pages import web
from snnkit.models import mlp
from snnkit.neuron import Leaky, Neuron, Readout, Recurrent, Synaptic
from snnkit.nn import Sequential, TimeBatched
from snnkit.train import load_checkpoint
from snnkit.train.metrics import readout_of

__all__ = ["describe", "page", "reader", "reader_network"]

MOST_WEIGHTS = 2_000_000  # 10.7 MB of text
MOST_NEURONS = 50_000
MOST_PIXELS = 4096
MOST_STEPS = 1000
MOST_LABELS = 100
_IMAGES = 100  # that a page offers

_CHANGES_NOTHING = (nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_NORMS = (nn.LayerNorm, nn.GroupNorm)
_KINDS = (*_CHANGES_NOTHING, nn.Linear, nn.Conv2d, *_POOLS, *_BATCH_NORMS, *_NORMS, nn.ReLU, Neuron, Recurrent)
# What the numbers of neurons are called that a reader may change: the first that is there counts.
_THRESHOLDS = ("v_threshold", "v_th", "threshold")
_LEAKS = ("tau", "tau_mem_inv")


@checks.arguments
def page(
    net: nn.Module,
    path: str | os.PathLike[str],
    *,
    encode: str | Callable[[Tensor], Tensor] = "repeat",
    steps: int | None = None,
    gain: float = 1.0,
    size: Sequence[int] | None = None,
    loss: Callable[..., Any] | None = None,
    images: Tensor | tuple[Tensor, Tensor] | None = None,
    labels: Sequence[str] | None = None,
    title: str = "A network that reads what you draw",
    about: str = "",
) -> Path:
    """Write a page on which you draw for a trained network, and see, hear and change the activity of its neurons.

    The file needs no server, no network and no Python: it opens by a double click, and you can send it to anyone.

    Args:
        net: a ``Sequential`` of PyTorch's layers (Linear, Conv2d, pooling, norms, dropout, Flatten) and neurons, on any
            device; it does not change. Neurons may be of your own class.
        path: the HTML file, which replaces an older one in one step.
        encode: how pixels become currents or spikes: the function that ``net`` was trained with, a
            ``functools.partial`` of one of ``snnkit.encode``; or the name of one, with ``steps``. With
            ``encode.columns`` images are read from left to right, and drawings stay where they are drawn.
        steps: T; not with a partial that has its own, nor with ``columns``.
        gain: factor of the pixels before they are encoded.
        size: of one input, [channels, rows, columns]; None: that of ``images``.
        loss: with which ``net`` was trained, as it says what the answer is: of ``snnkit.loss`` the highest potential of
            ``membrane_max_cross_entropy`` and the first spike of the losses of first spikes; else the largest sum.
        images: images that the page offers besides drawing, uint8 or floats in [0, 1], [N, channels, rows, columns], at
            most 100 of them, as many of each class; or a pair of these and their labels [N].
        labels: what each output means; None: their numbers.
        title, about: plain text at the top.

    Returns:
        The path.

    Raises:
        TypeError, ValueError: a page can't hold this network. The message names the module and the limit; nothing is
            written.
    """
    target = expanded(path)
    pictures, answers = images if isinstance(images, tuple) else (images, None)
    if size is None:
        if pictures is None:
            raise ValueError("size must be [channels, rows, columns] where there are no images, but it is None")
        size = pictures.shape[1:]
    description, neurons = describe(net, encode=encode, steps=steps, gain=gain, size=size, loss=loss, labels=labels)
    description["images"] = _pictures(pictures, answers, description)
    words = {"title": title, "about": about, "summary": _summary(net, description)}
    body = Template(web.read("page.html")).substitute({name: html.escape(text) for name, text in words.items()})
    script = f"const NEURONS = {neurons};\n{web.bundle('page.js')}\nsnnkit.start(NEURONS);\n"
    data = json.dumps(description, ensure_ascii=False, separators=(",", ":"))
    text = web.document(title, body, script=script, style=web.read("page.css"), data=data)
    write_text(target, text)
    return target


@checks.arguments
def reader(path: str | os.PathLike[str], *, title: str = "A spiking network reads what you draw") -> Path:
    """Write the page of a network that comes with this package: 64-128-10, trained on drawings of digits.

    ``docs/reader.py`` trained it, on lines of MNIST's digits and on the digits of scikit-learn.

    Args:
        path, title: as for ``page``.
    """
    net = reader_network()
    images = data.load("digits", "test") if data.available("digits") else None
    about = "Draw a digit. Its pixels drive 128 neurons, step by step; their spikes vote for one of ten answers."
    return page(net, path, encode="repeat", steps=20, size=(1, 8, 8), images=images, title=title, about=about)


@checks.arguments
def reader_network() -> Sequential:
    """The network of ``reader``: images in [0, 1], [T, B, 1, 8, 8], shown for T = 20 steps, to spikes [T, B, 10]."""
    net = mlp((64, 128, 10))
    with resources.as_file(resources.files("snnkit.lab") / "web" / "reader.pt") as file:
        load_checkpoint(file, net)
    return net.requires_grad_(False)


def describe(
    net: nn.Module,
    *,
    encode: str | Callable[[Tensor], Tensor] = "repeat",
    steps: int | None = None,
    gain: float = 1.0,
    size: Sequence[int],
    loss: Callable[..., Any] | None = None,
    labels: Sequence[str] | None = None,
) -> tuple[dict[str, Any], str]:
    """The input of ``Network`` in ``network.js``: a description for JSON, and an expression of its neurons.

    Arguments and errors are those of ``page``.
    """
    if getattr(loss, "keywords", {}).get("population_size", 1) != 1:
        raise ValueError("loss must have one neuron for each class in a page: end net with torch.nn.AvgPool1d instead")
    shape = _size(size)
    encoding = _encoding(encode, steps, gain, shape)
    layers, sources = _layers(net, shape[:2] if encoding["kind"] == "columns" else shape)
    last = layers[-1]
    if last["kind"] != "neuron" and not any(layer["kind"] == "neuron" for layer in layers):
        raise ValueError("net must have at least one layer of neurons to be a page, but it has none")
    outputs = int(np.prod(last["shape"]))
    checks.integer("the number of outputs of net", outputs, at_least=2, at_most=MOST_LABELS)
    if labels is None:
        labels = [str(k) for k in range(outputs)]
    if isinstance(labels, str) or len(labels) != outputs or not all(isinstance(label, str) for label in labels):
        raise ValueError(
            f"labels must be {outputs} strings, one for each output of net, but it is {checks.shown(labels)}"
        )
    description = {
        "size": list(shape),
        "steps": encoding.pop("steps"),
        "readout": readout_of(loss),
        "labels": list(labels),
        "encoding": encoding,
        "layers": layers,
    }
    indented = ",\n".join(sources)
    return description, f"(() => {{\n{js.PRELUDE}return [\n{indented}\n];\n}})()"


# ---- pixels ----------------------------------------------------------------------------------------------------------

_ENCODERS: dict[str, dict[str, Any]] = {
    "repeat": {},
    "poisson": {"max_rate": 1.0},
    "latency": {"threshold": 0.01, "linear": False},
    "constant_current_lif": {"tau_mem_inv": 100.0, "v_th": 1.0, "v_leak": 0.0, "v_reset": 0.0, "dt": 1e-3},
    "columns": {},
}


def _encoding(
    code: str | Callable[[Tensor], Tensor], steps: int | None, gain: float, size: tuple[int, int, int]
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if isinstance(code, str):
        chosen = code
    else:
        function: Any = code
        while isinstance(function, partial):
            given = function.keywords | given
            function = function.func if not function.args else None
        chosen = getattr(function, "__name__", "")
        if chosen not in _ENCODERS or getattr(encode, chosen) is not function:
            raise ValueError(
                f"encode must be a partial of one of {', '.join(_ENCODERS)} in snnkit.encode, with keywords, but it is "
                f"{checks.shown(code)}"
            )
    checks.choice("encode", chosen, tuple(_ENCODERS))
    if steps is not None and given.get("steps", steps) != steps:
        raise ValueError(f"steps must be {given['steps']}, as encode says, but it is {steps}")
    steps = given.pop("steps", steps)
    if chosen == "columns":
        if steps not in (None, size[2]):
            raise ValueError(f"steps must be {size[2]}, the columns of an image, with columns, but it is {steps}")
        steps = size[2]
    if steps is None:
        raise ValueError("encode must have steps where none are given, such as partial(encode.repeat, steps=25)")
    if odd := given.keys() - _ENCODERS[chosen].keys():
        raise ValueError(f"encode must have no {sorted(odd)[0]} to be in a page, whose own generator draws, but it has")
    settings = _ENCODERS[chosen] | given
    if settings:
        getattr(encode, chosen)(torch.zeros(1, 1), 1, **settings)  # refuses what the encoder refuses
    settings = {key: value if isinstance(value, bool) else float(value) for key, value in settings.items()}
    return {
        "kind": chosen,
        "steps": checks.integer("steps", steps, at_least=1, at_most=MOST_STEPS),
        "gain": checks.number("gain", gain, above=0),
        **settings,
    }


def _size(size: Sequence[int]) -> tuple[int, int, int]:
    values = tuple(checks.integer("size", value, at_least=1) for value in size)
    if len(values) != 3 or values[0] * values[1] * values[2] > MOST_PIXELS:
        raise ValueError(
            f"size must be [channels, rows, columns] with at most {MOST_PIXELS} values in all, but it is {list(values)}"
        )
    return values


def _pictures(images: Tensor | None, answers: Tensor | None, description: dict[str, Any]) -> dict[str, Any] | None:
    """At most so many images, evenly of all classes, in turns of one of each."""
    if images is None:
        return None
    checks.instance("images", images, Tensor, "a tensor [N, channels, rows, columns]")
    if list(images.shape[1:]) != description["size"] or len(images) == 0:
        raise ValueError(
            f"images must be [N, {', '.join(map(str, description['size']))}], but it is {list(images.shape)}"
        )
    if images.dtype != torch.uint8:
        if not images.is_floating_point() or not bool(((images >= 0) & (images <= 1)).all()):
            raise ValueError("images must be uint8, or floats in [0, 1], but they hold other values")
        images = (images * 255).round().to(torch.uint8)
    order = torch.arange(len(images))
    if answers is not None:
        labels = checks.instance("the labels of images", answers, Tensor, "an int64 tensor [N]").cpu()
        if labels.shape != images.shape[:1] or labels.dtype != torch.int64:
            raise ValueError(f"the labels of images must be int64 [{len(images)}], but it is {checks.shown(labels)}")
        classes = len(description["labels"])
        if int(labels.min()) < 0 or int(labels.max()) >= classes:
            raise ValueError(f"the labels of images must be in 0 … {classes - 1}, as net has {classes} outputs")
        answers, turn = labels, torch.empty_like(labels)  # the how-manieth of its class each image is
        for k in range(classes):
            of_class = (labels == k).nonzero().flatten()
            turn[of_class] = torch.arange(len(of_class))
        order = (turn * classes + labels).argsort()
    order = order[:_IMAGES]
    return {
        "count": len(order),
        "pixels": _text(images.cpu()[order].contiguous().numpy()),
        "labels": None if answers is None else answers[order].tolist(),
    }


# ---- layers ----------------------------------------------------------------------------------------------------------


def _layers(net: nn.Module, size: tuple[int, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """A description of each layer that does something, and the neurons' JavaScript, equal ones once."""
    checks.copyable("net", checks.instance("net", net, nn.Module, "a torch.nn.Module"))
    checks.values("net", net)
    weights = sum(parameter.numel() for parameter in net.parameters())
    if weights > MOST_WEIGHTS:
        raise ValueError(f"net must have at most {MOST_WEIGHTS:,} weights to be a page, but it has {weights:,}")
    if any(type(parameter) not in (Tensor, nn.Parameter) for parameter in net.parameters()):
        raise TypeError(
            "net must have plain weights to be a page, but some are quantized: export it before quantize.quantize"
        )
    layers: list[dict[str, Any]] = []
    sources: list[str] = []
    x = torch.zeros(1, *size)
    cells = 0
    with torch.no_grad():
        for name, module in _flat(copy.deepcopy(net).cpu().float().eval(), "net"):
            _check_kind(module, name)
            before = tuple(x.shape[1:])
            try:
                x = module(x[None])[0][0] if isinstance(module, (Neuron, Recurrent)) else module(x)
            except (RuntimeError, ValueError, TypeError) as error:
                raise ValueError(f"net must take size {[*size]}, but {name} takes no {[*before]}: {error}") from None
            layer = _layer(module, name, before, tuple(x.shape[1:]), sources)
            if layer is not None:
                layers.append({"name": type(module).__name__, "shape": list(x.shape[1:]), **layer})
            if isinstance(module, (Neuron, Recurrent)):
                cells += x[0].numel()
    checks.number("the sum of the outputs of net", x.sum())  # not finite: a weight is not
    if not layers:
        raise ValueError("net must have at least one layer of neurons to be a page, but it has none")
    if cells > MOST_NEURONS:
        raise ValueError(f"net must have at most {MOST_NEURONS:,} neurons to be a page, but it has {cells:,}")
    return layers, sources


def _flat(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Modules in order of execution, with names such as "net[3] (Linear)"."""
    if isinstance(module, TimeBatched):
        yield from _flat(module.module, name)
    elif isinstance(module, (Sequential, nn.Sequential)):
        own = Sequential.forward if isinstance(module, Sequential) else nn.Sequential.forward
        if type(module).forward is not own:
            raise TypeError(
                f"{name} must have the forward of Sequential to be in a page, but {_kind(module)} has its own"
            )
        for i, part in enumerate(module):
            place = f"{name}[{i}]"
            yield from _flat(checks.instance(place, part, nn.Module, "a torch.nn.Module"), place)
    else:
        yield f"{name} ({_kind(module)})", module


def _kind(module: nn.Module) -> str:
    return type(module).__name__


def _check_kind(module: nn.Module, name: str) -> None:
    """Raise TypeError unless it is one of those that ``network.js`` has, and computes what its kind does."""
    known = type(module).__module__.startswith("torch.nn.") or type(module).forward in (
        Neuron.forward,
        Recurrent.forward,
    )
    if not isinstance(module, _KINDS) or not known:
        raise TypeError(
            f"{name} must be one of Linear, Conv2d, pooling, BatchNorm, LayerNorm, GroupNorm, ReLU, Dropout, Flatten, "
            f"Recurrent and neurons to be in a page, but it is of {type(module).__module__}.{_kind(module)}"
        )


def _layer(
    module: nn.Module, name: str, before: tuple[int, ...], after: tuple[int, ...], sources: list[str]
) -> dict[str, Any] | None:
    if isinstance(module, _CHANGES_NOTHING):
        return None
    if isinstance(module, nn.Linear):
        if len(before) != 1:
            raise ValueError(
                f"{name} must have one row of values as input, but it has {list(before)}: put a Flatten before"
            )
        return {"kind": "linear", **_sums(module.weight.T, module.bias)}
    if isinstance(module, nn.Conv2d):
        return _conv(module, name)
    if isinstance(module, _POOLS):
        return _pool(module, name, before, after)
    if isinstance(module, _BATCH_NORMS):
        return _batch_norm(module, name)
    if isinstance(module, _NORMS):
        if isinstance(module, nn.LayerNorm) and tuple(module.normalized_shape) != before:
            raise ValueError(
                f"{name} must be over all of {list(before)}, but it is over {list(module.normalized_shape)}"
            )
        count = before[0] if isinstance(module, nn.GroupNorm) else int(np.prod(before))
        scale, shift = torch.ones(count), torch.zeros(count)
        scale = scale if module.weight is None else module.weight.flatten()
        shift = shift if module.bias is None else module.bias.flatten()
        groups = module.num_groups if isinstance(module, nn.GroupNorm) else 1
        return {"kind": "norm", "groups": groups, "eps": module.eps, "scale": _text(scale), "shift": _text(shift)}
    if isinstance(module, nn.ReLU):
        return {"kind": "relu"}
    if isinstance(module, Recurrent):
        if not isinstance(module.weight, nn.Linear):
            raise ValueError(
                f"{name} must have weights from all to all to be in a page, but it has a {_kind(module.weight)}"
            )
        return _neurons(module.neuron, f"{name}.neuron", after, sources) | _sums(
            module.weight.weight.T, module.weight.bias
        )
    return _neurons(module, name, after, sources)


def _sums(weight: Tensor, bias: Tensor | None) -> dict[str, Any]:
    return {"weight": _text(weight), "bias": None if bias is None else _text(bias)}


def _conv(module: nn.Conv2d, name: str) -> dict[str, Any]:
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        raise ValueError(
            f"{name} must have a number as padding, of zeros, to be in a page, but it is {module.padding!r} of "
            f"{module.padding_mode!r}"
        )
    outputs, inputs, *kernel = module.weight.shape
    groups = module.groups
    # From [groups * outputs, inputs, rows, columns] to [groups * inputs, rows, columns, outputs].
    weight = module.weight.view(groups, outputs // groups, inputs, *kernel).permute(0, 2, 3, 4, 1)
    places = {name: list(getattr(module, name)) for name in ("stride", "padding", "dilation")}
    return {"kind": "conv", "kernel": kernel, "groups": groups, **places, **_sums(weight, module.bias)}


def _pool(module: Any, name: str, before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, Any]:
    mode = "max" if isinstance(module, (nn.MaxPool2d, nn.AdaptiveMaxPool2d)) else "average"
    if isinstance(module, (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)):
        if any(rows % wanted for rows, wanted in zip(before[1:], after[1:], strict=True)):
            raise ValueError(f"{name} must give a divisor of {list(before[1:])}, but it gives {list(after[1:])}")
        kernel = [rows // wanted for rows, wanted in zip(before[1:], after[1:], strict=True)]
        return {"kind": "pool", "mode": mode, "kernel": kernel, "stride": kernel, "padding": [0, 0], "padded": False}
    if (
        module.ceil_mode
        or getattr(module, "dilation", 1) not in (1, (1, 1))
        or getattr(module, "divisor_override", None)
    ):
        raise ValueError(f"{name} must have no ceil_mode, dilation or divisor_override to be in a page, but it has")
    pairs = {
        key: [value, value] if isinstance(value, int) else list(value)
        for key, value in {"kernel": module.kernel_size, "stride": module.stride, "padding": module.padding}.items()
    }
    return {"kind": "pool", "mode": mode, **pairs, "padded": bool(getattr(module, "count_include_pad", False))}


def _batch_norm(module: Any, name: str) -> dict[str, Any]:
    if module.running_mean is None:
        raise ValueError(
            f"{name} must track its mean and variance to be in a page, but it has track_running_stats=False"
        )
    scale = (module.running_var + module.eps).rsqrt()
    scale = scale if module.weight is None else scale * module.weight
    shift = -module.running_mean * scale if module.bias is None else module.bias - module.running_mean * scale
    return {"kind": "affine", "scale": _text(scale), "shift": _text(shift)}


def _neurons(neuron: Any, name: str, shape: tuple[int, ...], sources: list[str]) -> dict[str, Any]:
    try:
        exact = js.source(neuron, backward=False)
        adjustable = js.source(neuron, adjustable=True, backward=False)
    except (NotElementwise, Untranslatable, RuntimeError, ValueError) as error:
        raise ValueError(f"{name} must be an equation that JavaScript can compute, but it is none: {error}") from None
    text = f"{{exact: {exact},\nadjustable: {adjustable}}}"
    if text not in sources:
        sources.append(text)
    fields = list(neuron.State._fields)
    dt = getattr(neuron, "dt", None)
    decays = isinstance(neuron, (Leaky, Synaptic, Readout))
    tensors = dict((*neuron.named_parameters(), *neuron.named_buffers()))
    return {
        "kind": "neuron",
        "neuron": sources.index(text),
        "spiking": bool(neuron.spiking),
        "membrane": next((i for i, field in enumerate(fields) if field in ("v", "mem")), 0),
        "threshold": next((one for one in _THRESHOLDS if one in vars(neuron) or one in tensors), None),
        "leak": next((one for one in _LEAKS if hasattr(neuron, one)), "beta" if decays else None),
        "step": float(torch.as_tensor(dt).max()) if isinstance(dt, (int, float, Tensor)) else None,
        "values": {
            key: _text(value.expand(shape) if value.dim() else value.expand(1))
            for key, value in tensors.items()
            if value.numel() > 1
        },
    }


# ---- what is written -------------------------------------------------------------------------------------------------


def _text(values: Tensor | np.ndarray) -> str:
    if isinstance(values, Tensor):
        values = values.detach().to("cpu", torch.float32).contiguous().numpy()
    return base64.b64encode(values.tobytes()).decode("ascii")


def _summary(net: nn.Module, description: dict[str, Any]) -> str:
    shapes = [description["size"]] + [layer["shape"] for layer in description["layers"] if layer["kind"] == "neuron"]
    if description["layers"][-1]["kind"] != "neuron":
        shapes.append(description["layers"][-1]["shape"])
    sizes = " – ".join(
        " × ".join(map(str, shape if len(shape) == 1 or shape[0] > 1 else shape[1:])) for shape in shapes
    )
    kinds = list(dict.fromkeys(layer["name"] for layer in description["layers"] if layer["kind"] == "neuron"))
    weights = sum(parameter.numel() for parameter in net.parameters())
    return f"{sizes} · {' and '.join(kinds)} neurons · {weights:,} weights · {description['steps']} time steps"
