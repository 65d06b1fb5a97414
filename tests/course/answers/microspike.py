"""Answers to the exercises of microspike."""

import torch

from snnkit.lab.exercises.microspike import Spike, _reset_by_spikes, recurrent

# Exercise 1


def walk(local=lambda g, slope: g * slope, leak=lambda beta, d, g, slope: beta * d, backwards=True, slope=None):
    """An answer to exercise 1 with some of its parts exchanged."""

    def answer(u, g, beta):
        d, found = torch.zeros_like(u[0]), []
        slopes = (slope or (lambda u: 1 / (1 + (torch.pi * u) ** 2)))(u)
        order = range(len(u))[:: -1 if backwards else 1]
        after = torch.zeros_like(u[0])
        for t in order:
            d = local(g[t], slopes[t]) + leak(beta, d, after, slopes[t])
            after = local(g[t], slopes[t])
            found.append(d)
        return torch.stack(found[:: -1 if backwards else 1])

    return answer


def from_powers(u, g, beta):
    """The sum over all later steps, written out."""
    t = torch.arange(len(u), dtype=u.dtype)
    kernel = torch.triu(beta ** (t - t[:, None]).clamp(min=0))
    return kernel @ (g / (1 + (torch.pi * u) ** 2))


def in_place(u, g, beta):
    d = g / (1 + (torch.pi * u) ** 2)
    for t in range(len(u) - 2, -1, -1):
        d[t] += beta * d[t + 1]
    return d


BACKWARD = [
    (lambda u, g, beta: walk()(u, g, beta)[0], "like u", 0, "of the first"),
    (lambda u, g, beta: list(walk()(u, g, beta)), "like u", 0),
    (walk(local=lambda g, slope: g), "one step", 1),
    (walk(slope=lambda u: 1 / (1 + u**2)), "one step", 1),
    (walk(backwards=False), "back in time", 2),
    (walk(leak=lambda beta, d, g, slope: 0 * d), "back in time", 2),
    (walk(leak=lambda beta, d, g, slope: d), "back in time", 2),
    (walk(leak=lambda beta, d, g, slope: beta * slope * d), "back in time", 2),
    (walk(leak=lambda beta, d, g, slope: beta * g), "back in time", 2),
    (walk(leak=lambda beta, d, g, slope: (beta * d).clamp(min=0)), "as PyTorch does it", 3),
]

# Exercise 2


def layer(feed=lambda s, r: s @ r.T, late=True, hot=True, start=0.0, fired=lambda v: v > 1):
    """An answer to exercise 2 with its feedback or its reset exchanged."""

    def answer(current, r, beta):
        v = torch.zeros_like(current[0])
        s = torch.full_like(v, start)
        spikes = []
        for x_t in current:
            v = beta * v + x_t - fired(v).to(v.dtype)
            if not late:
                s = Spike.apply(v - 1)
            v = v + feed(s if hot else s.detach(), r)
            s = Spike.apply(v - 1)
            spikes.append(s)
        return torch.stack(spikes)

    return answer


def without_a_reset(current, r, beta):
    v = s = torch.zeros_like(current[0])
    spikes = []
    for x_t in current:
        v = beta * v + x_t + s @ r.T
        s = Spike.apply(v - 1)
        spikes.append(s)
    return torch.stack(spikes)


def mean_of_the_batch(s, r):
    return (s.mean(0, keepdim=True) @ r.T).expand_as(s)


def bounded(low, high):
    """The right answer, but for a membrane that is clamped."""

    def answer(current, r, beta):
        v = s = torch.zeros_like(current[0])
        spikes = []
        for x_t in current:
            v = (beta * v + x_t + s @ r.T - (v > 1).to(v.dtype)).clamp(low, high)
            s = Spike.apply(v - 1)
            spikes.append(s)
        return torch.stack(spikes)

    return answer


RECURRENT = [
    (lambda current, r, beta: recurrent(current, r, 0.9), "alone", 1, "beta of its own"),
    (bounded(-1.0, 1e9), "no bounds", "Clamp nothing", "no lower than -1"),
    (bounded(-1e9, 5.0), "no bounds", "Clamp nothing", "no higher than 5"),
    (without_a_reset, "without feedback", 0),
    (layer(fired=lambda v: v >= 1), "without feedback", 0, "reset at 1"),
    (lambda current, r, beta: recurrent(current, r, 0.5), "without feedback", 0),
    (layer(feed=lambda s, r: s @ r), "one step later", 1),
    (layer(feed=lambda s, r: 0 * s), "one step later", 1),
    (layer(late=False), "one step later", 1),
    (layer(start=1.0), "one step later", 1),
    (layer(feed=mean_of_the_batch), "alone", 4),
    (layer(hot=False), "a gradient for r", 3),
    (torch.no_grad()(recurrent), "a gradient for r", 3, "compared"),
    (_reset_by_spikes, "a gradient for r", "as `leaky` does"),
]


def by_linear(current, r, beta):
    v, spikes = torch.zeros_like(current[0]), [torch.zeros_like(current[0])]
    for x_t in current:
        v = v * beta - (v > 1).float() + x_t + torch.nn.functional.linear(spikes[-1], r)
        spikes.append(Spike.apply(v - 1))
    return torch.stack(spikes[1:])


WRONG = {1: BACKWARD, 2: RECURRENT}
RIGHT = {1: [from_powers, in_place], 2: [layer(), by_linear]}
STUBS = {1: [lambda u, g, beta: ...], 2: [lambda current, r, beta: ...]}
NUDGES = {2: {2}}
