"""Toy problems whose answer depends on time: made from formulas, no download, the same for the same seed everywhere.

To train on spikes ``[T, N, C]`` with ``train.fit``, put samples first and let ``encode`` put time first again:
``fit(net, (spikes.transpose(0, 1), labels), encode=lambda x: x.transpose(0, 1), ...)``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from snnkit import checks
from snnkit.data._batches import check_generator, seeded


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
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Two cues, one after the other; the label is the XOR of both. Only a network with memory can solve it.

    Each cue is one bit: which of two groups of ``units`` channels fires. Group 0 is channels ``0 .. units-1``, group 1
    the rest. The first cue fills the steps ``0 .. cue_steps-1``, then come ``delay`` silent steps, then the second cue,
    then silence until ``steps``. A unit of a firing group spikes with probability ``rate`` in each step; any unit at
    any other time with probability ``noise``. The four pairs of cues are equally frequent (to within one). With
    ``jitter``, either cue of a sample comes up to so many steps late, drawn evenly and independently, which varies the
    delay, too.

    Returns spikes float32 ``[steps, n, 2 * units]``, 0 or 1, and labels int64 ``[n]``, 0 or 1. Randomness comes from
    ``generator`` if given, else from ``seed``. Raises ValueError where the cues don't fit into ``steps``.
    """
    for name, value in (("n", n), ("steps", steps), ("units", units), ("cue_steps", cue_steps)):
        checks.integer(name, value, at_least=1)
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
    generator = _generator(seed, generator)

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


def yin_yang(
    n: int, *, r_small: float = 0.1, seed: int = 0, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Points in the yin-yang sign; which part is each in? Small, yet no linear readout of the inputs solves it.

    The sign is a disc of radius 0.5 in the unit square: yin (class 0), yang (1), and the two dots (2) of radius
    ``r_small``. Each part is filled evenly and the classes are equally frequent (to within one).
    Source: Kriener, Göltz, Petrovici, NICE 2022, doi:10.1145/3517343.3517380.

    Returns features float32 ``[n, 4]``, (x, y, 1 - x, 1 - y) in [0, 1], made for encoding as spike times, and labels
    int64 ``[n]``. Randomness comes from ``generator`` if given, else from ``seed``.
    """
    checks.integer("n", n, at_least=1)
    checks.number("r_small", r_small, above=0, below=0.25)  # a dot has to fit into its lobe
    generator = _generator(seed, generator)
    labels = torch.randperm(n, generator=generator) % 3

    # Coordinates from the centre of the sign. The centres of the dots and lobes are at (-1/4, 0) and (1/4, 0).
    lobe = torch.tensor([0.25, 0.0])
    side = torch.randint(2, (n, 1), generator=generator) * 2 - 1
    points = torch.where((labels == 2)[:, None], side * lobe + _in_disc(n, r_small, generator), torch.nan)
    open_ = torch.isnan(points[:, 0]).nonzero().squeeze(1)
    while len(open_):
        drawn = _in_disc(len(open_), 0.5, generator)
        in_left, in_right = (drawn + lobe).norm(dim=1), (drawn - lobe).norm(dim=1)
        is_yin = (in_left <= 0.25) | ((drawn[:, 1] > 0) & (in_right > 0.25))
        # Turned by half a circle, yin is yang: so one draw serves either class, unless it falls into a dot.
        drawn = torch.where((is_yin == (labels[open_] == 0))[:, None], drawn, -drawn)
        outside_dots = torch.minimum(in_left, in_right) > r_small
        points[open_[outside_dots]] = drawn[outside_dots]
        open_ = open_[~outside_dots]

    xy = (points + 0.5).clamp(0, 1)
    return torch.cat([xy, 1 - xy], dim=1), labels


def randman(
    n_classes: int = 10,
    n_units: int = 20,
    *,
    samples_per_class: int = 100,
    steps: int = 50,
    dim: int = 1,
    alpha: float = 3.0,
    seed: int = 0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Spike times on smooth random manifolds, one per class: what matters is when each unit fires, never how often.

    A class is a random smooth function from the cube [0, 1]^dim to [0, 1]^n_units; a sample is a random point of the
    cube, and unit i fires exactly once, at the fraction of the time that the function gives:

        f_i(x) = prod_j sum_k  A_ijk k^-alpha sin(2 pi (k x_j B_ijk + C_ijk)),   A, B, C uniform in [0, 1]

    scaled to [0, 1] over the class's samples. A larger ``alpha`` makes smoother manifolds, a larger ``dim`` harder
    ones. The sum ends where k^-alpha falls below 1/1000.
    Source: Zenke & Vogels, Neural Computation 33 (2021), doi:10.1162/neco_a_01367.

    Returns spikes float32 ``[steps, n_classes * samples_per_class, n_units]`` and labels int64, in random order. For a
    test set, split the result: another seed means other manifolds. Randomness comes from ``generator`` if given, else
    from ``seed``.
    """
    for name, value in (("n_classes", n_classes), ("n_units", n_units), ("steps", steps), ("dim", dim)):
        checks.integer(name, value, at_least=1)
    checks.integer("samples_per_class", samples_per_class, at_least=2)  # one point has no extent to scale
    checks.number("alpha", alpha, at_least=1)
    generator = _generator(seed, generator)

    amplitude, frequency, phase = (
        torch.rand(math.ceil(1000 ** (1 / alpha)), n_classes, 1, n_units, dim, generator=generator) for _ in range(3)
    )
    x = torch.rand(n_classes, samples_per_class, 1, dim, generator=generator)
    series = torch.zeros(n_classes, samples_per_class, n_units, dim)
    for k, (a, b, c) in enumerate(zip(amplitude, frequency, phase, strict=True), start=1):
        series += a * k**-alpha * torch.sin(2 * math.pi * (k * x * b + c))
    f = series.prod(dim=-1)
    low, high = f.amin(dim=1, keepdim=True), f.amax(dim=1, keepdim=True)
    f = (f - low) / (high - low).clamp(min=torch.finfo(f.dtype).tiny)

    times = (f * (steps - 1)).round().long().flatten(0, 1)  # [N, units]
    spikes = torch.zeros(steps, *times.shape).scatter_(0, times[None], 1.0)
    labels = torch.arange(n_classes).repeat_interleave(samples_per_class)
    order = torch.randperm(len(labels), generator=generator)
    return spikes[:, order], labels[order]


def _in_disc(n: int, radius: float, generator: torch.Generator) -> Tensor:
    """``[n, 2]`` points spread evenly over a disc around the origin (hence the square root)."""
    r, angle = torch.rand(2, n, generator=generator)
    r, angle = radius * r.sqrt(), 2 * math.pi * angle
    return torch.stack([r * angle.cos(), r * angle.sin()], dim=1)


def _generator(seed: int, generator: torch.Generator | None) -> torch.Generator:
    check_generator(generator)
    if generator is not None:
        if generator.device.type != "cpu":
            raise ValueError(f"generator must be on the CPU, but it is on {generator.device}")
        return generator
    return seeded(seed)
