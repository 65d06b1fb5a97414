"""Count what a training step computes and moves, without computing it: on tensors that have a shape and no values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ...neuron import Neuron
from ...nn import is_static
from ..checks import whole
from .trace import Trace
from .work import Work

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, foreach=False),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False),
}


def count(
    net: nn.Module,
    x: Tensor,
    targets: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    optimizer: str = "adam",
    name: str | None = None,
) -> Work:
    """What a training step of ``net`` asks of a machine, operation by operation, as eager PyTorch would run it.

    Everything happens on a copy on torch's "meta" device, so neither ``net`` nor a memory nor any time is needed.

    Args:
        net: called on x, gives out or (out, state).
        x: a batch [T, B, ...]; may be static (an expanded view), and may be on "meta".
        targets: of the batch, whose first dimension is B.
        loss: of (out, targets).
        optimizer: "adam" or "sgd" (with momentum).
        name: of the network; None: that of its class.

    Raises:
        TypeError: ``net``, ``x``, ``targets`` or ``loss`` is something else.
        ValueError: an unknown optimizer, shapes that don't fit, no scalar loss, a net without parameters, with lazy
            layers, compiled, or one that looks at values, which "meta" has not.
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
    for what, tensor in (("x", x), ("targets", targets)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} must be a torch.Tensor, but it is a {type(tensor).__name__}")
    if not callable(loss):
        raise TypeError(f"loss must be a function of (out, targets), but it is a {type(loss).__name__}")
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {', '.join(map(repr, OPTIMIZERS))}, but it is {optimizer!r}")
    if x.dim() < 2:
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")
    if not x.numel() or targets.shape[:1] != x.shape[1:2]:
        shapes = f"{list(x.shape)} and {list(targets.shape)}"
        raise ValueError(f"x and targets must be [T, B, ...] and [B, ...] with samples, but their shapes are {shapes}")
    if lazy := next((name for name, p in net.named_parameters() if is_lazy(p)), None):
        raise ValueError(f"net has no shape for {lazy} yet: call it once, so that its lazy layers are made")
    if any(hasattr(module, "_orig_mod") for module in net.modules()):
        raise ValueError("net is compiled by torch.compile: give the module itself, whose operations can be counted")
    shadow = copy.deepcopy(net).to("meta").train()
    for module in shadow.modules():
        if isinstance(module, Neuron):
            module.engine = "eager"
    parameters = [p for p in shadow.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(f"net must have parameters to train, but {type(net).__name__} has none")
    update = OPTIMIZERS[optimizer](parameters)
    given, labels = _shadow(x), targets.to("meta")

    def forward() -> Tensor:
        out = shadow(given)
        return loss(out[0] if isinstance(out, tuple) else out, labels)

    trace = Trace()
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        update.step()  # makes the optimizer's state, which later steps find
        update.zero_grad()
        with trace, trace.layers_of(shadow):
            with trace.saved():
                value = forward()
            trace.phase = "backward"
            if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
                raise ValueError(f"loss must return one scalar that has a gradient, but it returned {_told(value)}")
            value.backward()
            trace.phase = "optimizer"
            update.step()
    except (RuntimeError, NotImplementedError) as error:
        first = (str(error).splitlines() or [""])[0]
        if "meta" not in str(error).lower():
            raise ValueError(f"net and loss can't be run on x and targets: {first}") from error
        raise ValueError(
            f"net looks at values, so that its operations can't be counted without them: {first}"
        ) from error
    kept = sum(v.numel() for state in update.state.values() for v in state.values() if isinstance(v, Tensor))
    size = sum(p.numel() for p in parameters)
    return Work(
        name or type(net).__name__, x.shape[1], trace.finished(), tuple(trace.layers), size,
        (x[0] if is_static(x) else x).numel() * x.element_size() + targets.numel() * targets.element_size(),
        round(kept / size),
    )  # fmt: skip


def tutorial(
    batch: int = 128, hidden: int = 1000, steps: int = 25, inputs: int = 784, classes: int = 10, hoisted: bool = True
) -> Work:
    """The network of snnTorch's IPU tutorial: inputs-hidden-classes of ``Leaky``, cross-entropy of counts, Adam.

    The same image is shown at every step. ``hoisted``: the first layer's product is computed once, as ``snnkit.nn``
    does it; else at every step, as the tutorial is written. Compare like with like.

    Raises:
        ValueError, TypeError: a size that is no positive whole number.
    """
    sizes = {"batch": batch, "hidden": hidden, "steps": steps, "inputs": inputs, "classes": classes}
    for what, size in sizes.items():
        whole(what, size)
    if not isinstance(hoisted, bool):
        raise TypeError(f"hoisted must be True or False, but it is {hoisted!r}")
    return _tutorial(**sizes, hoisted=hoisted)


@lru_cache(maxsize=256)
def _tutorial(batch: int, hidden: int, steps: int, inputs: int, classes: int, hoisted: bool) -> Work:
    from ...loss import count_cross_entropy
    from ...models import mlp

    net = mlp((inputs, hidden, classes), engine="eager", flatten=False)
    x = torch.empty(batch, inputs, device="meta").unsqueeze(0).expand(steps, batch, inputs)
    labels = torch.empty(batch, dtype=torch.long, device="meta")
    name = f"{inputs}-{hidden}-{classes}"
    work = count(net, x if hoisted else x.contiguous(), labels, count_cross_entropy, name=name)
    # The image comes from outside once, however often it is multiplied.
    return replace(work, inputs=4 * batch * inputs + 8 * batch)


def count_layer(neuron: Neuron, steps: int, neurons: int, static: bool = False) -> Work:
    """Forward and backward of one layer of ``neurons`` by itself, whose input wants a gradient."""
    shadow = copy.deepcopy(neuron).to("meta")
    shadow.engine = "eager"
    x = torch.empty(neurons if static else (steps, neurons), device="meta", requires_grad=True)
    gradient = torch.empty(steps, neurons, device="meta")
    trace = Trace()
    with trace, trace.layers_of(shadow):
        with trace.saved():
            out, _ = shadow(x, repeat=steps if static else None)
        trace.phase = "backward"
        torch.autograd.grad(out, x, gradient)
    return Work(type(neuron).__name__, 1, trace.finished(), tuple(trace.layers), 0, 0, 0)


def _told(value: object) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"a tensor of shape {list(value.shape)}" if value.numel() != 1 else "one without a gradient"


def _shadow(x: Tensor) -> Tensor:
    if is_static(x):
        return x[0].to("meta").unsqueeze(0).expand(x.shape)
    return x.to("meta")
