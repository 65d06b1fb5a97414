"""Count what a training step computes and moves, without computing it: on tensors that have a shape and no values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from ...neuron import Neuron
from ...nn import is_static
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
        TypeError: ``net``, ``x`` or ``targets`` is something else.
        ValueError: an unknown optimizer, a net without parameters, or one that looks at values, which "meta" has not.
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
    for what, tensor in (("x", x), ("targets", targets)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} must be a torch.Tensor, but it is a {type(tensor).__name__}")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {', '.join(map(repr, OPTIMIZERS))}, but it is {optimizer!r}")
    if x.dim() < 2:
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")
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
            value.backward()
            trace.phase = "optimizer"
            update.step()
    except (RuntimeError, NotImplementedError) as error:
        if "meta" not in str(error).lower():
            raise
        raise ValueError(
            f"net looks at values, so that its operations can't be counted without them: {str(error).splitlines()[0]}"
        ) from error
    kept = sum(v.numel() for state in update.state.values() for v in state.values() if isinstance(v, Tensor))
    size = sum(p.numel() for p in parameters)
    return Work(
        name or type(net).__name__, x.shape[1], trace.finished(), tuple(trace.layers), size,
        (x[0] if is_static(x) else x).numel() * x.element_size() + targets.numel() * targets.element_size(),
        round(kept / size),
    )  # fmt: skip


@lru_cache(maxsize=256)
def tutorial(
    batch: int = 128, hidden: int = 1000, steps: int = 25, inputs: int = 784, classes: int = 10, hoisted: bool = True
) -> Work:
    """The network of snnTorch's IPU tutorial: inputs-hidden-classes of ``Leaky``, cross-entropy of counts, Adam.

    The same image is shown at every step. ``hoisted``: the first layer's product is computed once, as ``snnkit.nn``
    does it; else at every step, as the tutorial is written. Compare like with like.

    Raises:
        ValueError, TypeError: a size that is no positive whole number.
    """
    from ...loss import count_cross_entropy
    from ...models import mlp

    for what, size in {"batch": batch, "steps": steps}.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"{what} must be a whole number, but it is {size!r}")
        if size < 1:
            raise ValueError(f"{what} must be at least 1, but it is {size}")
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


def _shadow(x: Tensor) -> Tensor:
    if is_static(x):
        return x[0].to("meta").unsqueeze(0).expand(x.shape)
    return x.to("meta")
