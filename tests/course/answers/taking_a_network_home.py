"""Answers to the exercises of taking_a_network_home."""

import copy
import io

import torch

from snnkit.lab.exercises.taking_a_network_home import snapshot, to_integers

# Exercise 1


def without(part):
    def answer(net, optimizer, order, epoch):
        saved = snapshot(net, optimizer, order, epoch)
        del saved[part]
        return saved

    return answer


def instead(**parts):
    """The reference's snapshot with another value for some parts: functions of its arguments."""

    def answer(*given):
        return snapshot(*given) | {name: make(*given) for name, make in parts.items()}

    return answer


def in_a_list(net, optimizer, order, epoch):
    return list(snapshot(net, optimizer, order, epoch).values())


def not_copied(net, optimizer, order, epoch):
    return {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "order": order.get_state(), "epoch": epoch}


def a_copy_of_the_dict(net, optimizer, order, epoch):
    return {name: copy.copy(value) for name, value in not_copied(net, optimizer, order, epoch).items()}


def fresh_optimizer(net, optimizer, order, epoch):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9).state_dict()


def seeded(net, optimizer, order, epoch):
    return torch.Generator().manual_seed(order.initial_seed()).get_state()


def with_the_first_rate(net, optimizer, *_):
    state = copy.deepcopy(optimizer.state_dict())
    return state | {
        "param_groups": torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9).state_dict()["param_groups"]
    }


def draws_a_sample(net, optimizer, order, epoch):
    torch.rand(1, generator=order)
    return snapshot(net, optimizer, order, epoch)


SNAPSHOTS = [
    (instead(net=lambda net, *_: copy.deepcopy(dict(net.named_parameters()))), "it goes on", 1, "parameters alone"),
    (instead(epoch=lambda *_: 3), "four parts", 0, "always three"),
    (instead(optimizer=with_the_first_rate), "it goes on", 2),
    (draws_a_sample, "four parts", "Draw no samples"),
    (without("order"), "four parts", 0),
    (in_a_list, "four parts", 0),
    (instead(epoch=lambda *given: given[-1] + 1), "four parts", 0),
    (instead(net=lambda net, *_: net), "it goes on", 1),
    (instead(net=lambda net, *_: copy.deepcopy(list(net.parameters()))), "it goes on", 1),
    (instead(optimizer=fresh_optimizer), "it goes on", 2),
    (instead(optimizer=lambda net, optimizer, *_: optimizer), "it goes on", 2),
    (instead(order=seeded), "it goes on", 3),
    (instead(order=lambda net, optimizer, order, epoch: order.initial_seed()), "it goes on", 3),
    (not_copied, "a picture of the moment", 4),
    (a_copy_of_the_dict, "a picture of the moment", 4),
    (instead(optimizer=lambda net, optimizer, *_: optimizer.state_dict()), "a picture of the moment", 4),
]


def through_a_file(net, optimizer, order, epoch):
    file = io.BytesIO()
    torch.save(not_copied(net, optimizer, order, epoch), file)
    file.seek(0)
    return torch.load(file)


def copied_objects(net, optimizer, order, epoch):
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    momentum = copy.deepcopy(optimizer.state_dict())
    return {"net": weights, "optimizer": momentum, "order": order.get_state().clone(), "epoch": epoch}


# Exercise 2


def whole(scale_of, number_of):
    """An answer from the scale of (weight, largest) and the numbers of (weight / scale)."""

    def answer(weight, bits=8):
        scale = scale_of(weight, 2 ** (bits - 1) - 1)
        return number_of(weight / scale).to(torch.int8), scale

    return answer


def per_row(weight, largest):
    return weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / largest


def unsigned_bits(weight, bits=8):
    numbers, scale = to_integers(weight, bits)
    return (numbers, scale) if bits == 8 else whole(lambda w, _: per_row(w, 2**bits - 1), torch.round)(weight, bits)


INTEGERS = [
    (
        whole(lambda w, largest: w.amax(1, keepdim=True).clamp(min=1e-12) / largest, torch.round),
        "one scale per output",
        1,
        "no abs",
    ),
    (
        whole(lambda w, largest: -w.amin(1, keepdim=True) / largest, torch.round),
        "one scale per output",
        1,
        "the lowest",
    ),
    (
        whole(lambda w, largest: w.abs().amax(1, keepdim=True).clamp(min=1e-3) / largest, torch.round),
        "a row of zeros",
        "far below",
        "a large guard",
    ),
    (lambda weight, bits=8: to_integers(weight, 8 if bits == 8 else 4), "fewer bits", 4, "eight or four"),
    (lambda weight, bits=8: to_integers(weight, bits)[0], "a pair", 0),
    (lambda weight, bits=8: to_integers(weight, bits)[::-1], "a pair", 0, "swapped"),
    (lambda weight, bits=8: (to_integers(weight, bits)[0].float(), to_integers(weight, bits)[1]), "a pair", 0),
    (whole(lambda w, largest: w.abs().amax() / largest, torch.round), "a pair", 1),
    (whole(lambda w, largest: w.abs().amax(1) / largest, torch.round), "a pair", 1, "a row of scales"),
    (whole(lambda w, largest: w.abs().amax(0, keepdim=True) / largest, torch.round), "a pair", 1),
    (whole(lambda w, largest: w.abs().amax() / largest + 0 * w[:, :1], torch.round), "one scale per output", 1),
    (whole(lambda w, largest: w.amax(1, keepdim=True) / largest / 2, torch.round), "one scale per output", 1),
    (whole(lambda w, largest: per_row(w, largest + 1), torch.round), "no overflow", 2),
    (whole(per_row, lambda x: x), "rounded", 3),
    (whole(per_row, torch.floor), "rounded", 3),
    (lambda weight, bits=8: to_integers(weight), "fewer bits", 4, "always eight"),
    (unsigned_bits, "fewer bits", 4),
    (whole(lambda w, largest: w.abs().amax(1, keepdim=True) / largest, torch.round), "a row of zeros", 5),
]


def in_numpy_style(weight, bits=8):
    largest = 2 ** (bits - 1) - 1
    top = torch.maximum(weight.amax(1), -weight.amin(1)).unsqueeze(1)
    scale = torch.where(top > 0, top / largest, 1.0)
    return torch.clamp(torch.round(weight / scale), -largest, largest).char(), scale


def row_by_row(weight, bits=8):
    largest = 2 ** (bits - 1) - 1
    scales = [max(row.abs().max().item(), 1e-9) / largest for row in weight]
    rows = [(row / scale).round() for row, scale in zip(weight, scales, strict=True)]
    return torch.stack(rows).to(torch.int8), torch.tensor(scales).unsqueeze(1)


WRONG = {1: SNAPSHOTS, 2: INTEGERS}
RIGHT = {
    1: [through_a_file, copied_objects],
    2: [in_numpy_style, row_by_row, lambda w, n=8: in_numpy_style(w, n)],
}
STUBS = {
    1: [lambda net, optimizer, order, epoch: ...],
    2: [lambda weight, bits=8: ..., lambda weight, bits=8: (..., ...)],
}
