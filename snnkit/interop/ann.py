"""A trained network without spikes (an ANN) as a spiking one, whose firing rates are the activations of its ReLUs.

An integrate-and-fire neuron with a soft reset, driven by z per step, fires min(max(z, 0), 1) times a step: a ReLU that
is clipped at 1. So the weights are scaled until the activations of each layer are at most 1, all but a few
(Diehl et al. 2015, doi:10.1109/IJCNN.2015.7280696). With λ the percentile of a layer's activations
(Rueckauer et al. 2017, doi:10.3389/fnins.2017.00682), the new weights and biases are

    w ← w λ_before / λ,  b ← b / λ

After T steps, the rates of a layer whose input is constant differ from its activations by at most 1 / T, and those of
later layers by little more, as their input is less regular. A membrane that begins at half the threshold rounds to the
nearest count instead of down, which halves the error (Deng and Gu 2021, arXiv:2103.00476; Bu et al. 2022,
arXiv:2202.01440).
"""

from __future__ import annotations

import copy
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_leaves

from snnkit import checks
from snnkit.engine import check_sequence, state_dtype, unroll
from snnkit.interop.graph import INPUT, OUTPUT, Graph
from snnkit.neuron import IF, Neuron
from snnkit.neuron.base import Value
from snnkit.nn import Sequential, is_stateful, time_batched
from snnkit.surrogate import ATan

_BATCH = 64  # images at a time, so that the activations of all layers need little memory


def _pools(kind: str) -> dict[Any, type[nn.Module]]:
    """The modules of PyTorch's functions of pooling."""
    names = [(f"{kind}_pool{d}d", f"{kind.title()}Pool{d}d") for d in (1, 2, 3)]
    names += [(f"adaptive_{function}", f"Adaptive{module}") for function, module in names]
    return {getattr(F, function): getattr(nn, module) for function, module in names}


# What can be converted: modules are known by their class, functions by themselves, methods of tensors by their name.
_LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_RELUS: dict[Any, type[nn.Module]] = dict.fromkeys((nn.ReLU, F.relu, F.relu_, torch.relu, torch.relu_), nn.ReLU)
_RELUS |= {"relu": nn.ReLU, "relu_": nn.ReLU, nn.ReLU6: nn.ReLU6, F.relu6: nn.ReLU6}
_AVERAGES, _MAXIMA = _pools("avg"), _pools("max")
_RESHAPES = (nn.Flatten, nn.Unflatten, torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze)
_RESHAPES += ("flatten", "unflatten", "reshape", "view", "squeeze", "unsqueeze")
_SAME = (nn.Identity, F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, "contiguous")
_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")
_ENDS = (nn.Softmax, nn.LogSoftmax, F.softmax, F.log_softmax, torch.softmax, torch.log_softmax)
_ENDS += ("softmax", "log_softmax")
_POSSIBLE = (
    "only Linear, Conv1d to Conv3d, BatchNorm, ReLU, ReLU6, average and max pooling, Flatten, Dropout, Identity and "
    "sums of two layers can, and a softmax at the end"
)


class PrechargedIF(IF):
    """Integrate-and-fire with a soft reset, whose membrane begins at ``v_init``.

    From v = v_init on:  v ← v + x;  spike = H(v - 1);  v ← v - spike. With a constant input z in [0, 1] it has fired
    floor(z T + v_init) times after T steps.

    Args:
        v_init: membrane potential before the first step, in thresholds; 0.5 rounds z T to the nearest count.
        surrogate: the spike function.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    resting: ClassVar[dict[str, str]] = {"v": "v_init"}
    v_init: Value

    def __init__(self, v_init: Value = 0.5, *, surrogate: Callable[..., Tensor] = ATan(), engine: str = "auto") -> None:
        super().__init__(v_reset=None, surrogate=surrogate, engine=engine)
        self.number("v_init", v_init)


class PooledState(NamedTuple):
    """State of a ``CountMaxPool``.

    Attributes:
        count: sum of the input over all steps so far [B, ...].
        largest: the largest count in each window [B, ...].
    """

    count: Tensor
    largest: Tensor


class CountMaxPool(nn.Module):
    """Maximum pooling of spike counts: its output in all is the largest count in the window.

        n ← n + x;  out = max(n) - max(n before), over the window

    A count grows by 0 or 1, and so does the largest one: spikes in, spikes out, as many as the neuron of the window has
    fired that leads. (A maximum of the spikes of each step would fire as often as any of them does.) The gate of
    Rueckauer et al. 2017 (doi:10.3389/fnins.2017.00682, section 2.2.5) lets the spikes of the leading neuron through,
    which are more than its count where the lead changes. Inputs that are no spikes, such as currents, add up the same
    way.

    Args:
        pool: ``nn.MaxPool2d`` or another maximum pooling of PyTorch.
    """

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.pool = checks.instance(
            "pool", pool, tuple(_MAXIMA.values()), "a maximum pooling such as torch.nn.MaxPool2d(2)"
        )

    def initial_state(self, x: Tensor) -> PooledState:
        """The state before the first step, for steps like ``x`` [B, ...]: counts of 0."""
        count = torch.zeros_like(checks.instance("x of CountMaxPool", x, Tensor, "a tensor [B, ...]"))
        try:
            return PooledState(count, torch.zeros_like(self.pool(count)))
        except RuntimeError as error:
            step = f"[B, ...] is {list(x.shape)} of {x.dtype}"
            raise ValueError(
                f"{type(self.pool).__name__} of CountMaxPool can't pool x, of which a step {step}"
            ) from error

    def forward(self, x: Tensor, state: PooledState | None = None) -> tuple[Tensor, PooledState]:
        """x [T, B, ...] to out [T, B, ...] and the state; ``state=None`` starts with counts of 0."""
        check_sequence(x, "CountMaxPool")
        precise = x.to(state_dtype(x))  # half precision can't count far
        if state is None:
            state = self.initial_state(precise[0])
        checks.instance("state of CountMaxPool", state, PooledState, "a PooledState or None")
        counts, (count,) = unroll(_counted, precise, (state.count,))
        out, (largest,) = unroll(_grown, time_batched(self.pool, counts), (state.largest,))
        return out.to(x.dtype), PooledState(count, largest)


def _counted(x: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
    count = state[0] + x
    return count, (count,)


def _grown(x: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
    return x - state[0], (x,)


@checks.arguments
def ann_to_snn(model: nn.Module, images: Tensor, percentile: float = 99.9, *, v_init: float = 0.5) -> Sequential:
    """Convert a trained network of PyTorch layers to a spiking one, by data-based normalisation::

        snn = interop.ann_to_snn(ann, images[:1000])
        out, state = snn(encode.repeat(images, 32))     # out [T, B, classes]
        loss.accuracy(out, labels)

    The last layer does not spike: ``out.mean(0)`` estimates the logits of ``model``, and ``out.sum(0)`` is what output
    neurons without a threshold would have integrated. More steps come closer; with ``state`` a call goes on where
    another stopped. Images are currents in each step (``encode.repeat``), and biases are added in each step.

    ``torch.fx`` traces the forward of ``model`` in evaluation mode, so calls such as ``F.relu(x)``, ``x.view(…)`` and
    ``x + y`` are seen. What becomes of

    - ``Linear``, ``Conv1d`` to ``Conv3d``: the same with scaled weights, a batch norm after it folded into it. A batch
      norm elsewhere becomes a layer of its own, with one weight per channel;
    - ``ReLU``, ``ReLU6``: ``PrechargedIF`` neurons; average pooling: the same; max pooling: ``CountMaxPool``;
    - flattening, reshaping: ``Flatten``, ``Unflatten``; dropout, ``Identity``: nothing;
    - sums: a ``Graph`` of the layers from where the branches part to where they join, scaled to one unit;
    - softmax and log-softmax at the end: nothing, as the largest output stays the largest.

    Everything else is refused.

    Args:
        model: returns logits [B, classes] for images [B, ...]. It does not change.
        images: [N, ...] as ``model`` takes them; some hundreds of those it was trained with, to measure activations.
        percentile: of all activations of a layer, zeros included, that a rate of 1 represents, in (0, 100]. Larger ones
            are clipped. 100 clips none, and makes all rates low where one activation is large.
        v_init: where membranes begin, in thresholds, in [0, 1): 0.5 is best after few steps.

    Returns:
        ``out, state = snn(x, state=None)`` in evaluation mode, with the dtype and on the device of ``model``.

    Raises:
        TypeError: a layer can't be converted; the message begins with its name. ``model`` can't be traced.
        ValueError: images don't fit, a layer is never active, there is no ReLU, or the last layer is one.
    """
    percentile = checks.number("percentile", percentile, above=0, at_most=100)
    v_init = checks.number("v_init", v_init, at_least=0, below=1)
    checks.copyable("model", model)
    checks.values("model", model)
    _check_stateless(model)
    _check_images(images, model)
    with torch.no_grad():
        layers = _read(copy.deepcopy(model).eval(), images)
        _measure(layers, images, percentile)
        return _spiking(layers, images, v_init).eval()


def _check_stateless(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, (Neuron, nn.RNNBase, nn.RNNCellBase)) or is_stateful(module):
            where = f"layer {name}" if name else "model"
            raise TypeError(f"{where} ({type(module).__name__}) can't become spikes: it keeps a state")


def _check_images(images: Tensor, model: nn.Module) -> None:
    if images.dtype == torch.uint8:
        raise TypeError("images must be floating point, but they are uint8: use data.to_unit(images)")
    weight = next((p for p in model.parameters() if p.is_floating_point()), images)
    if not images.is_floating_point() or images.dtype != weight.dtype:
        dtype = "floating point" if weight is images else f"{weight.dtype}, as model is"
        raise TypeError(f"images must be {dtype}, but they are {images.dtype}")
    if images.device != weight.device:
        raise ValueError(f"images must be on {weight.device}, as model is, but they are on {images.device}")
    if images.ndim < 2 or images.numel() == 0:
        raise ValueError(f"images must be [N, ...] and not empty, but their shape is {list(images.shape)}")
    if not images.isfinite().all():
        raise ValueError("images must be finite, but they contain NaN or infinity")


# --- reading the network ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Layer:
    """A layer of the network, with batch norms folded: its input is the sum of the outputs of its sources."""

    name: str  # in messages
    module: nn.Module  # on [B, ...]
    sources: list[_Layer]
    shape: torch.Size  # of its output, with the batch
    scale: float = 1.0  # of the activations of a ReLU: what a rate of 1 represents


def _read(model: nn.Module, images: Tensor) -> list[_Layer]:
    """The layers of ``model``, which is a copy, in order; the first represents the images.

    TypeError: one of them can't be converted.
    """
    owner = type(model).__name__
    try:
        reader = _Reader(fx.symbolic_trace(model), owner)
    except Exception as error:  # of the user's own code, which got a stand-in for a tensor
        raise TypeError(
            f"model must have a forward that torch.fx can trace, without decisions on values, but that of {owner} is "
            f"not: {_first_line(error)}"
        ) from error
    batch = images[:_BATCH]
    layers = _folded(reader.read(batch))
    if not any(_is_relu(layer) for layer in layers):
        raise ValueError("model must have a ReLU, whose activations become rates, but it has none")
    if _is_relu(layers[-1]):
        raise ValueError(f"the last layer of model must give logits, but it is {layers[-1].name}: leave it out")
    whole = model(batch)
    for module in model.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    *_, (_, logits) = _values(layers, batch)
    for value, right in ((reader.result, whole), (logits, reader.logits)):
        if not right.isfinite().all():
            raise ValueError("model must give finite outputs for images, but some are NaN or infinite")
        if value.shape != right.shape or not torch.allclose(value, right, rtol=0, atol=_tolerance(right)):
            raise ValueError(
                f"model must do what its layers do, but the forward of {owner} gives other outputs: it has hooks, "
                "is random in evaluation mode, or changes a tensor in place that it uses again"
            )
    return layers


def _is_relu(layer: _Layer) -> bool:
    return isinstance(layer.module, (nn.ReLU, nn.ReLU6))


def _tolerance(wanted: Tensor) -> float:
    return 10 * torch.finfo(wanted.dtype).eps ** 0.5 * float(wanted.abs().max())


class _Reader(fx.Interpreter):
    """Runs a traced model once, and notes its layers."""

    def __init__(self, traced: fx.GraphModule, owner: str) -> None:
        super().__init__(traced)
        self.extra_traceback = False  # which would be added to messages
        self.owner = owner
        self.layers: list[_Layer] = []
        self.places: dict[fx.Node, _Layer] = {}  # the layer whose output is the value of a node
        self.logits: Any = None  # the output, before a softmax

    def read(self, images: Tensor) -> list[_Layer]:
        """The layers that the output depends on."""
        self.run(images)
        needed = {self.end}
        for layer in reversed(self.layers):
            needed.update(layer.sources if layer in needed else ())
        return [layer for layer in self.layers if layer in needed]

    def run_node(self, n: fx.Node) -> Any:
        where = self.named(n)
        try:
            value = super().run_node(n)
        except Exception as error:  # of PyTorch, or of the user's own code
            raise ValueError(f"images must fit model, but {where} can't take them: {_first_line(error)}") from error
        if n.op == "output":
            if not isinstance(value, Tensor) or n.args[0] not in self.places:
                raise TypeError(f"model must return a tensor of logits, but it returned {checks.shown(value)}")
            self.end = self.places[n.args[0]]  # type: ignore[index]
            self.result, self.logits = value, value if self.logits is None else self.logits
        elif n.op != "get_attr" and any(isinstance(part, Tensor) for part in tree_leaves(value)):  # no size
            self.places[n] = self.place(n, where, value)
        return value

    def named(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"layer {node.target} ({type(self.fetch_attr(node.target)).__name__})"  # type: ignore[arg-type]
        return f"{node.name} in the forward of {self.owner}"

    def place(self, node: fx.Node, where: str, value: Any) -> _Layer:
        """The layer whose output is ``value``: a new one, or that of the input if the node changes nothing."""
        if node.op == "placeholder":
            return self.noted("images", nn.Identity(), [], value.shape)
        layer = self.fetch_attr(node.target) if node.op == "call_module" else None  # type: ignore[arg-type]
        kind = node.target if layer is None else type(layer)
        sources = [self.places[one] for one in node.all_input_nodes if one in self.places]
        if isinstance(value, Tensor) and sources:
            if value.shape[:1] != self.layers[0].shape[:1]:
                made = f"{list(value.shape)} of images {list(self.layers[0].shape)}"
                raise ValueError(f"{where} must keep the batch as the first dimension, but it made {made}")
            if len(sources) == 2 and kind in _SUMS and not node.kwargs:
                return self.noted(where, nn.Identity(), sources, value.shape)
            if len(sources) == 1 and (kind in _SAME or isinstance(layer, _DropoutNd)):
                return sources[0]
            if len(sources) == 1 and kind in _ENDS and all(user.op == "output" for user in node.users):
                self.logits = self.env[node.all_input_nodes[0]]
                return sources[0]
            if len(sources) == 1 and kind in _RESHAPES and value.dim() > 1:
                return self.reshaped(where, sources[0], value.shape)
            if len(sources) == 1 and (module := self.module_of(kind, layer, node)) is not None:
                return self.noted(where, module, sources, value.shape)
        raise TypeError(f"{where} can't become spikes: {_POSSIBLE}")

    def noted(self, where: str, module: nn.Module, sources: list[_Layer], shape: torch.Size) -> _Layer:
        self.layers.append(_Layer(where, module, sources, shape))
        return self.layers[-1]

    def reshaped(self, where: str, source: _Layer, shape: torch.Size) -> _Layer:
        """The same numbers in the same order."""
        if len(source.shape) > 2 and source.shape != shape:
            source = self.noted(where, nn.Flatten(), [source], torch.Size((shape[0], shape[1:].numel())))
        return source if source.shape == shape else self.noted(where, nn.Unflatten(1, shape[1:]), [source], shape)

    def module_of(self, kind: Any, layer: nn.Module | None, node: fx.Node) -> nn.Module | None:
        """What a layer or function of one tensor is as a module; None if it can't be converted."""
        pools = _AVERAGES | _MAXIMA
        if kind in _RELUS:
            return _RELUS[kind]()
        if layer is not None:
            return layer if kind in (*_LINEAR, *_NORMS, *pools.values()) else None
        if kind in pools:
            (_, *sizes), options = self.fetch_args_kwargs_from_env(node)
            # Beyond these, functions and modules have their arguments in different orders.
            return pools[kind](*sizes, **options) if len(sizes) <= 4 else None
        return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _used(layers: list[_Layer]) -> Counter[_Layer]:
    """How often each layer is a source."""
    return Counter(source for layer in layers for source in layer.sources)


def _values(layers: list[_Layer], images: Tensor) -> Iterator[tuple[_Layer, Tensor]]:
    """Each layer and its output [B, ...], in order. An output that is not needed any more is freed."""
    uses, outputs = _used(layers), {}
    for layer in layers:
        first, *others = [outputs[source] for source in layer.sources] or [images]
        outputs[layer] = layer.module(sum(others, first))
        yield layer, outputs[layer]
        for source in layer.sources:
            uses[source] -= 1
            if not uses[source]:
                del outputs[source]


def _folded(layers: list[_Layer]) -> list[_Layer]:
    """The same without batch norms: y = γ (x - mean) / √(var + ε) + β is a scale and a shift of each channel."""
    uses, folded = _used(layers), list(layers)
    for layer in layers:
        norm = layer.module
        if not isinstance(norm, _BatchNorm):
            continue
        if norm.running_mean is None or norm.running_var is None:
            raise ValueError(f"{layer.name} must have the statistics of its training, but track_running_stats is False")
        scale = (norm.running_var + norm.eps).rsqrt() * (1 if norm.weight is None else norm.weight)
        shift = (0 if norm.bias is None else norm.bias) - norm.running_mean * scale
        (before,) = layer.sources
        # The features of a Linear are its channels only where nothing is between them and the batch.
        features = not isinstance(before.module, nn.Linear) or len(before.shape) == 2
        if uses[before] == 1 and isinstance(before.module, _LINEAR) and features:
            layer.module = _scaled(before.module, scale, shift)
            layer.sources = before.sources
            folded.remove(before)
        else:
            layer.module = _per_channel(scale, shift, layer.shape)
    return folded


def _scaled(layer: Any, scale: Tensor | float, shift: Tensor | float = 0.0, unit: float = 1.0) -> nn.Module:
    """A linear layer that gives scale * y + shift of x / unit, where ``layer`` gives y of x."""
    weight, bias = layer.weight, layer.bias
    factor = torch.as_tensor(scale, dtype=weight.dtype, device=weight.device)
    made = copy.deepcopy(layer)
    made.weight = nn.Parameter(weight * (factor * unit).reshape(-1, *[1] * (weight.dim() - 1)))
    if bias is not None or isinstance(shift, Tensor):
        made.bias = nn.Parameter(torch.as_tensor(shift if bias is None else bias * factor + shift))
    return made


def _per_channel(scale: Tensor, shift: Tensor | None, shape: torch.Size) -> nn.Module:
    """A layer that multiplies each channel of [B, C, ...] by its own factor, and adds its own number."""
    channels, places = shape[1], len(shape) - 2
    options: dict[str, Any] = {"bias": shift is not None, "dtype": scale.dtype, "device": scale.device}
    if places:
        made: Any = _LINEAR[places](channels, channels, 1, groups=channels, **options)  # type: ignore[call-arg]
        made.weight.copy_(scale.reshape(made.weight.shape))
    else:
        made = nn.Linear(channels, channels, **options)
        made.weight.copy_(scale.diag())
    if shift is not None:
        made.bias.copy_(shift)
    return made


# --- rates ------------------------------------------------------------------------------------------------------------


def _measure(layers: list[_Layer], images: Tensor, percentile: float) -> None:
    """Set the scale of each ReLU: the smallest activation that at least so many percent do not exceed."""
    counts = {layer: len(images) * layer.shape[1:].numel() for layer in layers if _is_relu(layer)}
    # Only the largest activations are stored, of which the smallest is the percentile.
    stored = {layer: count - math.ceil(count * percentile / 100) + 1 for layer, count in counts.items()}
    largest = {layer: images.new_empty(0) for layer in counts}
    for batch in images.split(_BATCH):
        for layer, value in _values(layers, batch):
            if layer in counts:
                both = torch.cat([largest[layer], value.flatten()])
                largest[layer] = both.topk(min(stored[layer], len(both)), sorted=False).values
    for layer, top in largest.items():
        if not top.max() > 0:
            raise ValueError(f"{layer.name} must be active for some of images, but all its activations are 0")
        layer.scale = float(top.min())
        if layer.scale == 0:
            raise ValueError(f"percentile must be larger, as {percentile:g} % of the activations of {layer.name} are 0")


def _spiking(layers: list[_Layer], images: Tensor, v_init: float) -> Sequential:
    """The spiking network: each output of a layer is in a unit, what a spike or a current of 1 represents."""
    # Linear layers give their output in the unit of the ReLU that they lead to, and the logits in 1.
    wanted: dict[_Layer, float] = {}
    for layer in reversed(layers):
        unit = wanted.setdefault(layer, 1.0)
        for source in layer.sources if not isinstance(layer.module, _LINEAR) else ():
            wanted.setdefault(source, layer.scale if _is_relu(layer) else unit)
    modules: list[nn.Module] = [nn.Identity()]  # for the images
    inputs: list[list[int]] = [[]]
    units, places = [1.0], {layers[0]: 0}

    def add(module: nn.Module, sources: list[int], unit: float) -> int:
        modules.append(module)
        inputs.append(sources)
        units.append(unit)
        return len(modules) - 1

    def in_unit(source: _Layer, unit: float) -> int:
        place = places[source]
        if units[place] == unit:
            return place
        factors = images.new_full((source.shape[1],), units[place] / unit)
        return add(_per_channel(factors, None, source.shape), [place], unit)

    for layer in layers[1:]:
        module, place = layer.module, places[layer.sources[0]]
        if isinstance(module, _LINEAR):
            module = _scaled(module, 1 / wanted[layer], unit=units[place])
            places[layer] = add(module, [place], wanted[layer])
        elif _is_relu(layer):
            places[layer] = add(PrechargedIF(v_init), [in_unit(layer.sources[0], layer.scale)], layer.scale)
        elif len(layer.sources) > 1:
            sources = [in_unit(source, wanted[layer]) for source in layer.sources]
            places[layer] = add(nn.Identity(), sources, wanted[layer])
        else:
            module = copy.deepcopy(module)
            places[layer] = add(
                CountMaxPool(module) if type(module) in _MAXIMA.values() else module, [place], units[place]
            )
    in_unit(layers[-1], 1.0)
    return _connected(modules, inputs)


def _connected(modules: list[nn.Module], inputs: list[list[int]]) -> Sequential:
    """All but the first, which is the input: one after the other, and a ``Graph`` for each part that branches."""
    parts: list[nn.Module] = []
    start = 0
    for end in range(1, len(modules)):
        if any(source < end for sources in inputs[end + 1 :] for source in sources):
            continue  # a branch goes past this one
        if end == start + 1:
            parts.append(modules[end])
        else:
            names = {start: INPUT} | {i: str(i - start - 1) for i in range(start + 1, end + 1)}
            edges = [(names[source], names[i]) for i in range(start + 1, end + 1) for source in inputs[i]]
            layers = {names[i]: modules[i] for i in range(start + 1, end + 1)}
            parts.append(Graph(layers, [*edges, (names[end], OUTPUT)]))
        start = end
    return Sequential(*parts)
