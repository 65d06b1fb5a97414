"""A toy problem whose answer depends on time. A formula makes it; the same seed gives the same data everywhere.

To train on spikes ``[T, N, C]`` with ``train.fit``, put samples first and let ``encode`` put time first again:
``fit(net, (spikes.transpose(0, 1), labels), encode=lambda x: x.transpose(0, 1), ...)``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from snnkit import checks
from snnkit.data._batches import seeded


def xor_in_time(
    n: int,
    steps: int = 30,
    *,
    delay: int = 10,
    units: int = 5,
    cue_steps: int = 3,
    rate: float = 0.6,
    noise: float = 0.0,
    jitter: int = 0,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Two cues, one after the other; the label is the XOR of both. Only a network with memory can solve it.

    Each cue is one bit: which of two groups of ``units`` channels fires. Group 0 is channels ``0 .. units-1``, group 1
    the rest. The first cue fills the steps ``0 .. cue_steps-1``, then come ``delay`` silent steps, then the second cue,
    then silence until ``steps``. A unit of a firing group spikes with probability ``rate`` in each step; any unit at
    any other time with probability ``noise``. The four pairs of cues are equally frequent (to within one). With
    ``jitter``, each cue of a sample comes up to so many steps late, drawn uniformly and independently, so the delay
    varies, too.

    Returns spikes float32 ``[steps, n, 2 * units]``, 0 or 1, and labels int64 ``[n]``, 0 or 1. Randomness comes from
    ``seed``. Raises ValueError if the cues don't fit into ``steps``.
    """
    checks.counts(n=n, steps=steps, units=units, cue_steps=cue_steps)
    checks.integer("delay", delay, at_least=0)
    checks.integer("jitter", jitter, at_least=0)
    if jitter > delay:
        raise ValueError(f"jitter must be at most delay, {delay}, or the cues could overlap, but it is {jitter}")
    needed = 2 * cue_steps + delay + jitter
    if needed > steps:
        late = f" and a jitter of {jitter}" if jitter else ""
        raise ValueError(
            f"steps must be at least {needed} for two cues of {cue_steps} steps and a delay of {delay}{late}, "
            f"but it is {steps}"
        )
    checks.number("rate", rate, at_least=0, at_most=1)
    checks.number("noise", noise, at_least=0, at_most=1)
    checks.fits("n", n, 13 * steps * 2 * units)
    generator = seeded(seed)

    pair = torch.randperm(n, generator=generator) % 4
    first, second = pair // 2, pair % 2
    probability = torch.full((steps, n, 2, units), float(noise))
    samples = torch.arange(n)
    for start, bit in ((0, first), (cue_steps + delay, second)):
        # Nothing is drawn without jitter, so that the samples of a seed are what they were before there was any.
        late = torch.randint(jitter + 1, (n,), generator=generator) if jitter else torch.zeros(n, dtype=torch.int64)
        for step in range(start, start + cue_steps):
            probability[step + late, samples, bit] = float(rate)
    spikes = torch.rand(probability.shape, generator=generator) < probability
    return spikes.flatten(2).float(), first ^ second
