"""How ``optimize_memory_usage`` runs a network: cheap layers run again in backward, and spikes are saved as bits.

Between two convolutions, training saves the input of the neuron and, if PyTorch does the pooling (see ``pooling``), the
neuron's spikes and the places of the maxima in 64 bits. That is several times the bytes of the result, the pooled
spikes. Neurons need very little arithmetic, so only their input is saved, and backward computes them again: by itself
in the C++ engine, else by ``torch.utils.checkpoint``. Of a pooling's input, backward needs only the shape, and a place
within its window fits into a byte.

Neurons and pooling treat each sample by itself, so they run on a few samples at a time, forward and backward. So the
spikes at full resolution, the largest tensors of a network, never exist all at once; nor do they where a kernel pools
the outputs of its neurons itself (``nn.with_pooling``). The second computation uses the
same kernels and the same numbers, so gradients are equal to the bit. (Those of a neuron's own parameters are summed in
another order.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as all_modules
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.utils import _pair
from torch.utils.checkpoint import checkpoint

from snnkit import neuron as catalogue
from snnkit.device.spike_packing import packed_input
from snnkit.engine import NotElementwise, equation_of, inside_functional_transform
from snnkit.engine.memory_gate import is_watched
from snnkit.engine.observe import is_looked_into
from snnkit.engine.plan import planned
from snnkit.neuron import Neuron
from snnkit.nn import (
    Network,
    Once,
    Sequential,
    TimeBatched,
    is_hooked,
    runs_once,
    through,
    with_pooling,
)
from snnkit.pooling import max_pool
from snnkit.surrogate import Surrogate

POOLS = (nn.MaxPool2d, nn.AvgPool2d)
SHAPES = (nn.Flatten, nn.Identity)
WEIGHTED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear)

# Bytes of input to take at a time, at the least: enough to occupy the device, and to leave a neuron in the engine that
# it would have for all samples. And pieces that are enough: what is alive at once is then a small part of the whole.
PIECE = {"cpu": 2**22, "cuda": 2**26}
_MOST_PIECES = 16

# Neurons of this package; what is known of them is not known of their subclasses.
_CATALOGUE = {kind for kind in vars(catalogue).values() if isinstance(kind, type) and issubclass(kind, Neuron)}
_AT_REST = {kind.initial_state for kind in _CATALOGUE}
# What makes a neuron of this package another one, if it is set on the instance.
_PATCHED = {"step", "spike", "forward", "initial_state"}
_HOOKS_ON_ALL = (
    all_modules._global_forward_hooks,
    all_modules._global_forward_pre_hooks,
    all_modules._global_backward_hooks,
    all_modules._global_backward_pre_hooks,
)


@dataclass(frozen=True)
class MemorySaving:
    """The ``runner`` of a ``Sequential`` in ``optimize_memory_usage``."""

    recompute: bool = True  # neurons and pooling again in backward
    pack: bool = True  # spikes as bits
    steps: int | None = None  # at once, each chunk computed again in backward; None: all

    def __call__(self, net: Sequential, x: Tensor, state: tuple | None) -> tuple[Tensor, tuple]:
        """``net(x, state)`` in less memory."""
        plain = not isinstance(x, Tensor) or x.dim() < 2 or not len(x) or None in net._modules.values()
        if plain or any(_HOOKS_ON_ALL) or _is_transformed() or is_looked_into(net.modules()):
            return net.run_modules(x, state)
        if self.steps is not None and torch.is_grad_enabled() and len(x) > self.steps:
            check_over_time(net)
            return _over_time(net, x, state, self.steps)
        new = list(net.state_of_modules(state))
        step = x[0] if runs_once(x) else None
        order, at, is_done = [*stages(net, self)], 0, False  # whether the neuron before has pooled already
        for i, stage in enumerate(order):
            module = stage.modules[0]
            if is_done:
                is_done = False
            elif stage.recomputed:
                x, new[at] = _again(stage.modules, x, step, new[at])
                step = None
            elif net._stateful[stage.names[0]]:
                after = order[i + 1].modules[0] if i + 1 < len(order) else None
                x, new[at], is_done = with_pooling(module, after, x, step, new[at])
                step = None
            elif stage.packed and step is None and torch.is_grad_enabled():
                x = _with_bits(module, x, stage.names[0])
            else:
                x, step = through(module, x, step, stage.names[0])
            at += len(stage.names)
        return x, tuple(new)


@dataclass(frozen=True)
class Stage:
    """Modules of a ``Sequential`` that are run as one, in order."""

    names: tuple[str, ...]
    modules: tuple[Any, ...]
    recomputed: bool  # a neuron, and layers after it, that backward computes again
    packed: bool  # a weighted layer whose input is spikes, to be saved as bits


def stages(net: Sequential, settings: MemorySaving) -> Iterator[Stage]:
    """The stages, in order. A module with hooks is not computed again, because its hook expects whole tensors."""
    names: list[str] = list(net._modules)
    modules: list[Any] = list(net._modules.values())
    spikes = False
    while modules:
        recomputed = _recomputed(modules) if settings.recompute else 0
        count = max(recomputed, 1)
        packed = settings.pack and spikes and type(bare(modules[0])) in WEIGHTED
        yield Stage(tuple(names[:count]), tuple(modules[:count]), recomputed > 0, packed)
        for module in modules[:count]:
            spikes = _gives_spikes(module, spikes)
        del names[:count], modules[:count]


def _recomputed(modules: list[Any]) -> int:
    """How many of the first modules, a neuron and pooling or changes of shape after it, are computed again."""
    neuron = bare(modules[0])
    if not is_neuron(neuron) or why_not_again(neuron):  # type: ignore[arg-type]
        return 0
    count = 1
    while count < len(modules):
        layer = bare(modules[count])
        if type(layer) not in POOLS + SHAPES or getattr(layer, "return_indices", False):
            break
        count += 1
    # A compiled neuron alone saves no more than its input as it is.
    pools = any(type(bare(module)) in POOLS for module in modules[1:count])
    return count if pools or neuron.engine == "eager" else 0  # type: ignore[union-attr]


def bare(module: Any) -> nn.Module | None:
    """The module inside a ``TimeBatched``; None if a hook or an assigned ``forward`` changes it."""
    while type(module) in (TimeBatched, Once):
        if is_hooked(module):
            return None
        module = module.module
    parts = module.modules() if isinstance(module, Neuron) else (module,)
    return None if any(map(is_hooked, parts)) else module


def is_neuron(module: Any) -> bool:
    """Whether it is only its step over time."""
    return isinstance(module, Neuron) and type(module).forward is Neuron.forward and hasattr(module.State, "_fields")


def why_not_again(neuron: Neuron) -> str:
    """Why a second run, on a part of the batch, may differ from the first; empty if it can't.

    A step that draws random numbers, mixes samples or uses values in an ``if`` can't be traced; a step that can be
    traced is computed neuron by neuron. The state at rest of a class of your own may also do that, and it is not
    traced.
    """
    if type(neuron).initial_state not in _AT_REST or "initial_state" in vars(neuron):
        return "its initial_state is its own, which may differ when it is called again"
    rest = neuron.State(*(torch.zeros(()) for _ in neuron.State._fields))
    try:
        equation_of(neuron, rest, torch.float32, torch.device("cpu"))
    except NotElementwise as reason:
        return f"its step can't be computed again: {reason}"
    return ""


def left_alone(net: Sequential) -> list[str]:
    """Neurons that backward can't compute again, and why."""
    neurons = {name: module for name, module in ((n, bare(m)) for n, m in net._modules.items()) if is_neuron(module)}
    reasons = {name: why_not_again(neuron) for name, neuron in neurons.items()}  # type: ignore[arg-type]
    return [f"{type(neurons[name]).__name__} {name!r} is left as it is: {why}" for name, why in reasons.items() if why]


def _gives_spikes(module: nn.Module, spikes: bool) -> bool:
    """Whether the output is certainly spikes, if the input is or is not: of neurons, only of those of this package."""
    layer = bare(module)
    if isinstance(layer, Neuron):
        heaviside = isinstance(layer.surrogate, Surrogate) and type(layer.surrogate).__call__ is Surrogate.__call__
        ours = type(layer) in _CATALOGUE and not _PATCHED & vars(layer).keys()
        return layer.spiking and ours and heaviside
    return spikes and type(layer) in (nn.MaxPool2d, *SHAPES)


def _with_bits(module: nn.Module, x: Tensor, name: str) -> Tensor:
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype != torch.float64:
        # What the layer would do itself; done here, the tensor that it saves is known.
        x = x.to(torch.get_autocast_dtype(kind))
    with packed_input(x):
        return through(module, x, None, name)[0]


def _again(modules: tuple[Any, ...], x: Tensor, step: Tensor | None, state: Any) -> tuple[Tensor, Any]:
    """A neuron, to be computed again in backward, and the pooling after it, some samples at a time.

    Args:
        x: [T, B, ...], of which ``step`` [B, ...] is the only one if it is static.
    """
    neuron, *rest = (bare(module) for module in modules)
    assert isinstance(neuron, Neuron)
    steps, x = (0, x) if step is None else (len(x), step)
    tensors = [*neuron.parameters(), *neuron.buffers()]
    before = _versions(neuron)

    def run(x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        if _versions(neuron) != before:
            raise RuntimeError(
                f"a parameter or buffer of {type(neuron).__name__} was modified by an inplace operation, or replaced, "
                "between forward and backward, in which optimize_memory_usage computes it again"
            )
        given = neuron.State._make(state) if state else None
        out, last = neuron(x, given, repeat=steps) if steps else neuron(x, given)
        return out, *last

    dim = 0 if steps else 1
    batch = x.shape[dim]
    # Numbers with a batch dimension belong to samples.
    whole = any(t.dim() >= x.dim() - dim and t.shape[0] > 1 for t in tensors)
    pieces = 1 if whole else min(x.nbytes * max(steps, 1) // PIECE.get(x.device.type, PIECE["cuda"]), _MOST_PIECES)
    size = -(-batch // max(pieces, 1)) or 1
    parts = [part.split(size) for part in state or ()]
    results = []
    for piece, *given in zip(x.split(size, dim), *parts, strict=True):
        is_pooled = False
        if _saves_x_alone(neuron, piece, steps):
            whole, once = (piece.expand(steps, *piece.shape), piece) if steps else (piece, None)
            start = neuron.State._make(given) if given else None
            out, last, is_pooled = with_pooling(neuron, rest[0] if rest else None, whole, once, start)
        else:
            out, *last = checkpoint(run, piece, *given, use_reentrant=False, preserve_rng_state=False)  # type: ignore[misc]
        for module in rest[is_pooled:]:
            out = pooled(module, out) if type(module) in POOLS else through(module, out, None)[0]  # type: ignore[arg-type]
        results.append((out, *last))
    out, *last = zip(*results, strict=True)
    return _joined(out), neuron.State._make(part[0] if len(part) == 1 else torch.cat(part) for part in last)


def _saves_x_alone(neuron: Neuron, x: Tensor, steps: int) -> bool:
    """Whether the neuron's kernel computes all but ``x`` again by itself, so that a checkpoint would save nothing: it
    would run forward once more, and then its spikes would be alive beside their gradient."""
    if is_watched():
        return False
    known = planned(neuron.engine, neuron, x.expand(steps, *x.shape) if steps else x, None, False)
    return known is not None and known.plan.engine == "cpp"


def pooled(module: Any, x: Tensor) -> Tensor:
    """``x`` [T, B, ...] pooled. Saved are the shape of ``x``, and the place of each maximum within its window."""
    device, width = x.device, x.shape[-1]
    flat = x.flatten(0, 1)
    out = max_pool(module, flat) if isinstance(module, nn.MaxPool2d) else None
    if out is not None:
        return out.unflatten(0, x.shape[:2])

    def first(places: Tensor) -> Tensor:
        """The place where each window begins, [H', W']; below 0 in the padding."""
        stride, padding = _pair(module.stride), _pair(module.padding)
        rows, columns = (
            torch.arange(n, device=device) * stride[i] - padding[i] for i, n in enumerate(places.shape[-2:])
        )
        return rows[:, None] * width + columns

    def pack(tensor: Tensor) -> Tensor:
        if tensor.dtype == torch.int64:
            kernel, dilation = _pair(module.kernel_size), _pair(module.dilation)
            furthest = (kernel[0] - 1) * dilation[0] * width + (kernel[1] - 1) * dilation[1]
            return (tensor - first(tensor)).to(torch.uint8 if furthest < 2**8 else torch.int32)
        return torch.empty_like(tensor, device="meta")

    def unpack(saved: Tensor) -> Tensor:
        return torch.empty_like(saved, device=device) if saved.is_meta else saved.to(torch.int64) + first(saved)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return module(flat).unflatten(0, x.shape[:2])


def _joined(pieces: tuple[Tensor, ...]) -> Tensor:
    """[T, B, ...] of pieces of the batch, in their memory format."""
    if len(pieces) == 1:
        return pieces[0]
    if pieces[0].dim() == 5 and pieces[0].flatten(0, 1).is_contiguous(memory_format=torch.channels_last):
        return torch.cat([piece.permute(0, 1, 3, 4, 2) for piece in pieces], 1).permute(0, 1, 4, 2, 3)
    return torch.cat(pieces, 1)


def _versions(neuron: Neuron) -> list[tuple[int, int]]:
    tensors = (*neuron.parameters(), *neuron.buffers())
    return [(id(t), 0 if t.is_inference() else t._version) for t in tensors]


def check_over_time(model: nn.Module) -> None:
    """Raise ValueError if a batch norm takes its mean over time: chunks of time would change it."""
    for name, m in model.named_modules():
        if isinstance(m, _BatchNorm) and (m.training or m.running_mean is None):
            raise ValueError(
                f"steps can't be used with a batch norm that learns or has no running statistics ({name!r}): it takes "
                "its mean over all time steps at once. Give optimize_memory_usage steps=None (recompute=True saves as "
                "much), or call model.eval() on a model with running statistics"
            )


def check_goes_on(model: nn.Module, state: Any) -> None:
    """Raise ValueError if a module returned None for its state: it would start at rest in each chunk of time."""
    if isinstance(model, Network):
        for (name, module), part in zip(model._modules.items(), state, strict=True):
            if model._stateful[name] and part is None:
                raise ValueError(
                    f"steps can't be used with {type(module).__name__} {name!r}, which takes a state but returns None: "
                    "it would start at rest in each chunk; let it return its new state"
                )
            check_goes_on(module, part)  # type: ignore[arg-type]


def _over_time(net: Sequential, x: Tensor, state: tuple | None, steps: int) -> tuple[Tensor, tuple]:
    """Some steps at a time; what each chunk needs for backward is computed again when its turn comes."""
    outs, last = [], state
    for some in x.split(steps):
        out, last = checkpoint(net.run_modules, some, last, use_reentrant=False)  # type: ignore[misc]
        check_goes_on(net, last)
        outs.append(out)
    return torch.cat(outs), last  # type: ignore[return-value]


def _is_transformed() -> bool:
    """Whether the model is being compiled, which makes its own trade of memory and time, or is under a transform of
    ``torch.func``, which checkpoints don't support."""
    return torch.compiler.is_compiling() or inside_functional_transform()
