"""Looking inside a network: what its neurons did (``recording``), and what it does without some of them (``ablate``).

Both are contexts around calls of any module that has neurons in it. Nothing is stored in the neurons, so the network
runs as fast as before, and may be copied meanwhile::

    with nn.recording(net, states=True) as rec:
        out, state = net(x)
    rec.spikes["1"]       # [T, B, ...]
    rec.states["1"].v     # the membrane after every step

    with nn.ablate(net, {"1": torch.arange(100) >= 20}):  # without the first 20 of 100 neurons
        out, state = net(x)
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from snnkit import checks
from snnkit.engine.observe import Seen, changed, observed
from snnkit.neuron import Neuron

__all__ = ["ablate", "recording"]

_CALL = "so call neuron(x[None], state) for a single step"

# The names under which wrappers of PyTorch (compiled, sharded, checkpointed) hold their module.
_WRAPPED = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


class _Part(NamedTuple):
    """A pass of a neuron, or several that follow each other in time."""

    out: Tensor
    states: Any
    last: Any
    spiking: bool


class _ByLayer(dict[str, Any]):
    """Of each layer by its name. ``advice``: what to do if there is none."""

    def __init__(self, layers: Mapping[str, Any], advice: str = "") -> None:
        super().__init__(layers)
        self.advice = advice

    def __missing__(self, name: Any) -> Any:
        known = ", ".join(map(repr, self)) or "none"
        raise KeyError(f"layer must be one of those recorded ({known}), but it is {name!r}{self.advice}")


class Activity:
    """What the neurons of a network did in its last call; made by ``recording``."""

    def __init__(self, names: Mapping[int, str], states: bool) -> None:
        self._names, self._with_states = names, states
        self._uses: dict[str, list[str]] = {}  # name -> keys of its uses in order
        self._parts: dict[str, list[_Part]] = {}  # key -> passes that follow each other in time

    @property
    def spikes(self) -> Mapping[str, Tensor]:
        """Name of a layer to its spikes [T, B, ...], in order of execution: the tensors that the next layers got (of a
        layer that ran in parts, these joined). Neurons that do not spike, such as ``LI``, are not among them."""
        return _ByLayer({key: part.out for key, part in self._whole("spikes").items() if part.spiking})

    @property
    def states(self) -> Mapping[str, Any]:
        """Name of a layer to its state after every step: a NamedTuple of the neuron's type whose parts are
        [T, B, ...], in the state's dtype. A loss may depend on them. Empty without ``states=True``."""
        if not self._with_states:
            advice = "; states are recorded by recording(net, states=True), in training by record_states=True"
            return _ByLayer({}, advice)
        return _ByLayer({key: part.states for key, part in self._whole("states").items()})

    def _whole(self, what: str) -> dict[str, _Part]:
        if not self._parts:
            raise RuntimeError(
                f"{what} of a recording can be read once the network has run in its context, but no neuron of it has: "
                f"one whose step is called is not seen, {_CALL}"
            )
        for parts in self._parts.values():
            if len(parts) > 1:
                outs, states, *_ = zip(*parts, strict=True)
                every = states[0]
                if self._with_states:
                    every = getattr(type(every), "_make", tuple)(map(torch.cat, zip(*states, strict=True)))
                parts[:] = [parts[-1]._replace(out=torch.cat(outs), states=every)]
        return {key: parts[0] for key, parts in self._parts.items()}

    def _clear(self) -> None:
        self._uses, self._parts = {}, {}

    def _note(self, seen: Seen) -> None:
        name = self._names[id(seen.step)]
        keys = self._uses.setdefault(name, [])
        part = _Part(seen.out, seen.states, seen.last, seen.step.spiking)
        if keys and _goes_on(self._parts[keys[-1]][-1].last, seen.before):
            self._parts[keys[-1]].append(part)
        else:
            keys.append(f"{name}#{len(keys) + 1}" if keys else name)
            self._parts[keys[-1]] = [part]


def _goes_on(last: Any, before: Any) -> bool:
    """Whether a pass begins with the very state in which the one before it ended."""
    return len(last) == len(before) > 0 and all(a is b for a, b in zip(last, before, strict=True))


@checks.arguments
def recording(net: nn.Module, *, states: bool = False) -> AbstractContextManager[Activity]:
    """A context that keeps the spikes and, with ``states=True``, the states of all neurons in ``net``::

        with nn.recording(net, states=True) as rec:
            out, state = net(x)
        rec.spikes["1"], rec.states["1"].v    # [T, B, ...], by the name of the layer

    The last call of ``net`` in the context counts. Layers have the names of ``net.named_modules()``, without what
    wrappers (``torch.compile``, ``DistributedDataParallel``) put in between; a neuron that is ``net`` itself is
    "(model)". A neuron that receives its sequence in parts, each with the state that the part before returned, has one
    entry over all of it (``Recurrent`` does this); a neuron that is used again from another state has a further entry:
    "3.lif", then "3.lif#2".

    Spikes cost nothing but the memory that they stay in. States are written by the engine that runs the neuron, one
    float32 (or float64) per neuron, step and part of the state. All take part in autograd.

    In the context, compiled models run uncompiled, and ``optimize_memory_usage`` saves no memory. It sees this thread
    and those that record nothing themselves; not a neuron whose ``step`` is called, the replicas of ``DataParallel``,
    or what a captured CUDA graph repeats. ``backward`` may come after it, through activation checkpoints, too.

    Args:
        net: any module with neurons in it.
        states: whether to keep the state after every step.

    Raises:
        ValueError: there is no neuron in ``net``.
    """
    return _recording(net, Activity({id(neuron): name for name, neuron in neurons_of("net", net).items()}, states))


@contextmanager
def _recording(net: nn.Module, activity: Activity) -> Iterator[Activity]:
    with observed(activity._note, activity._names, activity._with_states, _uncompiled) as observer:
        handle = _bare(net).register_forward_pre_hook(_Start(observer, activity._clear))
        try:
            yield activity
        finally:
            handle.remove()


class _Start:
    """Called before each call of a network. In a copy of the network, or after pickling, it does nothing."""

    def __init__(self, observer: observed | None = None, clear: Callable[[], None] | None = None) -> None:
        self.observer, self.clear = observer, clear

    def __call__(self, module: nn.Module, args: tuple) -> None:
        if self.observer is not None and self.clear is not None and self.observer.looks():
            self.clear()

    def __reduce__(self) -> tuple[type[_Start], tuple[()]]:
        return _Start, ()


@checks.arguments
def ablate(module: nn.Module, mask: Tensor | Mapping[str, Tensor]) -> AbstractContextManager[None]:
    """A context in which spikes of ``module`` are multiplied by ``mask``: 0 or False silences a neuron.

    The neuron itself goes on as before: it integrates and resets, but what it hands on is masked. Masks of contexts
    within each other multiply, and a ``recording`` shows the masked spikes. A mask may need a gradient. It holds for
    all threads. In the context, compiled models run uncompiled, and ``optimize_memory_usage`` saves no memory.
    ``backward`` may come after it, but through an activation checkpoint with ``use_reentrant=True`` it must be called
    in it. It does not change what ``neuron.step`` returns where that is called; a warning tells of a mask that was not
    used.

    Args:
        module: a neuron, or any module with neurons in it.
        mask: for a neuron, a bool or floating-point tensor that broadcasts against a step [B, ...]; else a dict from
            names of neurons (as in ``recording``) to such tensors.

    Raises:
        TypeError, ValueError: a mask of another dtype, with a NaN or infinity, or for a neuron that is not there; or,
            in the call, one that doesn't broadcast, is on another device, or is floating point where spikes are bytes.
    """
    if isinstance(mask, Tensor):
        if not isinstance(module, Neuron):
            raise TypeError(
                f"mask must be a dict from names of neurons to tensors, as module is a {type(module).__name__}, no "
                "neuron, but it is a tensor"
            )
        masks = [(module, _Mask(f"mask of {type(module).__name__}", mask))]
    else:
        neurons = neurons_of("module", module)
        if unknown := [name for name in mask if name not in neurons]:
            raise ValueError(
                f"mask must hold names of neurons in module ({', '.join(neurons)}), but it holds {unknown[0]!r}"
            )
        masks = [(neurons[name], _Mask(f"mask of {name!r}", each)) for name, each in mask.items()]
    return _ablation(masks)


@contextmanager
def _ablation(masks: list[tuple[Neuron, _Mask]]) -> Iterator[None]:
    with ExitStack() as stack:
        for neuron, change in masks:
            stack.enter_context(changed(neuron, change, _uncompiled))
        yield
    for _, change in masks:
        if not change.used:
            warnings.warn(
                f"{change.name} changed nothing, as its neuron was not called in the context: one whose step is called "
                f"is not masked, {_CALL}",
                stacklevel=3,
            )


class _Mask:
    """Multiplies spikes [T, B, ...]; ``name`` is that of the mask in messages."""

    def __init__(self, name: str, mask: Tensor) -> None:
        checks.instance(name, mask, Tensor, "a torch.Tensor")
        if not (mask.dtype == torch.bool or mask.is_floating_point()):
            raise TypeError(f"{name} must be bool or floating point, but its dtype is {mask.dtype}")
        if not (mask.is_meta or mask.isfinite().all()):
            raise ValueError(f"{name} must be finite, but it holds a NaN or an infinity")
        self.name, self.mask, self.used = name, mask, False

    def __call__(self, spikes: Tensor) -> Tensor:
        self.used = True
        mask, step = self.mask, spikes.shape[1:]
        pairs = zip(reversed(mask.shape), reversed(step), strict=False)
        if mask.dim() > len(step) or any(size not in (1, full) for size, full in pairs):
            raise ValueError(
                f"{self.name} must broadcast against a step of its spikes, {list(step)}, but its shape is "
                f"{list(mask.shape)}"
            )
        if mask.device != spikes.device:
            raise ValueError(f"{self.name} must be on {spikes.device}, as its spikes are, but it is on {mask.device}")
        if mask.is_floating_point() and not spikes.is_floating_point():
            raise TypeError(f"{self.name} must be bool where spikes are bytes (out_dtype), but it is {mask.dtype}")
        return spikes * mask.to(spikes.dtype)


class _Uncompiled:
    """A context in which what ``torch.compile`` has compiled runs as it was written: compiled code can't be watched.

    PyTorch has one setting for all threads, so the first to enter makes it and the last to leave takes it back.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.stance = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self.lock:
            if self.stance is None and "torch._dynamo" in sys.modules:  # else nothing has been compiled
                try:
                    self.stance = torch.compiler.set_stance("force_eager")
                except RuntimeError:
                    raise RuntimeError(
                        "recording and ablate must be entered outside of what torch.compile compiles; write the "
                        "context around the call of the compiled function"
                    ) from None
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside and self.stance is not None:
                self.stance.__exit__(None, None, None)
                self.stance = None


_uncompiled = _Uncompiled()


def neurons_of(argument: str, module: nn.Module) -> dict[str, Neuron]:
    """The neurons in ``module`` by name, without the wrappers on the way; ValueError if there are none."""
    neurons: dict[str, Neuron] = {}
    _collect(module, "", neurons, set())
    if not neurons:
        raise ValueError(f"{argument} must have a neuron in it, but {type(module).__name__} has none")
    return neurons


def _collect(module: nn.Module, name: str, neurons: dict[str, Neuron], seen: set[nn.Module]) -> None:
    """Add the neurons in ``module`` to ``neurons``, in the order of ``named_modules``."""
    if module in seen:
        return
    seen.add(module)
    if isinstance(module, Neuron):
        neurons[name or "(model)"] = module
    for piece, child in module._modules.items():
        if child is not None:
            inner = name if _wraps(module, piece) else f"{name}.{piece}" if name else piece
            _collect(child, inner, neurons, seen)


def _bare(module: nn.Module) -> nn.Module:
    """What is in the wrappers."""
    inner = [child for name, child in module._modules.items() if child is not None and _wraps(module, name)]
    return _bare(inner[0]) if inner else module


def _wraps(module: nn.Module, name: str) -> bool:
    """Whether ``module`` is a wrapper that holds the module itself under this name."""
    return name in _WRAPPED or (name == "module" and isinstance(module, (DataParallel, DistributedDataParallel)))
