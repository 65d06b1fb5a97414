"""The task, the rules for networks, and the score: every spike of every neuron counts.

The checks find mistakes, not fraud: a graded "spike", a ReLU between two layers, a state left over from the last batch.
Spikes are counted where the engine runs a neuron, so it does not matter where the network keeps the neuron, nor how it
calls it. What a network computes without calling a neuron isn't counted: thresholds in a forward of its own, and the
``step`` of a neuron in a list, called by hand.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.data import xor_in_time
from snnkit.engine.observe import Seen, observed
from snnkit.engine.trace import name_of, renew_in_children
from snnkit.neuron import Neuron, named_neurons

STEPS, CHANNELS, CLASSES = 24, 8, 2
# What a network can rely on: a cue lasts 3 steps, its 4 units fire in each with a probability of 0.8 (9.6 spikes on
# average), the second begins 11 steps after the first, either up to 2 late, and noise adds about 2 spikes.
SETTINGS = {"delay": 8, "units": 4, "cue_steps": 3, "rate": 0.8, "noise": 0.01, "jitter": 2}

SALT = "two bits, one after the other"
HIDDEN_SETS, HIDDEN_SAMPLES = 4, 500
PRICE = 0.01  # of one spike per sample: as much as one percentage point of accuracy

CHUNK = 500  # samples at a time
PROBED = 32  # samples on which behaviour is checked
MAY_DIFFER = 4  # of them: another batch size may round otherwise, and move a spike
TOLERANCE = 1e-3  # of the largest value: far above rounding, far below what a ReLU does to random numbers


# What torch.compile does is a setting of the process, and so is the state of its random numbers: of two evaluations at
# once, each would restore what the other one had set.
_process = threading.RLock()
renew_in_children(globals(), _process=threading.RLock)


class RuleError(ValueError):
    """A network can't take part. The message says what it did, and what the rules require."""


def samples(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Samples of the challenge: spikes float32 [24, n, 8] (T, B, C) of 0 and 1, and labels int64 [n], 0 or 1.

    Channels 0 … 3 fire for a cue that says 0, channels 4 … 7 for one that says 1; the label is the XOR of both cues.
    The same for the same seed. See ``data.xor_in_time``, which makes them.
    """
    return xor_in_time(n, STEPS, seed=seed, **SETTINGS)


@checks.arguments
def hidden(salt: str = SALT) -> tuple[Tensor, Tensor]:
    """The samples of the score [24, 2000, 8] and their labels, by seeds that no one uses by chance.

    They prevent overfitting by accident, not cheating: anyone can call this function. To prevent that, too, an
    instructor uses another salt when the work is handed in.
    """
    seeds = (int.from_bytes(hashlib.sha256(f"{salt} #{i}".encode()).digest()[:7], "big") for i in range(HIDDEN_SETS))
    x, y = zip(*(samples(HIDDEN_SAMPLES, seed=seed) for seed in seeds), strict=True)
    return torch.cat(x, dim=1), torch.cat(y)


def mark(salt: str = SALT) -> str:
    """Six letters that tell salts apart without revealing them: scores with different marks don't compare."""
    return hashlib.sha256(f"mark of {salt}".encode()).hexdigest()[:6]


@dataclass(frozen=True)
class Evaluation:
    """The result of ``evaluate``."""

    accuracy: float  #: share of the samples that were answered correctly
    spikes: float  #: per sample, of all neurons; the input is not counted
    layers: dict[str, float]  #: name of each layer of neurons (in a list: its class) to its spikes per sample
    correct: Tensor  #: of each sample: bool [N], on the CPU
    counts: Tensor  #: of each sample: spikes float32 [N], on the CPU

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {spikes:.2f}" for name, spikes in self.layers.items())
        return f"accuracy {self.accuracy:.1%}, {self.spikes:.2f} spikes per sample ({parts})"


@dataclass(frozen=True)
class Score:
    """The result of a network on the hidden samples."""

    score: float  #: accuracy - PRICE · spikes: 1 would be perfect without a spike, 0.5 is what a silent network gets
    error: float  #: standard error of the score: how far another draw of as many samples would move it
    accuracy: float  #: share of correct answers
    spikes: float  #: per sample, of all neurons
    samples: int
    mark: str  #: of the samples' salt

    def __repr__(self) -> str:
        return (
            f"score {self.score:.4f} ± {self.error:.4f}: accuracy {self.accuracy:.2%}, "
            f"{self.spikes:.2f} spikes per sample at {PRICE} each"
        )


@checks.arguments
def score(net: nn.Module, *, salt: str = SALT) -> Score:
    """The score of ``net`` on the hidden samples. For the rules, the counts and the errors see ``evaluate``.

    Choose among networks by samples of your own, and compute the score of the chosen one only: the best of many scores
    would be partly luck. Another ``salt`` means other hidden samples; an instructor may use a secret one.
    """
    result = evaluate(net, *hidden(salt))
    each = result.correct.double() - PRICE * result.counts.double()
    error = each.std().item() / math.sqrt(len(each))
    return Score(each.mean().item(), error, result.accuracy, result.spikes, len(each), mark(salt))


@checks.arguments
def evaluate(net: nn.Module, x: Tensor, y: Tensor) -> Evaluation:
    """Count the correct answers of ``net`` and its spikes, by the rules.

    The answer to a sample is the output neuron that fired more often; of equal counts it is 0, so silence is an answer.
    A copy of the network runs, in evaluation mode, without gradients.

    Args:
        net: called ``net(x)`` on spikes [T, B, 8], it gives spikes [T, B, 2], or those and a state. Its neurons are
            ``neuron.Neuron``s that fire 0 or 1, and are called over time (``neuron(x)``, not ``neuron.step``); all else
            between them is linear (weights, sums, delays). What ``torch.compile`` compiled runs uncompiled.
        x, y: as ``samples`` gives them, on any device: spikes [T, N, 8] and labels int64 [N].

    Raises:
        RuleError: the network breaks a rule; the text says which, and where. It is a ValueError.
    """
    binary = all(((v == 0) | (v == 1)).all() for v in (x, y))
    if x.dim() != 3 or not x.numel() or y.shape != x.shape[1:2] or not binary:
        raise ValueError(
            "x must be spikes [T, N, C] and y labels [N], both of 0 and 1, "
            f"but they are {checks.shown(x)} and {checks.shown(y)}"
        )
    try:
        checks.copyable("net", net)
    except ValueError as error:
        raise RuleError(str(error)) from None
    try:
        net = copy.deepcopy(net).eval()
    except Exception as error:
        raise RuleError(
            "net must be a module that can be copied, but something is left in it from an earlier call (start from "
            f"state=None), or it holds what has no copy: {type(error).__name__}: {error}"
        ) from error
    neurons = {neuron: name for name, neuron in neurons_of(net).items()}
    device = next((p.device for p in (*net.parameters(), *net.buffers())), torch.device("cpu"))
    answers, counted = [], []  # counted: of each part of the samples, the spikes of each layer
    with _process, _uncompiled(), torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        _check_behaviour(net, x[:, :PROBED].to(device), neurons)
        for part in x.split(CHUNK, dim=1):
            with _recording(neurons, part.shape[1]) as trains:
                answers.append(_answer(net, part.to(device)).sum(0).argmax(1).cpu())
            counted.append({name: sum(t.float().sum((0, 2)).cpu() for t in parts) for name, parts in trains.items()})
    correct = torch.cat(answers) == y.cpu()
    silence = [torch.zeros(part.shape[1]) for part in x.split(CHUNK, dim=1)]
    names = dict.fromkeys(name for part in counted for name in part)
    counts = {n: torch.cat([part.get(n, none) for part, none in zip(counted, silence, strict=True)]) for n in names}
    layers = {name: each.mean().item() for name, each in counts.items()}
    each = torch.stack(list(counts.values())).sum(0)
    return Evaluation(correct.float().mean().item(), each.mean().item(), layers, correct, each)


def _uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Compiled code makes no calls of the engine that could be seen."""
    compiler = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if compiler else contextlib.nullcontext()


def neurons_of(net: nn.Module) -> dict[str, Neuron]:
    """Name -> layer of neurons; RuleError if there is none, or one that does not spike."""
    neurons = {name or type(net).__name__: module for name, module in named_neurons(net)}
    if not neurons:
        raise RuleError(
            "net must have neurons (snnkit.neuron.Neuron, or a subclass of your own), as it is their spikes that are "
            f"counted, but this {type(net).__name__} has none"
        )
    for name, neuron in neurons.items():
        if not neuron.spiking:
            raise RuleError(f"{name} ({type(neuron).__name__}) must fire spikes, but it hands on its potential")
    return neurons


@contextlib.contextmanager
def _recording(neurons: dict[Any, str], batch: int) -> Iterator[dict[str, list[Tensor]]]:
    """The spikes [T, B, N] of each pass of a neuron: it may receive a sequence in parts, or serve in two places.

    A neuron that is no submodule (in a list, say) is named when it runs. A submodule that does not run is refused.
    """
    trains: dict[str, list[Tensor]] = {name: [] for name in neurons.values()}
    neurons = dict(neurons)

    def record(seen: Seen) -> None:
        neuron = seen.step
        if neuron not in neurons:
            neurons[neuron] = f"{name_of(neuron)} {len(neurons)}, no submodule"
        name, spikes = neurons[neuron], seen.out.detach()
        trains.setdefault(name, [])
        if not getattr(neuron, "spiking", True):
            raise RuleError(f"{name} ({name_of(neuron)}) must fire spikes, but it hands on its potential")
        wrong = (spikes != 0) & (spikes != 1)
        if wrong.any():
            raise RuleError(
                f"{name} ({name_of(neuron)}) must fire spikes, but it fired {float(spikes[wrong][0]):.4g}: a "
                "spike is 0 or 1, not graded"
            )
        if spikes.dim() < 2 or spikes.shape[1] != batch:
            raise RuleError(f"{name} must fire spikes [T, {batch}, ...], but its output is {list(spikes.shape)}")
        trains[name].append(spikes.flatten(2) if spikes.dim() > 2 else spikes[..., None])

    with observed(record):
        yield trains
    for name, parts in trains.items():
        if not parts:
            raise RuleError(
                f"{name} must be called over time, as `out, state = neuron(x)`, or its spikes can't be counted; call "
                "it so, or take it out of the network"
            )


def _answer(net: nn.Module, x: Tensor) -> Tensor:
    """The output of ``net`` for x [T, B, C]: spikes [T, B, 2], or RuleError."""
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


def _check_behaviour(net: nn.Module, x: Tensor, neurons: dict[Any, str]) -> None:
    given = x.clone()
    with _recording(neurons, x.shape[1]) as trains, _first_calls(net) as calls:
        out = _answer(net, given)
    if not torch.equal(given, x):
        raise RuleError("net must leave its input as it is, but it changed x")
    # A layer's spikes in one piece where it received the sequence in parts.
    whole = [[torch.cat(parts)] if sum(map(len, parts)) == len(out) else parts for parts in trains.values()]
    fired = torch.cat([out[..., :0], *(part for parts in whole for part in parts if len(part) == len(out))], 2)
    for k in range(CLASSES):
        if not (fired == out[..., k : k + 1]).all(0).all(0).any():
            raise RuleError(
                f"output {k} must be what a neuron fired, but no neuron of the network fired that: let the last "
                "thing on the way out be a spiking neuron"
            )
    for name, (module, args, kwargs) in calls.items():
        _check_linear(f"{name} ({type(module).__name__})", module, args, kwargs)
    if _differs(_answer(net, x), out):
        raise RuleError(
            "net must answer the same samples in the same way twice, but it did not: something is left from one call "
            "to the next (start from state=None), or it draws random numbers"
        )
    if _differs(_answer(net, x.flip(1)[:, : -(-x.shape[1] // 2)]).flip(1), out[:, x.shape[1] // 2 :]):
        raise RuleError("net must answer each sample by itself, but its answers depend on the others in the batch")


def _differs(one: Tensor, other: Tensor) -> bool:
    return int((one != other).any(0).any(1).sum()) > min(MAY_DIFFER, one.shape[1] // 8)


@contextlib.contextmanager
def _first_calls(net: nn.Module) -> Iterator[dict[str, tuple[nn.Module, tuple, dict[str, Any]]]]:
    """The first call of each synapse: an innermost module that is no part of a neuron."""
    calls: dict[str, tuple[nn.Module, tuple, dict[str, Any]]] = {}
    of_neurons = {part for module in net.modules() if isinstance(module, Neuron) for part in module.modules()}
    synapses = {
        module: name
        for name, module in net.named_modules()
        if name and module not in of_neurons and next(module.children(), None) is None
    }

    def note(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        calls.setdefault(synapses[module], (module, args, kwargs))

    with contextlib.ExitStack() as hooks:
        for module in synapses:
            hooks.callback(module.register_forward_pre_hook(note, with_kwargs=True).remove)
        yield calls


def _check_linear(name: str, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """RuleError unless what a module does to its input is linear up to a constant, f(u) + f(v) = f(u + v) + f(0)."""
    if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
        return
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.randn(args[0].shape, generator=generator).to(args[0]) for _ in range(2))
    results = []
    for value in (u, v, u + v, torch.zeros_like(u)):
        try:
            out = module(value, *args[1:], **kwargs)
        except Exception as error:
            raise RuleError(
                f"{name} must be a synapse, which takes any numbers, but for random ones it raised "
                f"{type(error).__name__}: {error}"
            ) from error
        results.append(out[0] if isinstance(out, tuple) else out)
    apart, together = results[0] + results[1], results[2] + results[3]
    if not bool(((apart - together).abs() <= TOLERANCE * (1 + apart.abs().max())).all()):
        raise RuleError(
            f"{name} must be a synapse: weights, sums, delays. But it is not linear, and so computes without spiking; "
            "only neurons may do that"
        )
