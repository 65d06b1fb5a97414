"""Answers to the exercise of ``examples`` that hang, print for ever, raise or change what is not theirs."""

import sys
import time

import torch


def for_ever(v, x, beta):
    while True:
        v = beta * v


def asleep(v, x, beta):
    time.sleep(600)


def printing(v, x, beta):
    while True:
        print("still here")


def exits(v, x, beta):
    sys.exit(3)


class Own(BaseException):
    def __str__(self):
        raise ValueError("no words")


def raises_its_own(v, x, beta):
    raise Own


class Exits:
    def __repr__(self):
        sys.exit(3)


class Hangs(Exception):
    def __repr__(self):
        while True:
            pass

    __str__ = __repr__


def returns_what_exits(v, x, beta):
    return Exits()


def raises_what_exits(v, x, beta):
    raise type("Leaves", (Exits, Exception), {"__str__": Exits.__repr__})


def raises_what_hangs(v, x, beta):
    raise Hangs


def recurses(v, x, beta):
    return recurses(v, x, beta)


def asks_for_everything(v, x, beta):
    return torch.zeros(10**15)


def generates(v, x, beta):
    yield beta * v + x


async def awaits(v, x, beta):
    return beta * v + x


def on_meta(v, x, beta):
    return (beta * v + x).to("meta")


def changes_its_input(v, x, beta):
    v *= beta
    return v + x


def changes_it_behind_pytorch(v, x, beta):
    v.numpy()[0] = 7.0
    return beta * v + x


def doubles(v, x, beta):
    torch.set_default_dtype(torch.float64)
    return beta * v + x


def forgets_gradients(v, x, beta):
    torch.set_grad_enabled(False)
    return beta * v + x


def seeds(v, x, beta):
    torch.manual_seed(12345)
    return beta * v + x


def to_meta_by_default(v, x, beta):
    torch.set_default_device("meta")
    return beta * v + x


CASES = {
    for_ever: "was stopped: it had computed for 1 s",
    asleep: "was stopped: it had waited for 1 s",
    printing: "was stopped: it had computed for 1 s",
    exits: "A function ends with `return`",
    raises_its_own: "Your code raised Own",
    returns_what_exits: "must be a tensor, not an Exits",
    raises_what_exits: "Your code raised Leaves",
    raises_what_hangs: "Your code raised Hangs",
    recurses: "calls itself without end",
    asks_for_everything: "needs more memory than there is",
    generates: "returned a generator",
    awaits: "returned a coroutine",
    on_meta: "device meta",
    changes_its_input: "must not change its inputs",
    changes_it_behind_pytorch: "must not change its inputs",
    doubles: "PyTorch's default dtype (torch.float32 → torch.float64)",
    forgets_gradients: "whether PyTorch records gradients (True → False)",
    seeds: "the seed of PyTorch's random numbers",
    to_meta_by_default: "PyTorch's default device (cpu → meta)",
}
