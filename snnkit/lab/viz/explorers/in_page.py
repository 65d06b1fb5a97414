"""Explorers that compute in the page: no kernel, no server. ``js/src/explorers`` holds their JavaScript.

An explorer is HTML that needs nothing else. So it works in JupyterLab, Colab and VS Code, in a notebook without a
kernel, in a report and on the site. It is also an anywidget: after ``connect``, ``values`` follow the controls, and
controls follow ``values``.
"""

from __future__ import annotations

import base64
import functools
import json
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit import checks, data
from snnkit.device.usage import evaluating
from snnkit.engine import js
from snnkit.lab.pages import web
from snnkit.lab.pages.page import describe
from snnkit.lab.viz.explorers import equations
from snnkit.lab.viz.frontend import live, on_colab
from snnkit.neuron import Neuron
from snnkit.nn import Sequential
from snnkit.surrogate import Surrogate

# Where a place for it is in the document, by JupyterLab's order of events, may be some frames after the script.
_PAGE = """
const key = KEY, all = (globalThis.snnkitExplorers ??= {});
const wait = (left) => {
  const place = document.getElementById(key);
  if (!place) return left && requestAnimationFrame(() => wait(left - 1));
  all[key] = start(place, {}, (values) => all[key].report?.(values));
  document.dispatchEvent(new CustomEvent("snnkit-explorer"));
};
wait(600);
"""
_WIDGET = """
export default {
  initialize({model}) {
    let ui = null;
    const connect = () => {
      const made = globalThis.snnkitExplorers?.[model.get("key")];
      if (!made || made === ui) return;
      ui = made;
      ui.set(model.get("values"));
      ui.report = (values) => { model.set("values", values); model.save_changes(); };
      ui.report(ui.values());
    };
    connect();
    document.addEventListener("snnkit-explorer", connect);
    model.on("change:values", () => ui?.set(model.get("values")));
  },
  render({model, el}) {
    const place = el.appendChild(document.createElement("div"));
    const ui = start(place, model.get("values"), (values) => { model.set("values", values); model.save_changes(); });
    model.on("change:values", () => ui.set(model.get("values")));
    return () => ui.end();
  },
};
"""
_NO_SCRIPT = "This explorer runs in the page: open the notebook in JupyterLab, Colab or VS Code."


@functools.cache
def explorer_class() -> Any:
    """The widget of all explorers. (anywidget is imported when the first one is made.)"""
    import anywidget
    import traitlets

    class Explorer(anywidget.AnyWidget):
        """An explorer. ``values`` are those of its controls, after ``connect``; set them to move the controls."""

        _ipython_display_ = None  # ipywidgets 7, Colab's, would show the widget in place of the page
        key = traitlets.Unicode().tag(sync=True)
        values = traitlets.Dict().tag(sync=True)

        def __init__(self, label: str, script: str) -> None:
            self._esm = script + _WIDGET
            self._css = web.read("style.css")
            self._label, self._script = label, script
            super().__init__(key=f"snnkit-{uuid.uuid4().hex[:12]}")

        def open(self) -> None:
            """Nothing, as a page needs no kernel (but marimo's needs the model). See ``connect``."""
            if "marimo" in sys.modules:
                super().open()

        def connect(self) -> None:
            """Let ``values`` follow the controls from the next cell on, and the controls ``values``: in JupyterLab, not
            on Colab, whose outputs can't see each other, and not without a viewer."""
            if live() and not on_colab():
                super().open()

        def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
            return {"text/html": self.html(), "text/plain": f"{self._label}. {_NO_SCRIPT}"}

        def html(self) -> str:
            """The explorer as a piece of HTML that needs nothing else."""
            place = f'<div class="snn explorer" id="{self.key}"><noscript>{_NO_SCRIPT}</noscript></div>'
            script = self._script + _PAGE.replace("KEY", json.dumps(self.key))
            return f'<style>{web.read("style.css")}</style>{place}<script type="module">\n{script}</script>'

    return Explorer


def explorer(label: str, name: str, settings: dict[str, Any], own: str = "{}") -> Any:
    """The explorer of ``js/src/explorers/NAME.js``, whose function is ``NAMEExplorer``.

    Args:
        settings: settings of the function, as JSON.
        own: a JavaScript object of equations (``equations.written``) that the kit's file of them does not hold.
    """
    code = web.bundle(f"explorers/{name}.js")
    given = json.dumps(settings).replace("<", "\\u003c")
    equation = f"(() => {{ {js.PRELUDE}\nreturn {own}; }})()" if own != "{}" else own
    call = f"snnkit.{name}Explorer(place, {{...{given}, own: {equation}}}, saved, report)"
    return explorer_class()(label, f"{code}\nconst start = (place, saved, report) => {call};\n")


@checks.arguments
def neuron(neuron: Neuron | None = None) -> Any:
    """A population of one kind of neuron: its input, membrane and spikes, and its f–I curve.

    Args:
        neuron: a neuron to explore instead of those of the kit, such as your own, with a slider for each of its
            numbers. Its input is the constant x, for as many steps as the others.

    Raises:
        NotElementwise, Untranslatable: its step can't be compiled neuron by neuron, or not to JavaScript.
    """
    settings: dict[str, Any] = {"steps": 300, "shown": 300, "count": 20, "curve": True}
    if neuron is None:
        return explorer("Neuron explorer: the neurons of the kit, their spikes and f–I curves", "neuron", settings)
    name = type(neuron).__name__
    settings["states"] = list(getattr(neuron.initial_state(torch.zeros(1)), "_fields", ()))
    own = equations.written({name: neuron})
    return explorer(f"Neuron explorer: {name}, its spikes and f–I curve", "neuron", settings, own)


@checks.arguments
def population(neurons: int = 30, *, steps: int = 1000, current: float = 1.2, only_current: bool = False) -> Any:
    """A population of LIF neurons with the same mean input and independent noise: one membrane, and all spikes.

    Args:
        neurons: how many, 1 to 100.
        steps: over which intervals are averaged, 2 to 5000; the first 150 of them are drawn.
        current: at first.
        only_current: leave out the controls of the neuron and of the noise.
    """
    neurons = checks.integer("neurons", neurons, at_least=1, at_most=100)
    steps = checks.integer("steps", steps, at_least=2, at_most=5000)
    settings: dict[str, Any] = {"steps": steps, "shown": min(steps, 150), "count": neurons, "curve": False}
    settings |= {"only": "LIF", "first": {"current": checks.number("current", current)}}
    settings["controls"] = ["current"] if only_current else ["current", "tau", "noise", "reset"]
    label = "Population lab: LIF neurons" if neurons > 1 else "A LIF neuron with a constant input"
    return explorer(label, "neuron", settings)


@checks.arguments
def surrogate(surrogate: Surrogate | None = None) -> Any:
    """A surrogate's shape and derivative, which membranes get gradient, and how it decays in a deep network.

    Args:
        surrogate: a surrogate of your own beside those of the kit. Its first number becomes the slope.
    """
    own = "{}"
    if surrogate is not None:
        own = equations.written({type(surrogate).__name__: equations.curves(surrogate)})
    return explorer("Surrogate explorer: surrogates and the gradients of a deep network", "surrogate", {}, own)


def encoder() -> Any:
    """A digit as spikes by each code of ``snnkit.encode``, decoded again, and the error for other numbers of steps."""
    images, labels = data.load("digits")
    flat = images.flatten(1).float()
    means = torch.stack([flat[labels == digit].mean(0) for digit in range(10)])
    distance = torch.cdist(means, flat).masked_fill(labels != torch.arange(10).unsqueeze(1), torch.inf)
    # Of each class the image that is nearest to the mean of its class.
    digits = data.to_unit(images)[distance.argmin(1)].flatten(1).mul(16).round().int().tolist()
    return explorer("Encoder explorer: a digit as spikes, and decoded again", "encoder", {"digits": digits})


def event_player() -> Any:
    """A digit in front of a synthetic event camera, step by step and as a cloud in space and time."""
    images, labels = data.load("digits")
    first = [int((labels == label).nonzero()[0]) for label in range(10)]
    large = torch.nn.functional.interpolate(data.to_unit(images[first]), size=(16, 16), mode="bilinear")
    levels = large.flatten(1).mul(255).round().int().tolist()
    return explorer("Event player: a digit before an event camera", "events", {"images": levels})


def stdp() -> Any:
    """Two spikes on each side of a synapse, to be dragged: their traces, the weight, and the STDP window."""
    return explorer("STDP explorer: move the spikes of two neurons, and the synapse between them changes", "stdp", {})


def number_lines() -> Any:
    """The numbers of float32, bfloat16 and float16 near a value, and to which of them it is rounded."""
    return explorer("Number lines: float32, bfloat16 and float16 near a value", "formats", {})


def memory_calculator() -> Any:
    """The memory of one training step with Adam, by formula, for each way to save, and the largest batch that fits."""
    return explorer("Memory calculator: the memory of training, and whether it fits", "memory", {})


@checks.arguments
def under_the_roof(rate: float, bandwidth: float) -> Any:
    """A model of a layer of neurons, as a loop of operations and fused, on a machine of this rate (operations per
    second) and bandwidth (bytes per second). Both are above 0."""
    limits = {name: checks.number(name, value, above=0) for name, value in (("rate", rate), ("bandwidth", bandwidth))}
    return explorer("Under the roof: a loop and a fused kernel", "roof", limits)


@checks.arguments
def crossing(cpu: tuple[float, float], other: tuple[float, float] | None = None) -> Any:
    """Samples per second against the batch of a CPU and of another device, each (overhead in seconds, samples per
    second) above 0, and from which batch on that pays. None: twice the CPU's overhead and 20 times its rate."""
    devices = {}
    for name, pair in (("cpu", cpu), ("other", other or (2 * cpu[0], 20 * cpu[1]))):
        named = zip(("overhead", "rate"), pair, strict=True)
        devices[name] = [checks.number(f"{what} of {name}", value, above=0) for what, value in named]
    return explorer("The crossing: from which batch on another device pays", "crossing", devices)


@checks.arguments
def decision(
    net: Sequential, images: Tensor, labels: Tensor, answers: Tensor, *, encode: Any, classes: Sequence[str]
) -> Any:
    """A trained network decides, computed in the page: an image, the spikes of the last hidden layer, and the votes.

    One can add noise to the image, and look at misread images only. The page holds the weights, 5.3 bytes for each.

    Args:
        net, encode: as for ``pages.page``; ``net`` has a hidden layer of neurons.
        images: uint8 [N, channels, rows, columns]; the first 200 and the first 50 misread ones are shown.
        labels, answers: the right class of each image and that of ``net``, int64 [N].
        classes: a name for each output.

    Raises:
        TypeError, ValueError: those of ``pages.page``, and if there is no hidden layer of neurons.
    """
    wrong = _wrong(images, labels, answers, classes)[:50]
    network, neurons = describe(net, encode=encode, size=images.shape[1:])
    if len(classes) != (outputs := len(network["labels"])):
        raise ValueError(f"classes must be {outputs} names, one per output of net, but it is {checks.shown(classes)}")
    if sum(layer["kind"] == "neuron" for layer in network["layers"]) < 2:
        raise ValueError("net must have a hidden layer of neurons, but it has no neurons before those of its output")
    count = min(len(images), 200)
    sent = [*range(count), *(i for i in wrong if i >= count)]
    settings = {"network": network | {"labels": list(classes)}, "shown": count, "wrong": [sent.index(i) for i in wrong]}
    settings |= {"images": _bytes(images[sent]), "labels": labels[sent].tolist()}
    return explorer("Watch the decision: an image, hidden spikes, and votes", "decision", settings, neurons)


def conv_costs() -> Any:
    """FLOPs of ``models.FashionConvNet`` for an image, which is static or not, against its width and T."""
    return explorer("The price of a convolution", "convolution", {})


@checks.arguments
def gradient_scales(values: Mapping[Any, Tensor]) -> Any:
    """Histograms of log₂ |values| times a power of two, and how many of them float16 and bfloat16 round to 0 or to
    infinity. Zeros are left out, because no format loses them.

    Args:
        values: name to a floating-point tensor of any shape, such as gradients; ValueError if all are 0.
    """
    sent = {}
    for name, value in values.items():
        if not checks.instance(f"values[{name!r}]", value, Tensor, "a floating-point tensor").is_floating_point():
            raise TypeError(f"values[{name!r}] must be a floating-point tensor, but it is {value.dtype}")
        checks.values(f"values[{name!r}]", value)
        sizes = value.detach().abs().flatten().double()
        if not len(sizes := sizes[(sizes > 0) & sizes.isfinite()]):
            continue
        fraction, power = torch.frexp(sizes)
        edge = fraction == 0.5
        power = (power - edge.int()).cpu()  # a power of two is the upper end of its bin, not the lower
        # Half of its last digit or more beyond the largest float16 of the bin: infinite where the range ends with it.
        top = power[(edge | (fraction >= 1 - torch.finfo(torch.float16).eps / 4)).cpu()]
        low = int(power.min())
        counts = torch.bincount(power - low)
        sent[str(name)] = {"low": low, "counts": counts.tolist()}
        sent[str(name)]["top"] = torch.bincount(top - low, minlength=len(counts)).tolist()
    if not sent:
        raise ValueError("values must hold at least one number different from zero, but it has none")
    return explorer("Gradients times a scale, held in 16 bits", "scales", {"values": sent})


@checks.arguments
def feature_maps(
    net: Sequential,
    images: Tensor,
    labels: Tensor,
    answers: Tensor,
    *,
    encode: Callable[[Tensor], Tensor],
    layers: Mapping[str, int],
    classes: Sequence[str],
) -> Any:
    """The spikes of the six busiest channels of convolutions, step by step and on average, for the first 100 images.

    Args:
        net: is called in evaluation mode on ``encode`` of the images.
        images: uint8 [N, channels, rows, columns], the first channel is shown.
        labels, answers: the right class of each image and that of ``net``, int64 [N].
        layers: name to the index in ``net`` of neurons that give spikes [T, B, channels, rows, columns].
        classes: a name for each class.
    """
    _wrong(images, labels, answers, classes)
    images, sent = images[:100], {}
    x = checks.instance("the result of encode", encode(data.to_unit(images)), Tensor, "a tensor [T, B, ...]")
    if x.dim() < 2 or x.shape[1] != len(images):
        raise ValueError(f"encode must give [T, {len(images)}, ...], but it gives {list(x.shape)}")
    try:
        with evaluating(net):
            outputs = net.record(x).layers
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"net must take what encode gives, {x.dtype} {list(x.shape)}, but: {error}") from error
    checks.integer("the number of layers", len(layers), at_least=1)
    for name, i in layers.items():
        i = checks.integer(f"layers[{name!r}]", i, at_least=-len(outputs), at_most=len(outputs) - 1)
        if (maps := outputs[i]).dim() != 5 or not maps.numel():
            shape = list(maps.shape)
            raise ValueError(f"layers[{name!r}] must give [T, B, channels, rows, columns], but it gives {shape}")
        busy = maps.sum((0, 3, 4)).argsort(dim=1, descending=True, stable=True)[:, :6]
        spikes = maps.transpose(0, 1).take_along_dim(busy[:, None, :, None, None], 2) != 0
        bits = base64.b64encode(np.packbits(spikes.cpu().numpy()).tobytes()).decode()
        sent[name] = {"channels": busy.tolist(), "spikes": bits, "rows": maps.shape[3], "columns": maps.shape[4]}
    words = {key: [classes[k] for k in of[:100].tolist()] for key, of in {"labels": labels, "answers": answers}.items()}
    size = dict(zip(("rows", "columns"), images.shape[2:], strict=True))
    settings = {"steps": len(outputs[0]), "images": _bytes(images[:, :1]), "layers": sent, **size, **words}
    return explorer("Feature maps: the busiest channels of a convolution, step by step", "maps", settings)


def _bytes(images: Tensor) -> str:
    """Brightness as base64, a byte for each pixel."""
    levels = data.to_unit(images).mul(255).round().to("cpu", torch.uint8)
    return base64.b64encode(levels.numpy().tobytes()).decode()


def _wrong(images: Tensor, labels: Tensor, answers: Tensor, classes: Sequence[str]) -> list[int]:
    """Which images are misread."""
    for name, one in {"images": images, "labels": labels, "answers": answers}.items():
        checks.values(name, one)
    if images.dim() != 4 or not images.numel():
        raise ValueError(f"images must be [N, channels, rows, columns], none of them 0, but it is {list(images.shape)}")
    for name, one in {"labels": labels, "answers": answers}.items():
        fits = one.dtype == torch.int64 and one.shape == images.shape[:1]
        if not fits or int(one.min()) < 0 or int(one.max()) >= len(classes):
            rule = f"int64 [{len(images)}] of places in classes, from 0 to {len(classes) - 1}"
            raise ValueError(f"{name} must be {rule}, but it is {checks.shown(one)}")
    return (labels.cpu() != answers.cpu()).nonzero().flatten().tolist()
