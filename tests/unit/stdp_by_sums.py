"""The rules by their definitions: sums over all pairs or triplets of spikes, in plain Python and float64.

They take time in proportion to T² and exist to be read and compared with.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from snnkit.plasticity import Convolution, PairSTDP, RewardSTDP, TripletSTDP


def pairwise(rule: PairSTDP, pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
    """The result of ``rule.run`` from rest.

    Args:
        pre, post: spikes [T, B, n_pre] and [T, B, n_post], or as the connection has its neurons.
        weight: [n_post, n_pre], or as the connection has it.

    Returns:
        The weight after the last step, float64 on the CPU.
    """
    before, after, weights, share = _listed(rule, pre, post, weight)
    synapses = synapses_of(rule.connection, pre, weight)
    for t in range(len(before)):
        for k, shared in enumerate(synapses):
            increase = decrease = 0.0
            for b in range(len(before[0])):
                for i, j in shared:
                    for s in range(t + 1):
                        age = (t - s) * rule.dt
                        increase += after[t][b][i] * before[s][b][j] * math.exp(-age / rule.tau_plus)
                        decrease += after[s][b][i] * before[t][b][j] * math.exp(-age / rule.tau_minus)
            weights[k] = _changed(rule, weights[k], share * rule.a_plus * increase, share * rule.a_minus * decrease)
    return torch.tensor(weights, dtype=torch.float64).reshape(weight.shape)


def tripletwise(rule: TripletSTDP, pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
    """The same for triplets; arguments and result as in ``pairwise``."""
    before, after, weights, share = _listed(rule, pre, post, weight)
    synapses = synapses_of(rule.connection, pre, weight)

    def left(spikes: list, t: int, b: int, n: int, tau: float, last: int) -> float:
        return sum(spikes[s][b][n] * math.exp(-(t - s) * rule.dt / tau) for s in range(last))

    for t in range(len(before)):
        for k, shared in enumerate(synapses):
            increase = decrease = 0.0
            for b in range(len(before[0])):
                for i, j in shared:
                    earlier = left(after, t, b, i, rule.tau_y, t)
                    paired = left(before, t, b, j, rule.tau_plus, t + 1)
                    increase += after[t][b][i] * paired * (rule.a2_plus + rule.a3_plus * earlier)
                    earlier = left(before, t, b, j, rule.tau_x, t)
                    paired = left(after, t, b, i, rule.tau_minus, t + 1)
                    decrease += before[t][b][j] * paired * (rule.a2_minus + rule.a3_minus * earlier)
            weights[k] = _changed(rule, weights[k], share * increase, share * decrease)
    return torch.tensor(weights, dtype=torch.float64).reshape(weight.shape)


def rewarded(rule: RewardSTDP, pre: Tensor, post: Tensor, reward: Tensor, weight: Tensor) -> Tensor:
    """The result of ``rule.run`` from rest, reward [T, B]; otherwise as in ``pairwise``."""
    pair, rewards = rule.pair, reward.double().tolist()
    before, after, weights, share = _listed(pair, pre, post, weight)
    steps, samples = len(before), len(before[0])
    for k, shared in enumerate(synapses_of(pair.connection, pre, weight)):
        # When each change was due [B][T], and then how much of it is left when a reward comes.
        due = [[0.0] * steps for _ in range(samples)]
        for b in range(samples):
            for i, j in shared:
                for s in range(steps):
                    for t in range(steps):
                        both = before[s][b][j] * after[t][b][i]
                        lag = (t - s) * pair.dt
                        if lag >= 0:
                            due[b][t] += pair.a_plus * both * math.exp(-lag / pair.tau_plus)
                        if lag <= 0:
                            due[b][s] -= pair.a_minus * both * math.exp(lag / pair.tau_minus)
        for t in range(steps):
            change = 0.0
            for b in range(samples):
                for s in range(t + 1):
                    change += rewards[t][b] * due[b][s] * math.exp(-(t - s) * pair.dt / rule.tau_eligibility)
            weights[k] = _changed(pair, weights[k], share * change, 0.0)
    return torch.tensor(weights, dtype=torch.float64).reshape(weight.shape)


def stepwise(rule, *sequences: Tensor, weight: Tensor, state=None) -> tuple:
    """What a rule makes of sequences, one step after the other."""
    for now in zip(*sequences, strict=True):
        weight, state = rule.step(*now, weight, state)
    return weight, state


def same(one, other) -> None:
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


DT, TAU = 1e-3, 50e-3  # of Norse
BY_NAME = {"additive": "hard", "multiplicative_relu": "soft"}


def like_norse(bound: str, eta: float, **more) -> PairSTDP:
    """Its traces decay by 1 - dt / tau, a step of Euler's, and count dt / tau for a spike."""
    tau = -DT / math.log(1 - DT / TAU)
    amplitude = eta * DT / TAU
    return PairSTDP(amplitude, amplitude, tau, tau, DT, bound=bound, **more)


def synapses_of(connection, pre: Tensor, weight: Tensor) -> list[list[tuple[int, int]]]:
    """For each weight the synapses that share it, as (postsynaptic, presynaptic) neurons, each side counted flat."""
    if not isinstance(connection, Convolution):
        posts, pres = weight.shape
        return [[(i, j)] for i in range(posts) for j in range(pres)]
    rows, columns = connection.outputs(pre.shape, weight.shape)
    high, wide = pre.shape[-2:]
    synapses = []
    for o, c, ky, kx in itertools.product(*map(range, weight.shape)):
        shared = []
        for y, x in itertools.product(range(rows), range(columns)):
            from_y = y * connection.stride + ky - connection.padding
            from_x = x * connection.stride + kx - connection.padding
            if 0 <= from_y < high and 0 <= from_x < wide:
                shared.append(((o * rows + y) * columns + x, (c * high + from_y) * wide + from_x))
        synapses.append(shared)
    return synapses


def _listed(
    rule: PairSTDP | TripletSTDP, pre: Tensor, post: Tensor, weight: Tensor
) -> tuple[list, list, list[float], float]:
    """Spikes of both sides [T][B][neurons], the weights one after the other, and what a sample counts."""
    before, after = (spikes.double().flatten(2).tolist() for spikes in (pre, post))
    share = 1 / len(before[0]) if rule.batch == "mean" else 1.0
    return before, after, weight.detach().double().flatten().tolist(), share


def _changed(rule: PairSTDP | TripletSTDP, w: float, increase: float, decrease: float) -> float:
    if rule.bound is None:
        return w + increase - decrease
    if rule.bound == "soft":
        increase, decrease = increase * (rule.w_max - w), decrease * (w - rule.w_min)
    return min(max(w + increase - decrease, rule.w_min), rule.w_max)
