"""Networks in the form that an IPU takes: plain operations, batch first, the loss inside the model.

PopTorch records the forward pass and lets PopART differentiate the recorded operations: the ``backward`` of a
``torch.autograd.Function`` is never called (its IPU and AutogradIPU dispatch keys fall back into the same recorder,
poptorch/source/dispatch_tracer/RegisterAtenOverloads.cpp, release 3.4, MIT). So the surrogate has to be part of the
forward pass: with h the step of 0 and 1, and s smooth, ``h + (s - s.detach())`` has the value of h and the gradient of
s. The state must stay inside the graph, and the batch must be the first dimension of all inputs and outputs, which
PopTorch splits into micro-batches. In a training model it takes for its loss each operation that it knows as one and
each result of ``poptorch.identity_loss``. A loss that another loss is made of is dropped; exactly one must remain
(poptorch/source/RemoveSurplusIdentityLosses.cpp).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ... import checks, models
from ...neuron import Neuron, Recurrent
from ...nn import Sequential, is_stateful
from ...surrogate import ATan, Surrogate


class Detached(Surrogate):
    """A surrogate in detach form: the spikes and the gradient of ``surrogate``, without an ``autograd.Function``.

    The smooth function is the tangent ``s = derivative(u.detach()) * u``, whose gradient is ``derivative(u)`` by
    construction, also for a surrogate without a closed primitive. As ``s - s.detach()`` is exactly 0 for finite ``u``
    in any rounding, spikes are exactly 0 or 1; ``(h - s).detach() + s`` would depend on rounding, which may be
    stochastic on an IPU.

    Raises:
        TypeError: ``surrogate`` is no ``Surrogate``.
    """

    def __init__(self, surrogate: Surrogate) -> None:
        self.surrogate = checks.instance("surrogate", surrogate, Surrogate, "a Surrogate such as ATan()")

    def __call__(self, u: Tensor, strict: bool = False) -> Tensor:
        step = (u > 0 if strict else u >= 0).to(u.dtype)
        smooth = self.surrogate.derivative(u.detach()) * u
        return step + (smooth - smooth.detach())

    def derivative(self, u: Tensor) -> Tensor:
        """That of the surrogate."""
        return self.surrogate.derivative(u)

    def primitive(self, u: Tensor) -> Tensor:
        """That of the surrogate."""
        return self.surrogate.primitive(u)

    def __repr__(self) -> str:
        return f"Detached({self.surrogate!r})"


_ATAN = Detached(ATan())


def leaky_step(
    mem: Tensor,
    x: Tensor,
    beta: float = 0.9,
    threshold: float = 1.0,
    surrogate: Callable[..., Tensor] = _ATAN,
) -> tuple[Tensor, Tensor]:
    """One step of snnTorch's ``Leaky`` with the state passed in and out, equal to ``snnkit.neuron.Leaky`` to the bit.

    mem ← beta mem + x - H(mem - threshold) threshold;  spike = H(mem - threshold)

    Args:
        mem: membrane before the step [B, ...].
        x: input current [B, ...].
        beta: decay per step.
        threshold: membrane above which it fires.
        surrogate: the spike function, called ``surrogate(u, strict=True)``.

    Returns:
        spike and membrane [B, ...].
    """
    fired = (mem > threshold).to(mem.dtype)
    mem = beta * mem + x - fired * threshold
    return surrogate(mem - threshold, strict=True), mem


class IPUNet(nn.Module):
    """A network of snnkit as one static graph: each call starts at rest, the time loop is unrolled in eager PyTorch.

    Made by ``convert``; the weights are those of the original network, so training one trains the other.
    """

    def __init__(self, net: nn.Module, steps: int | None) -> None:
        super().__init__()
        self.net = net
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        """x [B, ...], one image per sample (or [B, T, ...] without ``steps``), to out [B, T, ...]."""
        sequence = x.transpose(0, 1) if self.steps is None else x.expand(self.steps, *x.shape)
        return self.net(sequence)[0].transpose(0, 1)

    def extra_repr(self) -> str:
        return f"steps={self.steps}"


def convert(net: nn.Module, steps: int | None = None) -> IPUNet:
    """``net`` in the form that an IPU takes, with the same weights (shared, not copied).

    Spikes are equal to those of ``net`` to the bit, gradients up to the order of sums. ``net`` itself is not changed.

    Args:
        net: a ``snnkit.nn.Sequential`` (also nested) of neurons, ``Recurrent`` layers and layers without state.
        steps: x [B, ...] is one image per sample, shown so many times; None: x is a sequence [B, T, ...].

    Returns:
        A module from x to out [B, T, ...], batch first.

    Raises:
        TypeError: another kind of network, a layer with another kind of state, or a surrogate that is no
            ``Surrogate``; the message names the layer.
        ValueError: steps below 1.
    """
    checks.instance("net", net, nn.Module, "a torch.nn.Module")
    if steps is not None:
        checks.integer("steps", steps, at_least=1)
    if isinstance(net, IPUNet):
        raise TypeError("net must be the network itself, but it is converted already")
    converted = IPUNet(_converted(net if isinstance(net, (Sequential, Neuron)) else Sequential(net), "net"), steps)
    converted.training = net.training  # train() would change the layers, which belong to the original network
    return converted


def _converted(layer: nn.Module, name: str) -> nn.Module:
    """A copy without copies of tensors, whose neurons run in eager with a ``Detached`` surrogate."""
    if isinstance(layer, (Sequential, Recurrent, Neuron)):
        twin = layer.__new__(type(layer))
        twin.__dict__.update(vars(layer))
        for store in ("_parameters", "_buffers", "_modules"):
            twin.__dict__[store] = dict(vars(layer)[store])
        for key, part in layer._modules.items():
            if part is not None and not isinstance(layer, Neuron):
                twin._modules[key] = _converted(part, f"{name}.{key}")
        if isinstance(twin, Neuron):
            twin.engine = "eager"
            if twin.surrogate is not None and not isinstance(twin.surrogate, Detached):
                twin.surrogate = Detached(
                    checks.instance(f"surrogate of {name}", twin.surrogate, Surrogate, "a Surrogate")
                )
        return twin
    if is_stateful(layer):
        raise TypeError(
            f"{name} must be a neuron, Recurrent, Sequential or a layer without state, but {type(layer).__name__} has "
            "its own kind of state"
        )
    inner = next((path for path, part in layer.named_modules() if isinstance(part, (Neuron, Recurrent))), None)
    if inner is not None:
        raise TypeError(
            f"{name} must be a snnkit.nn.Sequential if it holds neurons ({inner}), but it is a {type(layer).__name__}, "
            "whose order of layers is not known"
        )
    return layer


def tutorial_net(sizes: tuple[int, ...] = (784, 1000, 10), *, beta: float = 0.9, steps: int | None = 25) -> IPUNet:
    """The network of snnTorch's IPU tutorial, converted: images [B, 784] to spikes [B, T, 10].

    Source: snnTorch's ``tutorial_ipu_1`` (Eshraghian et al. 2023, doi:10.1109/JPROC.2023.3308088): 784-1000-10
    ``Leaky`` neurons, 25 steps of the same image, batches of 128, cross-entropy of counts, Adam. Its script fails with
    SDKs from 3.0 on (snnTorch issue 236), as a neuron decides by a buffer's value in the forward pass. The tutorial
    gives its loss the membranes while its text says spikes; here they are spikes.

    Args:
        sizes: inputs, hidden neurons, classes.
        beta: decay per step, between 0 and 1.
        steps: how often an image is shown; None: sequences [B, T, ...] come in.
    """
    return convert(models.mlp(sizes, beta=beta, flatten=False), steps)


# --- The loss inside the model

# Called with (input, output) of every loss that is marked while the check records a model.
_watchers: list[Callable[[Tensor, Tensor], None]] = []


def identity_loss(x: Tensor, reduction: str = "none") -> Tensor:
    """Mark ``x`` as the loss to train on, as ``poptorch.identity_loss`` does; elsewhere just the reduction.

    Args:
        x: the loss, of any shape; after the reduction it should be a scalar.
        reduction: "mean", "sum" or "none".
    """
    checks.instance("x of identity_loss", x, Tensor, "a torch.Tensor")
    checks.choice("reduction of identity_loss", reduction, ("mean", "sum", "none"))
    poptorch = sys.modules.get("poptorch")  # once it is imported, a model may be on its way to an IPU
    if poptorch is not None and not _watchers:
        return poptorch.identity_loss(x, reduction=reduction)
    out = x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x
    for watch in _watchers:
        watch(x, out)
    return out


@contextmanager
def watching_losses(note: Callable[[Tensor, Tensor], None]) -> Iterator[None]:
    """Call ``note(input, output)`` for every loss that is marked meanwhile, by us or by ``poptorch``."""
    poptorch = sys.modules.get("poptorch")
    theirs = getattr(poptorch, "identity_loss", None)
    _watchers.append(note)
    if theirs is not None:
        poptorch.identity_loss = identity_loss  # type: ignore[union-attr]
    try:
        yield
    finally:
        _watchers.remove(note)
        if theirs is not None:
            poptorch.identity_loss = theirs  # type: ignore[union-attr]


class NotOneLoss(ValueError):
    """What a loss function returned is not one scalar tensor."""


class WithLoss(nn.Module):
    """A network and its loss as one model, as PopTorch trains it: ``out, loss = model(x, y)``, or ``out = model(x)``.

    Args:
        net: from x to out; an ``IPUNet`` gives spikes [B, T, C].
        loss: ``loss(out, y)`` to a scalar. For an ``IPUNet`` its out is [T, B, C], as ``snnkit.loss`` takes it.

    Raises:
        NotOneLoss: when called: loss did not return one scalar (a ValueError).
    """

    def __init__(self, net: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.net = checks.instance("net", net, nn.Module, "a torch.nn.Module")
        self.loss = checks.function("loss", loss)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """x [B, ...] to out; with the classes y [B], to out and the loss, a marked scalar."""
        out = self.net(x)
        if y is None:
            return out
        value = self.loss(out.transpose(0, 1) if isinstance(self.net, IPUNet) else out, y)
        if not isinstance(value, Tensor):
            what = f"{len(value)} values" if isinstance(value, (tuple, list)) else f"a {type(value).__name__}"
            raise NotOneLoss(f"loss must return one tensor, as an IPU trains on exactly one, but it returned {what}")
        if value.numel() != 1:
            raise NotOneLoss(f"loss must return a scalar, but its shape is {list(value.shape)}; reduce it (mean, sum)")
        return out, identity_loss(value, "none")


# --- PopTorch


class PopTorchMissing(ImportError):
    """PopTorch can't be imported here; the message says why and what would be needed."""


def poptorch_status() -> str:
    """Why PopTorch can't be imported, as a paragraph; an empty string if it can."""
    try:
        _poptorch()
    except PopTorchMissing as error:
        return str(error)
    return ""


def ipu_training_model(
    net: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    optimizer: Any = None,
    options: Any = None,
    *,
    steps: int | None = None,
) -> Any:
    """``poptorch.trainingModel`` of a network and its loss: called with a batch it trains one step on it.

    **Never run on an IPU**, only with a double of PopTorch's interface. The result is a ``PoplarExecutor``: ``out,
    loss = model(x, y)`` with out of the last micro-batch; ``model.copyWeightsToHost()`` copies the trained weights into
    ``net``, ``model.destroy()`` releases the IPU. x and y have ``options``' combined batch in their first dimension.

    Args:
        net: an ``IPUNet``; a network of snnkit, which is converted (its weights are trained); or a module of plain
            operations from x to out. ``check`` says whether it is ready for an IPU.
        loss: ``loss(out, y)`` to a scalar, out being [T, B, C] for networks of snnkit.
        optimizer: of ``poptorch.optim`` or an SGD, Adam, AdamW or RMSprop of PyTorch; None: ``poptorch.optim.Adam``
            with a learning rate of 0.001.
        options: ``poptorch.Options``; None: PopTorch's defaults, one micro-batch per call.
        steps: for a network of snnkit, how often an image is shown; None: x is a sequence [B, T, ...].

    Raises:
        PopTorchMissing: PopTorch can't be imported (an ImportError).
        TypeError, ValueError: as ``convert`` and ``WithLoss``; steps for another kind of net; an optimizer that
            PopTorch does not support, or that holds no parameter of net.
    """
    checks.instance("net", net, nn.Module, "a torch.nn.Module")
    ours = isinstance(net, (Neuron, Recurrent, Sequential))
    if steps is not None and not ours:
        raise ValueError(f"steps must be None unless net is a network of snnkit, but net is a {type(net).__name__}")
    poptorch = _poptorch()
    model = WithLoss(convert(net, steps) if ours else net, loss)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=1e-3) if optimizer is None else optimizer
    known = tuple(getattr(torch.optim, name) for name in ("SGD", "Adam", "AdamW", "RMSprop"))
    if lamb := getattr(poptorch.optim, "LAMB", None):
        known = (*known, lamb)
    checks.instance("optimizer", optimizer, known, "SGD, Adam, AdamW, RMSprop or poptorch.optim.LAMB")
    for option in ("amsgrad", "nesterov"):
        if any(group.get(option) for group in optimizer.param_groups):
            raise ValueError(f"{option} of {type(optimizer).__name__} must be False for PopTorch, but it is True")
    owned = {id(parameter) for parameter in model.parameters()}
    if not any(id(parameter) in owned for group in optimizer.param_groups for parameter in group["params"]):
        raise ValueError("optimizer must hold parameters of net, but it holds none of them: nothing would be trained")
    return poptorch.trainingModel(model, options=options, optimizer=optimizer)


def _poptorch() -> ModuleType:
    try:
        return importlib.import_module("poptorch")
    except (ImportError, AssertionError) as error:  # it asserts its PyTorch's version
        line = (str(error).splitlines() or ["no message"])[0][:200]
        raise PopTorchMissing(
            "PopTorch can't be imported, so nothing here can train on an IPU. Its last release, 3.4 of October 2023, "
            f"needs PyTorch 2.0.1 and Python 3.8 (here: PyTorch {torch.__version__}), an active Poplar SDK (source "
            "…/poplar-sdk/enable), which is distributed by graphcore.ai and not on PyPI, and an IPU. Without them, "
            f"snnkit.hardware.ipu.check says whether a model is ready for one. (import poptorch: "
            f"{type(error).__name__}: {line})"
        ) from error
