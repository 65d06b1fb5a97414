"""The rules as their definitions say them: sums over all pairs or triplets of spikes, in plain Python and float64.

They take time in proportion to T² and are there to be read and compared with.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .pair import PairSTDP
from .reward import RewardSTDP
from .triplet import TripletSTDP


def pairwise(rule: PairSTDP, pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
    """What ``rule.run`` gives from rest.

    Args:
        pre, post: spikes [T, B, n_pre] and [T, B, n_post].
        weight: [n_post, n_pre].

    Returns:
        The weight after the last step [n_post, n_pre], float64 on the CPU.
    """
    before, after = pre.double().tolist(), post.double().tolist()
    weights = weight.detach().double().tolist()
    steps, samples = len(before), len(before[0])
    share = 1 / samples if rule.batch == "mean" else 1.0
    for t in range(steps):
        for i, row in enumerate(weights):
            for j, w in enumerate(row):
                increase = decrease = 0.0
                for b in range(samples):
                    for s in range(t + 1):
                        age = (t - s) * rule.dt
                        increase += after[t][b][i] * before[s][b][j] * math.exp(-age / rule.tau_plus)
                        decrease += after[s][b][i] * before[t][b][j] * math.exp(-age / rule.tau_minus)
                row[j] = _changed(rule, w, share * rule.a_plus * increase, share * rule.a_minus * decrease)
    return torch.tensor(weights, dtype=torch.float64).reshape(weight.shape)


def tripletwise(rule: TripletSTDP, pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
    """The same for triplets; arguments and result as in ``pairwise``."""
    before, after = pre.double().tolist(), post.double().tolist()
    weights = weight.detach().double().tolist()
    steps, samples = len(before), len(before[0])
    share = 1 / samples if rule.batch == "mean" else 1.0

    def left(spikes: list, t: int, b: int, n: int, tau: float, last: int) -> float:
        return sum(spikes[s][b][n] * math.exp(-(t - s) * rule.dt / tau) for s in range(last))

    for t in range(steps):
        for i, row in enumerate(weights):
            for j, w in enumerate(row):
                increase = decrease = 0.0
                for b in range(samples):
                    earlier = left(after, t, b, i, rule.tau_y, t)
                    paired = left(before, t, b, j, rule.tau_plus, t + 1)
                    increase += after[t][b][i] * paired * (rule.a2_plus + rule.a3_plus * earlier)
                    earlier = left(before, t, b, j, rule.tau_x, t)
                    paired = left(after, t, b, i, rule.tau_minus, t + 1)
                    decrease += before[t][b][j] * paired * (rule.a2_minus + rule.a3_minus * earlier)
                row[j] = _changed(rule, w, share * increase, share * decrease)
    return torch.tensor(weights, dtype=torch.float64).reshape(weight.shape)


def rewarded(rule: RewardSTDP, pre: Tensor, post: Tensor, reward: Tensor, weight: Tensor) -> Tensor:
    """What ``rule.run`` gives from rest, reward [T, B]; otherwise as in ``pairwise``."""
    before, after, rewards = pre.double().tolist(), post.double().tolist(), reward.double().tolist()
    weights, pair = weight.detach().double().tolist(), rule.pair
    steps, samples = len(before), len(before[0])
    share = 1 / samples if pair.batch == "mean" else 1.0
    for i, row in enumerate(weights):
        for j in range(len(row)):
            # When each change was due [B][T], and then how much of it is left when a reward comes.
            due = [[0.0] * steps for _ in range(samples)]
            for b in range(samples):
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
                row[j] = _changed(pair, row[j], share * change, 0.0)
    return torch.tensor(weights, dtype=torch.float64).reshape(weight.shape)


def _changed(rule: PairSTDP | TripletSTDP, w: float, increase: float, decrease: float) -> float:
    if rule.bound is None:
        return w + increase - decrease
    if rule.bound == "soft":
        increase, decrease = increase * (rule.w_max - w), decrease * (w - rule.w_min)
    return min(max(w + increase - decrease, rule.w_min), rule.w_max)
