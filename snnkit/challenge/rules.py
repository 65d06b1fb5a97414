"""What counts: every spike of every neuron, and nothing but spikes between neurons.

The checks find mistakes, not fraud: a graded "spike", a ReLU between two layers, a state that was left from the last
batch. Whoever wants to hide a computation from them in Python can.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.device.measure import untouched
from snnkit.neuron import Neuron

from .counting import RuleError, SpikeCounter
from .synapses import check_linear, first_calls
from .task import CLASSES

SECONDS = 60.0  # of one evaluation
CHUNK = 500  # samples at a time
LOOKED_AT = 32  # samples on which behaviour is checked
MAY_DIFFER = 4  # of them: another batch size may round otherwise, and move a spike


@dataclass(frozen=True)
class Found:
    """What an evaluation found.

    Attributes:
        accuracy: share of the samples that were answered rightly.
        spikes: per sample, of all neurons; the input is not counted.
        layers: name of each layer of neurons -> its spikes per sample.
        correct, counts: of each sample: bool [N] and spikes float32 [N], on the CPU.
    """

    accuracy: float
    spikes: float
    layers: dict[str, float]
    correct: Tensor
    counts: Tensor

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {spikes:.2f}" for name, spikes in self.layers.items())
        return f"accuracy {self.accuracy:.1%}, {self.spikes:.2f} spikes per sample ({parts})"


def evaluate(net: nn.Module, x: Tensor, y: Tensor, *, seconds: float = SECONDS) -> Found:
    """Count the right answers of ``net`` and its spikes, by the rules.

    The answer to a sample is the output neuron that fired more; of equal counts it is 0, so silence is an answer. The
    network runs in evaluation mode, without gradients, and is left as it was.

    Args:
        net: called ``net(x)`` on spikes [T, B, 8], it gives spikes [T, B, 2], or those and a state. Its neurons are
            ``neuron.Neuron``s that fire 0 or 1; what stands between them is linear (weights, sums, delays).
        x, y: as ``samples`` gives them, on any device: spikes [T, N, 8] and labels int64 [N].
        seconds: the longest it may take; looked at between parts of the samples.

    Raises:
        TypeError: ``net`` is no module, or ``x`` or ``y`` no tensor.
        ValueError: ``x`` and ``y`` don't belong together.
        RuleError: the network breaks a rule; the text says which, and where. It is a ValueError.
        TimeoutError: it takes too long.
    """
    _check_arguments(net, x, y)
    neurons = neurons_of(net)
    device = next((p.device for p in (*net.parameters(), *net.buffers())), torch.device("cpu"))
    clock = _Clock(seconds)
    correct, counts = [], []
    totals = dict.fromkeys(neurons, 0.0)
    with _at_rest(net, device):
        _check_behaviour(net, x[:, :LOOKED_AT].to(device), neurons, clock)
        for start in range(0, len(y), CHUNK):
            part, labels = x[:, start : start + CHUNK].to(device), y[start : start + CHUNK].to(device)
            with SpikeCounter(neurons) as counter:
                out = answer(net, part)
            correct.append(out.sum(0).argmax(1) == labels)
            counts.append(counter.per_sample(len(labels), device))
            for name, each in counter.counts.items():
                totals[name] += float(each.sum())
            clock.check(f"{start + len(labels)} of {len(y)} samples")
    right, each = torch.cat(correct).cpu(), torch.cat(counts).cpu()
    layers = {name: total / len(y) for name, total in totals.items()}
    return Found(right.float().mean().item(), each.mean().item(), layers, right, each)


def neurons_of(net: nn.Module) -> dict[str, Neuron]:
    """Name -> layer of neurons; RuleError where there is none, or one that does not spike."""
    found = {name or type(net).__name__: module for name, module in net.named_modules() if isinstance(module, Neuron)}
    if not found:
        raise RuleError(
            "net must have neurons (snnkit.neuron.Neuron, or a subclass of your own), as it is their spikes that are "
            f"counted, but this {type(net).__name__} has none"
        )
    for name, neuron in found.items():
        if not neuron.spiking:
            raise RuleError(f"{name} ({type(neuron).__name__}) must fire spikes, but it hands on its potential")
    return found


def answer(net: nn.Module, x: Tensor) -> Tensor:
    """What ``net`` makes of x [T, B, C]: spikes [T, B, 2], or RuleError."""
    try:
        out = net(x)
    except RuleError:
        raise
    except Exception as error:
        message = f"net must take spikes [T, B, C] = {list(x.shape)}, but it raised {type(error).__name__}: {error}"
        raise RuleError(message) from error
    out = out[0] if isinstance(out, tuple) and out else out
    wanted = [*x.shape[:2], CLASSES]
    if not isinstance(out, Tensor) or list(out.shape) != wanted:
        given = list(out.shape) if isinstance(out, Tensor) else f"a {type(out).__name__}"
        raise RuleError(f"net must give spikes [T, B, {CLASSES}] = {wanted}, but it gave {given}")
    return out.detach()


def _check_behaviour(net: nn.Module, x: Tensor, neurons: dict[str, Neuron], clock: _Clock) -> None:
    heard = x.clone()
    with SpikeCounter(neurons, keep=True) as counter, first_calls(net) as calls:
        out = answer(net, heard)
    if not torch.equal(heard, x):
        raise RuleError("net must leave its input as it is, but it changed x")
    clock.check(f"{x.shape[1]} samples")
    fired = torch.cat([out[..., :0], *counter.fired(len(out))], dim=2)
    for k in range(CLASSES):
        if not (fired == out[..., k : k + 1]).all(0).all(0).any():
            raise RuleError(
                f"output {k} must be what a neuron fired, but no neuron of the network fired that: let the last "
                "thing on the way out be a spiking neuron"
            )
    for name, call in calls.items():
        check_linear(name, call)
    if _differs(answer(net, x), out):
        raise RuleError(
            "net must answer the same samples in the same way twice, but it did not: something is left from one call "
            "to the next (start from state=None), or it draws random numbers"
        )
    if _differs(answer(net, x.flip(1)[:, : -(-x.shape[1] // 2)]).flip(1), out[:, x.shape[1] // 2 :]):
        raise RuleError("net must answer each sample by itself, but its answers depend on the others in the batch")


def _differs(one: Tensor, other: Tensor) -> bool:
    return int((one != other).any(0).any(1).sum()) > min(MAY_DIFFER, one.shape[1] // 8)


@contextlib.contextmanager
def _at_rest(net: nn.Module, device: torch.device) -> Iterator[None]:
    """Evaluation mode and no gradients; afterwards modes, buffers and random generators are as they were."""
    modes = {module: module.training for module in net.modules()}
    with untouched(net, device), torch.no_grad():
        net.eval()
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training


class _Clock:
    def __init__(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise ValueError(f"seconds must be a positive number, but it is {seconds!r}")
        self.seconds, self.start = seconds, time.monotonic()

    def check(self, done: str) -> None:
        taken = time.monotonic() - self.start
        if taken > self.seconds:
            raise TimeoutError(f"net may take {self.seconds:g} s, but {done} took {taken:.1f} s")


def _check_arguments(net: Any, x: Any, y: Any) -> None:
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a tensor, but it is a {type(value).__name__}")
    if x.dim() != 3 or x.numel() == 0 or y.shape != x.shape[1:2] or y.dtype != torch.int64:
        raise ValueError(
            "x must be spikes [T, N, C] and y labels int64 [N], "
            f"but they are {list(x.shape)} and {y.dtype} {list(y.shape)}"
        )
    _check_zero_or_one("x", x)
    _check_zero_or_one("y", y)


def _check_zero_or_one(name: str, values: Tensor) -> None:
    if not bool(((values == 0) | (values == 1)).all()):
        raise ValueError(f"{name} must hold 0 and 1 only")
