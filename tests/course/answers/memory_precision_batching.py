"""Answers to the exercises of memory_precision_batching."""

import torch
from torch import nn

from snnkit.lab.exercises.memory_precision_batching import OUT_OF_MEMORY, training_bytes

# Exercise 1


def bill(model=None, activity=None):
    """An answer to exercise 1 with one of its parts exchanged."""

    def answer(weights, stored, steps, batch, copies=1, width=4):
        given = {"weights": weights, "stored": stored, "steps": steps, "batch": batch, "copies": copies, "width": width}
        right = training_bytes(**given)
        return model(**given) if model else right[0], activity(**given) if activity else right[1]

    return answer


def other_defaults(weights, stored, steps, batch, copies=2, width=4):
    return training_bytes(weights, stored, steps, batch, copies, width)


BILLS = [
    (bill(model=lambda copies, **_: 4000 * (2 + copies)), "the model", 0, "a thousand weights"),
    (
        bill(activity=lambda stored, steps, batch, width, **_: steps * batch * stored * (2 if width == 2 else 4)),
        "narrow numbers",
        5,
        "two or four",
    ),
    (other_defaults, "narrow numbers", "and their defaults"),
    (bill(model=lambda weights, **_: 4 * weights), "the model", 0),
    (bill(model=lambda weights, copies, **_: 4 * weights * (1 + copies)), "the model", 0),
    (bill(model=lambda weights, copies, **_: weights * (2 + copies)), "the model", 1),
    (bill(model=lambda weights, **_: 8 * weights), "the model", 2),
    (bill(model=lambda weights, copies, batch, **_: 4 * weights * (2 + copies) * batch), "the model", 3),
    (bill(model=lambda weights, copies, steps, **_: 4 * weights * (2 + copies) * steps), "the model", 3),
    (bill(model=lambda weights, copies, width, **_: weights * (2 + copies) * width), "narrow numbers", 6),
    (bill(activity=lambda stored, steps, batch, **_: stored * steps * batch), "the activity", 1),
    (bill(activity=lambda stored, steps, width, **_: stored * steps * width), "the activity", 4),
    (bill(activity=lambda stored, batch, width, **_: stored * batch * width), "the activity", 4),
    (bill(activity=lambda stored, steps, batch, **_: 2 * 4 * stored * steps * batch), "the activity", 5),
    (bill(activity=lambda stored, steps, batch, **_: 4 * stored * steps * batch), "narrow numbers", 5),
    (lambda weights, stored, steps, batch, copies=1, width=4: weights + stored, "the model", None, "one number"),
]


def tensor_by_tensor(weights, stored, steps, batch, copies=1, width=4):
    model = [weights, weights, *[weights] * copies]
    activity = 0
    for _ in range(steps):
        activity += batch * stored
    return sum(4 * numbers for numbers in model), activity * width


def of_real_tensors(weights, stored, steps, batch, copies=1, width=4):
    weight = torch.empty(2 + copies, weights, device="meta")
    potential = torch.empty(
        steps, batch, stored, dtype={2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[width], device="meta"
    )
    return [weight.nbytes, potential.nbytes]


# Exercise 2


def parts_of(x, y, size):
    return zip(x.split(size, dim=1), y.split(size), strict=True)


def by_scaling_at_the_end(net, loss, x, y, size):
    total = 0.0
    for x_part, y_part in parts_of(x, y, size):
        part = loss(net(x_part)[0], y_part) * len(y_part)
        part.backward()
        total += part.item()
    for p in net.parameters():
        if p.grad is not None:
            p.grad /= len(y)
    return total / len(y)


def biter(share=None, before=None, backward=True, given=float):
    """An answer to exercise 2 with something wrong."""

    def answer(net, loss, x, y, size):
        total = 0.0
        for x_part, y_part in parts_of(x, y, size):
            if before is not None:
                before(net)
            part = loss(net(x_part)[0], y_part)
            part = part * (len(y_part) / len(y) if share is None else share(len(y), size))
            if backward:
                part.backward()
            total = total + part if given is not float else total + part.item()
        return total if given is float else given(total)

    return answer


def all_forward_first(at_once=False):
    """An answer to exercise 2 that keeps the graphs of all parts until the end."""

    def answer(net, loss, x, y, size):
        parts = [loss(net(x_part)[0], y_part) * len(y_part) / len(y) for x_part, y_part in parts_of(x, y, size)]
        for part in [sum(parts)] if at_once else parts:
            part.backward()
        return sum(part.item() for part in parts)

    return answer


def the_whole_batch(net, loss, x, y, size):
    whole = loss(net(x)[0], y)
    whole.backward()
    return whole.item()


def along_time(net, loss, x, y, size):
    total, count = 0.0, -(-len(x) // size)
    for x_part in x.split(size):
        part = loss(net(x_part)[0], y) / count
        part.backward()
        total += part.item()
    return total


BITES = [
    (biter(share=lambda count, size: 1), "equal parts", 1),
    (biter(backward=False), "equal parts", 2),
    (biter(before=nn.Module.zero_grad), "equal parts", 3),
    (biter(before=nn.Module.zero_grad, share=lambda count, size: 1), "equal parts", 3),
    (along_time, "equal parts", 0),
    (the_whole_batch, "one at a time", 0),
    (all_forward_first(), "one at a time", 4, "all forward first"),
    (all_forward_first(at_once=True), "one at a time", 4, "one backward at the end"),
    (biter(share=lambda count, size: 1 / -(-count // size)), "uneven parts", 5),
    (biter(share=lambda count, size: size / count), "uneven parts", 5),
    (biter(given=lambda total: total), "the loss", 6),
    (biter(given=lambda total: total.item() / 3), "the loss", 6),
]


def by_slices(net, loss, x, y, size):
    losses = []
    for start in range(0, len(y), size):
        part = slice(start, start + size)
        out, _ = net(x[:, part])
        value = loss(out, y[part])
        share = value.new_tensor(len(y[part]) / len(y))
        value.backward(share)
        losses.append(value.item() * share.item())
    return sum(losses)


def stub_of_the_notebook_2(net, loss, x, y, size):
    total = 0.0
    for x_part, y_part in parts_of(x, y, size):
        out, _ = net(x_part)
        part = loss(out, y_part) * ...
        ...
        total += part.item()
    return total


# Exercise 3


def by_recursion(fn, samples, size):
    done, start = [], 0
    while start < len(samples):
        part = samples[start : start + size]
        try:
            done.append(fn(part))
        except OUT_OF_MEMORY:
            if size <= 1:
                raise
            return torch.cat([*done, by_recursion(fn, samples[start:], size // 2)])
        start += len(part)
    return torch.cat(done)


def with_a_flag(fn, samples, size):
    done, start = [], 0
    while start < len(samples):
        too_many = False
        try:
            done.append(fn(samples[start : start + size]))
        except (torch.cuda.OutOfMemoryError, MemoryError):
            too_many = True
        if too_many and size == 1:
            raise torch.OutOfMemoryError("even one sample is too many")
        start, size = (start, max(size // 2, 1)) if too_many else (start + size, size)
    return torch.cat(done)


def halver(caught=OUT_OF_MEMORY, stop=True, then=lambda start, size: (start, size // 2), step=None):
    """An answer to exercise 3 with something wrong."""

    def answer(fn, samples, size):
        done, start = [], 0
        while start < len(samples):
            try:
                done.append(fn(samples[start : start + size]))
                start += size if step is None else step
            except caught:
                if stop and size == 1:
                    raise
                start, size = then(start, size)
        return torch.cat(done)

    return answer


def keeping_what_was_done(fn, samples, size):
    """Starts again, and so does the first samples twice."""
    done = []
    while True:
        try:
            for part in samples.split(size):
                done.append(fn(part))
            return torch.cat(done)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size //= 2


def starting_again(fn, samples, size):
    """Throws away what was done."""
    try:
        return torch.cat([fn(part) for part in samples.split(size)])
    except OUT_OF_MEMORY:
        if size == 1:
            raise
        return starting_again(fn, samples, size // 2)


def one_part_too_many(fn, samples, size):
    done, start = [], 0
    while start <= len(samples):
        done.append(fn(samples[start : start + size]))
        start += size
    return torch.cat(done)


HALVES = [
    (halver(then=lambda start, size: (start, size - 1)), "order", 1, "one less"),
    (one_part_too_many, "enough memory", 0),
    (halver(then=lambda start, size: (start, size // 4)), "order", 1),
    (halver(then=lambda start, size: (start, 1)), "order", 1),
    (halver(step=1), "enough memory", 0),
    (lambda fn, samples, size: torch.cat([fn(part) for part in samples.split(size)]), "order", 1, "no second try"),
    (halver(then=lambda start, size: (start, size)), "order", 1),
    (halver(then=lambda start, size: (0, size // 2)), "order", 2),
    (halver(then=lambda start, size: (start + size, size // 2)), "order", 2),
    (halver(stop=False), "one is too many", 3),
    (keeping_what_was_done, "order", 2),
    (starting_again, "order", 2),
    (halver(caught=torch.OutOfMemoryError), "order", 4),
    (halver(caught=MemoryError), "order", 1),
    (halver(caught=(RuntimeError, MemoryError)), "other errors", 4),
    (halver(caught=Exception), "other errors", 4),
]


WRONG = {
    1: BILLS,
    2: BITES,
    3: HALVES,
}

RIGHT = {
    1: [
        tensor_by_tensor,
        of_real_tensors,
        lambda w, n, t, b, k=1, size=4: (4 * w * (2 + k), t * b * n * size),
    ],
    2: [by_scaling_at_the_end, by_slices],
    3: [by_recursion, with_a_flag],
}

STUBS = {
    1: [
        lambda weights, stored, steps, batch, copies=1, width=4: (..., ...),
        lambda weights, stored, steps, batch, copies=1, width=4: (4 * weights * (2 + copies), ...),
    ],
    2: [stub_of_the_notebook_2],
    3: [lambda fn, samples, size: ...],
}
