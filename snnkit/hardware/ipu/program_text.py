"""The text of a stand-alone program that trains a converted network: plain PyTorch, and PopTorch where there is one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .model import InOrder, IPUNet, Stateless, Steps, Unrolled
from .program_template import BODY, HEAD, MAIN
from .step_text import NoText, rest_and_step

__all__ = ["network_text", "program_text"]

# Layers of torch.nn that came after PyTorch 2.0.1; norms have got a "bias" since.
_TOO_NEW = ("RMSNorm", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ZeroPad1d", "ZeroPad3d")


class _Walk:
    """Goes through a converted network with an example and collects the lines of its program."""

    def __init__(self, paths: dict[int, list[str]]) -> None:
        self.paths = paths  # id of a layer or tensor to where the network that is written has it
        self.functions: list[str] = []
        self.layers: dict[str, str] = {}  # path to constructor, or to the path of the same layer
        self.forward: list[str] = []

    def go(self, layer: nn.Module, x: Steps) -> Steps:
        if isinstance(layer, InOrder):
            for name in layer.order:
                x = self.go(layer.get_submodule(name), x)
            return x
        if isinstance(layer, Stateless):
            path = self._placed(layer.layer)
            once = x.static and (layer.always_once or not layer._differs())
            self.forward.append(f'x = {"once" if once else "folded"}(self.get_submodule("{path}"), x)')
        elif isinstance(layer, Unrolled):
            self._neuron(layer, x)
        else:
            raise NoText(f"{type(layer).__name__} is no layer that convert makes")
        return layer(x)

    def _neuron(self, layer: Unrolled, x: Steps) -> None:
        name = str(len(self.functions) + 1)
        text, owned = rest_and_step(layer.neuron, x.steps[0], name)
        self.functions.append(f"# {' '.join(repr(layer.neuron).split())}\n{text}")
        tensors = dict((*layer.neuron.named_parameters(), *layer.neuron.named_buffers()))
        parts = []
        for path in owned:
            tensor = tensors[path]
            self._placed(tensor)
            kind = "parameter" if isinstance(tensor, nn.Parameter) else "buffer"
            parts.append(f'self.get_{kind}("{self.paths[id(tensor)][0]}")')
        more = f", [{', '.join(parts)}]" if parts else ""
        if layer.weight is not None:
            more += f', weight=self.get_submodule("{self._placed(layer.weight)}")'
        self.forward.append(f"x = over_time(rest_{name}, step_{name}, x{more})")

    def _placed(self, part: nn.Module | Tensor) -> str:
        """Note how a layer or tensor is made, at each path where the network has it; the first path."""
        first, *others = self.paths[id(part)]
        if first not in self.layers:
            self.layers[first] = _constructor(part)
            self.layers |= dict.fromkeys(others, f'self.at("{first}")')
        return first


def _constructor(part: nn.Module | Tensor) -> str:
    if isinstance(part, nn.Parameter):
        return f"nn.Parameter(torch.zeros({list(part.shape)}), requires_grad={part.requires_grad})"
    if isinstance(part, Tensor):
        return f"torch.zeros({list(part.shape)})"
    if type(part) is nn.Sequential:
        return f"nn.Sequential({', '.join(_constructor(layer) for layer in part)})"
    kind = type(part)
    if getattr(nn, kind.__name__, None) is not kind or "\n" in repr(part):
        raise NoText(
            f"{kind.__name__} is no single layer of torch.nn, so that its text is not known here; build it from such "
            "layers in order"
        )
    text = _of_old(kind.__name__, f"nn.{part!r}")
    try:
        made = eval(text, {"nn": nn})
    except Exception as error:
        raise NoText(f"{kind.__name__} can't be made from what it prints, {part!r}: {error}") from error
    if {k: v.shape for k, v in made.state_dict().items()} != {k: v.shape for k, v in part.state_dict().items()}:
        raise NoText(f"{kind.__name__} is another one when made from what it prints, {part!r}")
    frozen = [p.requires_grad for p in part.parameters()]
    return text if all(frozen) else f"frozen({text})" if not any(frozen) else _partly(part)


def _of_old(kind: str, text: str) -> str:
    """The constructor as PyTorch 2.0.1 knows it."""
    if kind in _TOO_NEW:
        raise NoText(f"PyTorch 2.0.1, which PopTorch runs with, has no {kind}")
    if "Norm" not in kind:
        return text
    if "bias=False" in text:
        raise NoText(f"PyTorch 2.0.1, which PopTorch runs with, has no {kind} without a bias")
    return text.replace(", bias=True", "")


def _partly(part: nn.Module) -> str:
    raise NoText(f"some parameters of a {type(part).__name__} are frozen and some are not: freeze all or none of them")


def network_text(net: nn.Module, converted: IPUNet, x: Tensor) -> tuple[list[str], dict[str, str], list[str]]:
    """(functions of the neurons, how each layer is made by path, the lines of the forward pass).

    Args:
        net: the network whose names the weights have.
        converted: the same by ``convert``.
        x: an example [B, ...] of at least two samples.

    Raises:
        NoText: a layer that is none of torch.nn, or a step that can't be written down.
    """
    paths: dict[int, list[str]] = {}
    for kind in (net.named_modules, net.named_parameters, net.named_buffers):
        for path, part in kind(remove_duplicate=False):
            paths.setdefault(id(part), []).append(path)
    walk = _Walk(paths)
    steps = Steps(list(x.unbind(1)) if converted.steps is None else [x] * converted.steps)
    with torch.no_grad():
        walk.go(converted.layers, steps)
    return walk.functions, walk.layers, walk.forward


def program_text(network: tuple[list[str], dict[str, str], list[str]], loss: str, **words: Any) -> str:
    """The whole program.

    Args:
        network: from ``network_text``.
        loss: an expression of ``out`` [T, B, C] and ``y`` [B].
        words: name, version, steps, batch.
    """
    functions, layers, forward = network
    made = "\n".join(f'        self.put("{path}", {text})' for path, text in layers.items())
    lines = "\n".join(f"        {line}" for line in forward)
    start = "x.unbind(1)" if words["steps"] is None else f"[x] * {words['steps']}"
    shape = "[B, T, ...]" if words["steps"] is None else f"[B, ...], shown {words['steps']} times,"
    body = BODY.replace("@MADE@", made).replace("@FORWARD@", lines).replace("@START@", start).replace("@SHAPE@", shape)
    neurons = "\n\n\n".join(functions)
    parts = [
        HEAD.format(**words),
        neurons,
        body.replace("@LOSS@", loss),
        MAIN.replace("@BATCH@", str(words["batch"])),
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"
