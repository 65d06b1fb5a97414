"""Training on an IPU through PopTorch, where there is one.

Written after the documentation and sources of PopTorch 3.4, the last release (October 2023, github.com/graphcore/
poptorch, MIT), and tested against a double of its interface. **It has never run on an IPU.** PopTorch 3.4 imports only
beside PyTorch 2.0.1 (Python 3.8) and an active Poplar SDK, which has to be asked for at graphcore.ai. This package
asks for newer ones of both, so **it can't be installed on such a machine**, and ``ipu_training_model`` is what it would
take there: a way to read, and one that the double can run. What does reach such a machine is the program that
``write_program`` writes: the network in plain PyTorch, its weights, and its training, without snnkit.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from .losses import WithLoss
from .model import IPUNet, convert

__all__ = ["PopTorchMissing", "ipu_training_model", "poptorch_status"]


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

    Never run on an IPU (see above). What comes back is PopTorch's ``PoplarExecutor``: ``out, loss = model(x, y)``
    with out of the last micro-batch; ``model.copyWeightsToHost()`` brings the trained weights into ``net``,
    ``model.destroy()`` gives the IPU back. x and y need ``options``' combined batch in their first dimension.

    Args:
        net: an ``IPUNet``; a network of snnkit, which is converted (its weights are trained); or a module of plain
            operations from x to out. ``check`` says whether it is fit for an IPU.
        loss: ``loss(out, y)`` to a scalar, out being [T, B, C] for networks of snnkit.
        optimizer: one of ``poptorch.optim`` or an optimiser of PyTorch of these kinds: SGD, Adam, AdamW, RMSprop;
            None: ``poptorch.optim.Adam`` with a learning rate of 0.001.
        options: ``poptorch.Options``; None: PopTorch's defaults, one micro-batch per call.
        steps: for a network of snnkit, how often a picture is shown; None: x is a sequence [B, T, ...].

    Raises:
        PopTorchMissing: PopTorch can't be imported (an ImportError).
        TypeError, ValueError: what ``convert`` and ``WithLoss`` refuse; steps for a net that is no network of snnkit;
            an optimiser that PopTorch has no counterpart of, or that holds no parameter of net.
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
    if steps is not None and (isinstance(net, IPUNet) or not _is_ours(net)):
        raise ValueError(f"steps can be given for a network of snnkit only, but net is a {type(net).__name__}")
    poptorch = _poptorch()
    model = WithLoss(convert(net, steps) if _is_ours(net) else net, loss)
    if optimizer is None:
        optimizer = poptorch.optim.Adam(model.parameters(), lr=1e-3)
    _check_optimizer(poptorch, optimizer)
    owned = {id(parameter) for parameter in model.parameters()}
    if not any(id(parameter) in owned for group in optimizer.param_groups for parameter in group["params"]):
        raise ValueError(
            "optimizer must hold parameters of net, but it holds none of them, so nothing would be trained"
        )
    return poptorch.trainingModel(model, options=options, optimizer=optimizer)


def _is_ours(net: nn.Module) -> bool:
    # Not imported here: they need a newer PyTorch than PopTorch runs with. Nets of ours bring them along.
    ours, layers = sys.modules.get("snnkit.neuron"), sys.modules.get("snnkit.nn")
    if ours is None or layers is None:
        return False
    return isinstance(net, (ours.Neuron, ours.Recurrent, layers.Sequential))


def _check_optimizer(poptorch: ModuleType, optimizer: Any) -> None:
    """PopTorch maps an optimiser by its class, and knows five."""
    import torch

    known = tuple(getattr(torch.optim, name) for name in ("SGD", "Adam", "AdamW", "RMSprop"))
    lamb = getattr(poptorch.optim, "LAMB", None)
    if not isinstance(optimizer, known if lamb is None else (*known, lamb)):
        raise TypeError(
            "optimizer must be SGD, Adam, AdamW, RMSprop or poptorch.optim.LAMB, which PopTorch has a counterpart of, "
            f"but it is a {type(optimizer).__name__}"
        )
    for group in optimizer.param_groups:
        for option in ("amsgrad", "nesterov"):
            if group.get(option):
                raise ValueError(f"{option} of {type(optimizer).__name__} is not supported by PopTorch; leave it out")


def _poptorch() -> ModuleType:
    try:
        return importlib.import_module("poptorch")
    except (ImportError, AssertionError) as error:  # it asserts its PyTorch's version
        import torch

        raise PopTorchMissing(
            "PopTorch can't be imported, so nothing here can train on an IPU. Its last release, 3.4 of October 2023, "
            f"needs PyTorch 2.0.1 (here: {torch.__version__}), an active Poplar SDK (source …/poplar-sdk/enable), "
            "which is given out at graphcore.ai and not on PyPI, and an IPU. Without them, snnkit.hardware.ipu.check "
            f"says whether a model is fit for one. (import poptorch: {type(error).__name__}: {_first_line(error)})"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["no message"])[0][:200]
