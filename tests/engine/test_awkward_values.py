"""Divisions with a rest, on values that bring out how engines differ: signed zeros, subnormal numbers, tenths, halves,
whole numbers at the edge of a mantissa, infinity and NaN. Results and gradients are those of eager PyTorch."""

import pytest
import torch
from torch import nn

from snnkit.engine import js
from snnkit.engine.autograd import Gradients, Pass, backend, presence_of
from snnkit.engine.trace import trace

from . import javascript

# 1 // 0.1 is 9, as 0.1 is a little more than a tenth; the quotient, rounded, is 10.
OPERATIONS = {
    "div-trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div-floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div-floor-0.1": lambda a, b: torch.div(a, 0.1, rounding_mode="floor"),
    "div-floor--3": lambda a, b: torch.div(a, -3, rounding_mode="floor"),
    "div-trunc-0.1": lambda a, b: torch.div(a, 0.1, rounding_mode="trunc"),
    "floor_divide": lambda a, b: torch.floor_divide(a.detach(), b.detach()),
    "a//0.1": lambda a, b: a.detach() // 0.1,
    "7//a": lambda a, b: 7 // a.detach(),
    "remainder": lambda a, b: torch.remainder(a, b),
    "remainder-0.1": lambda a, b: a % 0.1,
    "remainder--0.7": lambda a, b: a % -0.7,
    "5%a": lambda a, b: 5 % a.detach(),
    "fmod": lambda a, b: torch.fmod(a, b),
    "fmod-0.1": lambda a, b: torch.fmod(a, 0.1),
}


def values(dtype):
    """Every pair of awkward numbers, a and b."""
    info = torch.finfo(dtype)
    whole = 2.0 ** (23 if dtype == torch.float32 else 52)  # from here on there are no fractions
    small = [0.0, -0.0, info.smallest_normal / 8, -info.smallest_normal / 8, info.smallest_normal, 1e-20]
    tenths = [k / 10 for k in range(-20, 36)]
    large = [
        7.0,
        -7.0,
        10.0,
        25.0,
        89.0,
        -105.0,
        whole - 0.5,
        0.9 * whole,
        2 * whole - 1,
        2 * whole + 2,
        -whole,
        2.0**31,
    ]
    outside = [1e19, -1e30, info.max, -info.max, float("inf"), float("-inf"), float("nan")]
    a = torch.tensor([*small, *tenths, 1 - info.eps / 2, 1 + info.eps, *large, *outside], dtype=torch.float64).to(dtype)
    b = a[::2].clone()
    return tuple(v.flatten().contiguous() for v in torch.meshgrid(a, b, indexing="ij"))


class Each(nn.Module):
    """One step that does all ``operations``: each has the states a and b, the result takes the place of a."""

    def __init__(self, names):
        super().__init__()
        self.operations = [OPERATIONS[name] for name in names]

    def initial_state(self, x):
        return (torch.zeros_like(x),) * (2 * len(self.operations))

    def step(self, x, state):
        pairs = zip(self.operations, state[::2], state[1::2], strict=True)
        return x * 1.0, tuple(part for operation, a, b in pairs for part in (operation(a, b), b))


def in_eager(name, a, b):
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    out = OPERATIONS[name](a, b)
    if not out.requires_grad:
        return out, torch.zeros_like(a), torch.zeros_like(b)
    weight = torch.full_like(a, 0.75)
    return out.detach(), *torch.autograd.grad(out, (a, b), weight, allow_unused=True, materialize_grads=True)


def compiled(engine, names, a, b):
    """(result, gradient of a, gradient of b) of each."""
    state, weights = [a, b] * len(names), [torch.full_like(a, 0.75), torch.zeros_like(a)] * len(names)
    x = torch.zeros(1, len(a), dtype=a.dtype)
    if engine == "js":
        ((_, last, _, gradients, _),) = javascript.node(
            [js.source(Each(names))], [[1, len(a), x, state, [], x, weights]]
        )
    else:
        equation = trace(Each(names).step, tuple(state), [], a.dtype, torch.device("cpu"))
        run = Pass(equation, x, state, [])
        _, last, saved = backend(engine).forward(run, a.dtype, save=True)
        flags = presence_of(equation, x, [None, *([a, None] * len(names))])
        _, gradients, _ = backend(engine).backward(run, saved, Gradients(x, [*weights, *flags], (True,)))
    return [(last[i], gradients[i], gradients[i + 1]) for i in range(0, 2 * len(names), 2)]


def wrong(found, wanted):
    """Where they differ: in more than 8 units in the last place, in NaN, or in the sign of a zero."""
    info = torch.finfo(wanted.dtype)
    equal = (found == wanted) & (torch.signbit(found) == torch.signbit(wanted))
    close = (found != wanted) & ((found - wanted).abs() <= 8 * info.eps * wanted.abs().clamp_min(info.smallest_normal))
    return ~(equal | close | (found.isnan() & wanted.isnan()))


def check(engine, names, dtype):
    a, b = values(dtype)
    # Where a quotient overflows, the vectors of eager's fmod give NaN, and a right answer elsewhere.
    smallest = torch.fmin(torch.fmin(a.abs(), b.abs()), torch.full_like(a, 0.1))
    fits = ~(a.isfinite() & (torch.full_like(a, 7.0).maximum(a.abs()) / smallest).isinf())
    differences = []
    for name, every in zip(names, compiled(engine, names, a, b), strict=True):
        for what, found, wanted in zip(("result", "d_a", "d_b"), every, in_eager(name, a, b), strict=True):
            different = wrong(found, wanted) & fits
            if what != "result":  # a sum of gradients may begin with 0
                different &= found != wanted
            for i in different.nonzero().flatten().tolist()[:3]:
                differences.append((name, what, a[i].item(), b[i].item(), found[i].item(), wanted[i].item()))
    assert not differences, "name, what, a, b, found, in eager:\n" + "\n".join(map(str, differences))


@pytest.mark.parametrize("engine", ["js", "cpp", pytest.param("block", marks=pytest.mark.slow)])
def test_divisions(engine):
    check(engine, OPERATIONS, torch.float32)
