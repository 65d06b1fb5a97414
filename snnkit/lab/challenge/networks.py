"""Networks for the challenge: a plain one with its training, synapses with delays, and references to compare with."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks, loss
from snnkit.data import resolve_device
from snnkit.lab.challenge.scoring import CHANNELS, CLASSES, SALT, STEPS, Score, samples, score
from snnkit.neuron import LIF, Neuron, Recurrent
from snnkit.nn import Sequential

FOLDER = Path(__file__).parent
NOTES = {
    "plain": "backpropagation, spikes are free",
    "thrifty": "backpropagation, a spike costs 0.01",
    "two neurons": "ten numbers, by evolution",
    "delays": "synapses with delays, and one neuron that fires",
}
# On every board. The last one beats them all, and is left for participants to discover.
SHOWN = ("plain", "thrifty", "two neurons")
SAMPLES, BATCH = 2000, 128  # of training


class Delays(nn.Module):
    """Delayed copies of the input: ``out, state = delays(x, state=None)``, x [T, B, C].

    The copy of channel c that is ``steps[k]`` late is channel ``k C + c`` of the output [T, B, K C]. The state holds
    the last inputs [D, B, C], as many as the longest delay D, so that a sequence may come in parts.
    """

    def __init__(self, steps: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(steps, Sequence) or not steps:
            what = "whole numbers, such as (0, 5, 11)"
            raise ValueError(f"steps of Delays must be {what}, but it is {checks.shown(steps)}")
        self.steps = tuple(checks.integer("steps of Delays", k, at_least=0) for k in steps)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        checks.instance("x of Delays", x, Tensor, "a torch.Tensor [T, B, C]")
        checks.instance("state of Delays", state, Tensor, "a torch.Tensor [D, B, C]", optional=True)
        longest = max(self.steps)
        before = x.new_zeros(longest, *x.shape[1:]) if state is None else state
        if before.shape != (longest, *x.shape[1:]):
            shape = [longest, *x.shape[1:]]
            raise ValueError(f"state of Delays must be {shape}, but its shape is {list(before.shape)}")
        line = torch.cat([before, x])
        copies = [line[longest - k : len(line) - k] for k in self.steps]
        return torch.cat(copies, dim=2), line[len(line) - longest :]


def network(hidden: int = 32, *, tau: float = 20.0) -> Sequential:
    """Linear(8, hidden), LIF, Linear(hidden, 2), LIF: spikes [T, B, 8] to spikes [T, B, 2].

    ``tau``: time constant of all membranes, in time steps, above 1; they are reset by subtraction.
    """
    hidden = checks.integer("hidden", hidden, at_least=1)
    return Sequential(nn.Linear(CHANNELS, hidden), _lif(tau), nn.Linear(hidden, CLASSES), _lif(tau))


def _lif(tau: float) -> LIF:
    return LIF(tau, v_reset=None, decay_input=False)


@checks.arguments
def train(
    net: Sequential,
    penalty: float | Callable[[int, int], Any] = 0.0,
    *,
    learning_rate: float = 0.01,
    updates: int = 300,
    seed: int = 0,
    warm_up: float = 0.5,
    device: str | torch.device = "cpu",
    progress: bool = False,
) -> Sequential:
    """Train ``net`` in place on 2000 samples of ``seed``, 128 at a time; returns it.

    The loss is the cross-entropy of the spike counts + ``penalty`` · spikes per sample, of all its neurons. The penalty
    rises from 0 during the first part of the updates: a full penalty from the start might silence the network before it
    has learned anything. Adam; gradients are clipped to a norm of 1. On a CPU, the same seed and the same initial
    weights give the same trained weights.

    Args:
        net: from [T, B, 8] to [T, B, 2], with spiking neurons.
        penalty: price of a spike, at least 0. Or a function of (update, updates) that gives it, without a warm-up.
        seed: of the samples and of their order.
        warm_up: share of the updates during which the penalty rises, from 0 (not at all) to 1.
        device: where to train; the network stays there.
        progress: whether to show a bar.
    """
    from tqdm.auto import trange

    highest = 0.0 if callable(penalty) else checks.number("penalty", penalty, at_least=0)
    checks.integer("updates", updates, at_least=1)
    learning_rate = checks.number("learning_rate", learning_rate, above=0)
    warm_up = checks.number("warm_up", warm_up, at_least=0, at_most=1)
    target = resolve_device(device)
    net.to(target).train()
    x, y = (part.to(target) for part in samples(SAMPLES, seed))
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate)
    for update in trange(updates, desc="training", disable=not progress):
        rows = torch.randint(SAMPLES, (BATCH,), generator=order).to(target)
        seen = net.record(x[:, rows])
        fired = [out for module, out in zip(net, seen.layers, strict=True) if isinstance(module, Neuron)]
        spikes = sum(out.sum() for out in fired) / BATCH
        rising = min(1.0, update / (warm_up * updates)) if warm_up else 1.0
        price = penalty(update, updates) if callable(penalty) else highest * rising
        value = loss.count_cross_entropy(seen.out, y[rows]) + price * spikes
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return net


def reference(name: str) -> Sequential:
    """A network of the kit, [T, B, 8] to [T, B, 2]. Its weights come from ``docs/challenge_references.py``.

    - "plain": 16 hidden neurons, trained by backpropagation through time; spikes cost nothing.
    - "thrifty": the same with a penalty on spikes.
    - "two neurons": one recurrent layer of two ``LIF``, by evolution: 0.75 spikes per sample.
    - "delays": a ``LIF`` behind ``Delays``: 0.5 spikes per sample.
    """
    checks.choice("name", name, NOTES)
    if name == "two neurons":
        net = Sequential(nn.Linear(CHANNELS, 2), Recurrent(_lif(50.0), CLASSES))
    elif name == "delays":
        linear = nn.Linear(STEPS * CHANNELS, 2, bias=False)
        net = Sequential(Delays(range(STEPS)), linear, Recurrent(_lif(20.0), CLASSES))
    else:
        net = network(16)
    weights = json.loads((FOLDER / "references.json").read_text(encoding="utf-8"))["networks"][name]
    net.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
    return net


@functools.lru_cache(maxsize=32)
def reference_score(name: str, salt: str = SALT) -> Score:
    """Of ``reference(name)``; computed once in a process."""
    return score(reference(name), salt=salt)


def recorded_sweep() -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """A sweep of 96 trainings: column -> values of all runs, and {"notebook", "fixed", "runs", "machine", "commit"}.

    Its manifest has RATE_PENALTY and HIDDEN in a grid, and eight seeds, of the worker notebook ``xor_in_time``.
    """
    content = json.loads((FOLDER / "recorded_sweep.json").read_text(encoding="utf-8"))
    return content.pop("columns"), content
