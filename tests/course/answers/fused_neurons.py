"""Answers to the exercises of fused_neurons."""

import numpy as np
import torch

from snnkit.lab.exercises.fused_neurons import bytes_moved, resting_step

# Exercise 1


def counter(alone=None, inference=None, training=None):
    """An answer to exercise 1 with one of its parts exchanged."""

    def answer(ops, x=4, spike=4):
        right = bytes_moved(ops, x, spike)
        given = (alone and alone(ops), inference and inference(x, spike), training and training(x, spike))
        return tuple(want if wrong is None else wrong for wrong, want in zip(given, right, strict=True))

    return answer


def reads_of(ops):
    return sum(sum(reads) for _, reads, _ in ops)


def writes_of(ops):
    return sum(sum(writes) for _, _, writes in ops)


def by_streams(ops, x=4, spike=4):
    alone = 0
    for _, reads, writes in ops:
        for width in reads + writes:
            alone += width
    forward = [x, spike]
    backward = [x, spike, x]
    return [alone, sum(forward), sum(forward + backward)]


def by_tensors(ops, x=4, spike=4):
    streams = torch.tensor([[1, 1], [3, 2]])  # of x and of spikes: inference, training
    inference, training = (streams * torch.tensor([x, spike])).sum(1)
    return float(sum(sum(reads + writes) for _, reads, writes in ops)), inference, training


COUNTS = [
    (counter(alone=reads_of), "every operation by itself", 1),
    (counter(alone=writes_of), "every operation by itself", 1),
    (counter(alone=len), "every operation by itself", 0),
    (counter(alone=lambda ops: sum(reads + writes for _, reads, writes in ops)), "every operation by itself", 0, "sum"),
    (counter(alone=lambda ops: 12 * len(ops)), "every operation by itself", 0),
    (counter(alone=lambda ops: 2 * writes_of(ops)), "every operation by itself", 0),
    (counter(inference=lambda x, spike: x + spike + 8), "fused, inference", 2),
    (counter(inference=lambda x, spike: x + spike + 4), "fused, inference", 2),
    (counter(inference=lambda x, spike: 8), "fused, inference", 3),
    (counter(inference=lambda x, spike: 2 * x), "fused, inference", 3),
    (counter(inference=lambda x, spike: x), "fused, inference", 3),
    (counter(training=lambda x, spike: x + spike + spike + x), "fused, training", 5),
    (counter(training=lambda x, spike: 3 * x + 3 * spike), "fused, training", 6),
    (counter(training=lambda x, spike: x + spike + x), "fused, training", 4),
    (counter(training=lambda x, spike: 20), "fused, training", 4),
    (counter(training=lambda x, spike: 5 * x), "fused, training", 4),
    (counter(training=lambda x, spike: 2 * x + 3 * spike), "fused, training", 4),
    (lambda ops, x=4, spike=4: 98, "every operation by itself", None, "one number"),
    (lambda ops, x=4, spike=4: (98, 8), "every operation by itself", None, "two numbers"),
]

# Exercise 2


def by_masks(x, v, rest, fire):
    awake = (rest <= 0).float()
    v = awake * (0.9 * v + x) + (1 - awake) * v
    spike = awake * fire(v - 1.0)
    return spike, v - spike * v, awake * 2 * spike + (1 - awake) * (rest - 1)


def by_clamping(x, v, rest, fire):
    v = torch.where(rest > 0, v, 0.9 * v + x)
    spike = fire(v - 1.0)
    return spike, v * (1 - spike.detach()), (rest - 1).clamp(min=0) + 2 * spike


def stepper(
    charge=lambda v, x, awake: torch.where(awake, 0.9 * v + x, v),
    fires=lambda fire, v, awake: torch.where(awake, fire(v - 1.0), 0.0),
    reset=lambda v, spike: v * (1 - spike),
    count=lambda rest, spike, awake: torch.where(awake, 2 * spike, rest - 1),
):
    """An answer to exercise 2 with some of its lines exchanged."""

    def answer(x, v, rest, fire):
        awake = rest <= 0
        v = charge(v, x, awake)
        spike = fires(fire, v, awake)
        return spike, reset(v, spike), count(rest, spike, awake)

    return answer


def never_resting(x, v, rest, fire):
    v = 0.9 * v + x
    spike = fire(v - 1.0)
    return spike, v * (1 - spike), 2 * spike


def with_if(question):
    """An answer to exercise 2 that asks once for all neurons."""

    def answer(x, v, rest, fire):
        return (torch.zeros_like(x), v, rest - 1) if question(rest) else never_resting(x, v, rest, fire)

    return answer


def indexing(x, v, rest, fire):
    awake = rest <= 0
    new = v.clone()
    new[awake] = 0.9 * v[awake] + x[awake]
    spike = fire(new - 1.0)
    return spike, new * (1 - spike), torch.where(awake, 2 * spike, rest - 1)


def skipping_when_silent(x, v, rest, fire):
    spike, new, after = resting_step(x, v, rest, fire)
    return (spike, new, after) if spike.sum() >= 0 else (spike, v, rest)


def detached(x, v, rest, fire):
    spike, v, rest = resting_step(x, v, rest, fire)
    return spike.detach(), v, rest


def in_place(x, v, rest, fire):
    v.mul_(0.9).add_(x)
    return resting_step(torch.zeros_like(x), v / 0.9, rest, fire)


STEPS = [
    (
        stepper(charge=lambda v, x, awake: torch.where(awake, 0.9 * v.detach() + x, v.detach())),
        "learns",
        "No `.detach()`",
        "cut in time",
    ),
    (
        stepper(charge=lambda v, x, awake: torch.where(awake, (0.9 * v + x).clamp(-5, 5), v)),
        "as one neuron does",
        1,
        "clamped",
    ),
    (lambda *given: [part.float() for part in resting_step(*given)], "many neurons", "dtype of v", "float32 only"),
    (stepper(reset=lambda v, spike: (v * (1 - spike)).float()), "many neurons", 1, "v in float32"),
    (
        stepper(fires=lambda fire, v, awake: (awake & (v >= 1.0)).float()),
        "many neurons",
        "dtype of v",
        "compared, to float32",
    ),
    (with_if(lambda rest: rest > 0), "many neurons", 0, "an if"),
    (never_resting, "two steps of rest", 3),
    (stepper(count=lambda rest, s, awake: torch.where(awake, 2 * s, rest)), "two steps of rest", 3, "for ever"),
    (stepper(count=lambda rest, s, awake: rest - 1 + 3 * s), "as one neuron does", 1, "counting below zero"),
    (stepper(charge=lambda v, x, awake: 0.9 * v + x), "two steps of rest", 4, "silent but hearing"),
    (stepper(charge=lambda v, x, awake: awake * (0.9 * v + x)), "two steps of rest", 4, "forgetting at rest"),
    (stepper(reset=lambda v, spike: v), "two steps of rest", 4, "without reset"),
    (stepper(reset=lambda v, spike: v - spike), "two steps of rest", 4, "soft reset"),
    (stepper(charge=lambda v, x, awake: torch.where(awake, v + x, v)), "as one neuron does", 1, "without leak"),
    (with_if(lambda rest: (rest > 0).any()), "as one neuron does", 1, "all or none"),
    (indexing, "elementwise", 2),
    (skipping_when_silent, "elementwise", 2),
    (stepper(fires=lambda fire, v, awake: (awake & (v >= 1.0)).to(v.dtype)), "learns", 5, "compared"),
    (detached, "learns", 5),
    (in_place, "many neurons", "In-place operations"),
    (lambda x, v, rest, fire: (fire(v), v), "many neurons", None, "two values"),
]


# Exercise 3


def by_intensity(operations, bytes, rate, bandwidth):
    return operations / min(rate, bandwidth * operations / bytes)


ROOFS = [
    (lambda operations, bytes, rate, bandwidth: max(operations / rate, bytes / 1e9), "memory is slow", 0, "1 GB/s"),
    (
        lambda operations, bytes, rate, bandwidth: round(max(operations / rate, bytes / bandwidth), 1),
        "memory is slow",
        0,
        "rounded",
    ),
    (lambda operations, bytes, rate, bandwidth: max(operations / rate, bytes // bandwidth), "memory is slow", 0),
    (lambda operations, bytes, rate, bandwidth: max(operations // rate, bytes / bandwidth), "arithmetic is slow", 2),
    (lambda operations, bytes, rate, bandwidth: operations / rate + bytes / bandwidth, "at the same time", 3),
    (lambda operations, bytes, rate, bandwidth: min(operations / rate, bytes / bandwidth), "memory is slow", 1),
    (lambda operations, bytes, rate, bandwidth: operations / rate, "memory is slow", 1),
    (lambda operations, bytes, rate, bandwidth: bytes / bandwidth, "arithmetic is slow", 2),
    (lambda operations, bytes, rate, bandwidth: max(operations * rate, bytes * bandwidth), "memory is slow", 0),
    (lambda operations, bytes, rate, bandwidth: max(rate / operations, bandwidth / bytes), "memory is slow", 0),
]

WRONG = {1: COUNTS, 2: STEPS, 3: ROOFS}

RIGHT = {
    1: [by_streams, by_tensors, lambda ops, x=4, spike=4: np.array(bytes_moved(ops, x, spike))],
    2: [by_masks, by_clamping],
    3: [
        by_intensity,
        lambda work, bytes, rate, bandwidth: sorted([work / rate, bytes / bandwidth])[-1],
    ],
}

STUBS = {
    1: [
        lambda ops, x=4, spike=4: (..., ..., ...),
        lambda ops, x=4, spike=4: (sum(map(len, ops)), 8, ...),
    ],
    2: [lambda x, v, rest, fire: (..., ..., ...), lambda x, v, rest, fire: (fire(v - 1), v, ...)],
    3: [lambda operations, bytes, rate, bandwidth: ...],
}
