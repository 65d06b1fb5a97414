"""From a network of snnkit to a program that needs nothing of it: the way to a machine that PopTorch runs on.

PopTorch 3.4 wants PyTorch 2.0.1 and Python 3.8. This package wants newer ones of both, so its networks can't be taken
there; but what they compute can, written down in plain PyTorch, with their weights in a file beside it. The program is
compared with its network before anybody gets it: the same spikes, the same loss, the same gradients.
"""

from __future__ import annotations

import copy
import keyword
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .losses import WithLoss
from .model import IPUNet, convert
from .program_text import network_text, program_text
from .runs import quiet

__all__ = ["write_program"]

# The losses of snnkit.loss as they are called without options: expressions of out [T, B, C] and y [B].
_RIGHT = "(y.unsqueeze(1) == torch.arange(out.shape[2])).to(out.dtype)"
_LOSSES = {
    "count_cross_entropy": "F.cross_entropy(out.sum(0), y)",
    "rate_cross_entropy": "F.cross_entropy(out.flatten(0, 1), y.repeat(out.shape[0]))",
    "membrane_max_cross_entropy": "F.cross_entropy(out.max(0).values, y)",
    "count_mse": f"F.mse_loss(out.sum(0), out.shape[0] * {_RIGHT}) / out.shape[0]",
    "rate_mse": f"F.mse_loss(out.sum(0), out.shape[0] * {_RIGHT}) / out.shape[0] ** 2",
}


def write_program(
    net: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor] | str,
    example: tuple[Tensor, Tensor],
    path: str | Path,
    *,
    steps: int | None = None,
) -> tuple[Path, Path]:
    """Write ``net`` and its training on an IPU as a Python program that imports PyTorch and PopTorch alone.

    ``python PATH data.pt`` trains on a processor, with ``--ipu`` on an IPU; its first lines tell how. It is written for
    Python 3.8 and PyTorch 2.0.1, which PopTorch 3.4 wants, and has never run on an IPU. The trained weights come back
    into ``net`` by ``load_state_dict``.

    Args:
        net: as for ``convert``, in float32; layers without state must be those of ``torch.nn``.
        loss: one of ``snnkit.loss`` of (out [T, B, C], y [B]), or an expression of ``out`` and ``y`` as text, in which
            ``torch`` and ``F`` (torch.nn.functional) are known.
        example: (x, y) of one micro-batch: x [B, ...] with ``steps``, else [B, T, ...]; B at least 2.
        path: of the program; the weights go beside it, ending in ".pt".
        steps: how often a picture is shown; None: x is a sequence.

    Returns:
        The paths of the program and of the weights.

    Raises:
        TypeError: an argument of another kind, and what ``convert`` refuses.
        ValueError: something in ``net`` has no text; a loss that is not known; an example or a path that can't be; a
            program that does not compute what ``net`` does.
    """
    x, y = _checked(example)
    expression = _expression(loss)
    place = Path(path)
    name = place.stem
    if place.suffix != ".py" or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"path must be that of a Python module, such as 'on_ipu.py', but it is {str(path)!r}")
    if isinstance(net, IPUNet):
        raise TypeError("net is converted already: give write_program the network that it was made of")
    convert(net, steps)  # refuses what is no network, before anything is copied
    twin = copy.deepcopy(net).cpu().train()
    other = next((f"{key} is {t.dtype}" for key, t in twin.state_dict().items() if t.dtype.is_floating_point
                  and t.dtype != torch.float32), "")  # fmt: skip
    if other:
        raise ValueError(f"net must be in float32, but {other}")
    words = {"name": name, "version": _version(), "steps": steps, "batch": len(x)}
    with quiet():
        try:
            network = network_text(twin, convert(twin, steps), x)
        except RuntimeError as error:
            raise ValueError(f"net can't be run on x of example: {(str(error).splitlines() or [''])[0]}") from error
    text = program_text(network, expression, **words)
    _compare(text, twin, steps, expression, x, y)
    weights = place.with_suffix(".pt")
    place.write_text(text, encoding="utf-8")
    torch.save({key: value.detach().cpu() for key, value in net.state_dict().items()}, weights)
    return place, weights


def _checked(example: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(example, (tuple, list)) or len(example) != 2 or not all(isinstance(t, Tensor) for t in example):
        raise TypeError(f"example must be (x, y), two tensors, but it is {_kind(example)}")
    x, y = example
    if x.dtype != torch.float32:
        raise ValueError(f"x of example must be float32, but it is {x.dtype}")
    if x.dim() < 2 or y.dim() < 1 or len(x) != len(y) or len(x) < 2:
        shapes = f"{list(x.shape)} and {list(y.shape)}"
        raise ValueError(f"x and y of example must hold the same number of samples, at least 2, but they are {shapes}")
    return x.detach().cpu(), y.detach().cpu()


def _kind(example: Any) -> str:
    if isinstance(example, (list, tuple)):
        return f"{len(example)} values ({', '.join(type(t).__name__ for t in example)})"
    return f"a {type(example).__name__}"


def _expression(loss: Any) -> str:
    from ... import loss as losses
    from .tutorial import tutorial_loss

    known: dict[Any, str] = {getattr(losses, name): text for name, text in _LOSSES.items()}
    known[tutorial_loss] = _LOSSES["count_cross_entropy"]
    if isinstance(loss, str):
        try:
            compile(loss, "loss", "eval")
        except SyntaxError as error:
            raise ValueError(f"loss must be one expression of out and y, but it is {loss!r}: {error.msg}") from None
        return loss.strip()
    if not callable(loss):
        raise TypeError(f"loss must be a function of snnkit.loss or text, but it is a {type(loss).__name__}")
    try:
        return known[loss]
    except (KeyError, TypeError):
        choices = ", ".join(_LOSSES)
        told = getattr(loss, "__name__", repr(loss))
        raise ValueError(
            f"loss must be one of {choices}, or an expression as text, such as 'F.cross_entropy(out.sum(0), y)', but "
            f"it is {told}"
        ) from None


def _compare(text: str, twin: nn.Module, steps: int | None, loss: str, x: Tensor, y: Tensor) -> None:
    """ValueError unless the program computes what ``twin`` does: out to the bit, loss and gradients up to rounding."""
    space: dict[str, Any] = {"__name__": "written", "__file__": "written.py"}
    exec(compile(text, "the program", "exec"), space)
    with quiet():
        made = space["Net"]()
    weights = {key: value.clone() for key, value in twin.state_dict().items()}
    made.load_state_dict(weights)
    made.train()
    function = eval(f"lambda out, y: {loss}", space)
    results = []
    for model in (WithLoss(convert(twin, steps), function), space["WithLoss"](made)):
        with quiet():
            try:
                out, value = model(x, y)
            except Exception as error:
                raise ValueError(f"net and loss can't be run on example: {type(error).__name__}: {error}") from error
            owner = twin if not results else made
            named = {key: p for key, p in owner.named_parameters() if p.requires_grad}
            grads = torch.autograd.grad(value, list(named.values()), allow_unused=True) if named else ()
            results.append((out, value, dict(zip(named, grads, strict=True))))
    (out, value, grads), (other_out, other_value, other_grads) = results
    if not torch.equal(out, other_out):
        raise ValueError("the program gives other spikes than net, so it is not written: a step reads something else?")
    if not torch.allclose(value, other_value):
        raise ValueError(f"the program's loss is {float(other_value)}, that of net {float(value)}: not written")
    for key, grad in grads.items():
        other = other_grads.get(key)
        if (grad is None) != (other is None) or (grad is not None and not torch.allclose(grad, other, 1e-4, 1e-6)):
            raise ValueError(f"the program's gradient of {key} is not that of net, so it is not written")


def _version() -> str:
    from ... import __version__

    return __version__
