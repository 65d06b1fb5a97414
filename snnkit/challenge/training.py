"""A plain network for the challenge, and how to train it with a price on spikes."""

from __future__ import annotations

import torch
from torch import nn

from snnkit import loss
from snnkit.data import resolve_device
from snnkit.neuron import LIF, Neuron
from snnkit.nn import Sequential

from . import task


def network(hidden: int = 32, *, tau: float = 20.0) -> Sequential:
    """Linear(8, hidden), LIF, Linear(hidden, 2), LIF: spikes [T, B, 8] to spikes [T, B, 2].

    Weights are drawn from PyTorch's generator: seed it before.

    Args:
        hidden: number of hidden neurons, at least 1.
        tau: time constant of all membranes, in time steps, above 1; they are reset by subtraction.
    """
    if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
        raise ValueError(f"hidden must be a whole number of at least 1, but it is {hidden!r}")
    return Sequential(
        nn.Linear(task.CHANNELS, hidden),
        LIF(tau, v_reset=None, decay_input=False),
        nn.Linear(hidden, task.CLASSES),
        LIF(tau, v_reset=None, decay_input=False),
    )


def train(
    net: Sequential,
    penalty: float = 0.0,
    *,
    learning_rate: float = 0.01,
    updates: int = 300,
    batch: int = 128,
    seed: int = 0,
    samples: int = 2000,
    warm_up: float = 0.5,
    device: str | torch.device = "cpu",
    progress: bool = False,
) -> Sequential:
    """Train ``net`` in place on ``samples`` samples of ``seed``; returns it.

    The loss is the cross-entropy of the spike counts + ``penalty`` · spikes per sample, of all its neurons. The penalty
    rises from 0 during the first part of the updates: from the start, it might silence the network before it has
    learned anything. Adam; gradients of a norm above 1 are shortened to it. On a CPU, the same seed and the same
    weights before give the same weights after.

    Args:
        net: a ``nn.Sequential`` from [T, B, 8] to [T, B, 2], with spiking neurons.
        penalty: price of a spike, at least 0.
        learning_rate: of Adam, positive.
        updates, batch, samples: at least 1.
        seed: of the samples and of their order.
        warm_up: share of the updates during which the penalty rises, from 0 (not at all) to 1.
        device: where to train; the network stays there.
        progress: a bar.

    Raises:
        TypeError, ValueError: an argument that is none of these.
    """
    if not isinstance(net, Sequential):
        raise TypeError(f"net must be a snnkit.nn.Sequential, but it is a {type(net).__name__}")
    if isinstance(penalty, bool) or not isinstance(penalty, (int, float)) or not 0 <= penalty < float("inf"):
        raise ValueError(f"penalty must be a number of at least 0, but it is {penalty!r}")
    for name, value in (("updates", updates), ("batch", batch), ("samples", samples)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, but it is {value!r}")
    if isinstance(warm_up, bool) or not isinstance(warm_up, (int, float)) or not 0 <= warm_up <= 1:
        raise ValueError(f"warm_up must be a share of the updates, between 0 and 1, but it is {warm_up!r}")
    from tqdm.auto import trange

    target = resolve_device(device)
    net.to(target).train()
    x, y = (part.to(target) for part in task.samples(samples, seed))
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate)
    for update in trange(updates, desc="training", disable=not progress):
        rows = torch.randint(samples, (batch,), generator=order).to(target)
        seen = net.record(x[:, rows])
        fired = [out for module, out in zip(net, seen.layers, strict=True) if isinstance(module, Neuron)]
        spikes = sum(out.sum() for out in fired) / batch
        rising = min(1.0, update / (warm_up * updates)) if warm_up else 1.0
        value = loss.count_cross_entropy(seen.out, y[rows]) + penalty * rising * spikes
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return net
