"""What a learner may write in a step, and what it means there, is the same in C++ as in PyTorch."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from snnkit.engine import unroll
from snnkit.engine.program import Untranslatable, _Reader, programs
from snnkit.engine.trace import trace

VALUES = torch.tensor([-7.0, -2.5, -1.0, -0.3, -0.1, 0.1, 0.3, 0.7, 1.0, 1.5, 2.5, 6.0, 1e4], dtype=torch.float64)
A, B = (v.flatten() for v in torch.meshgrid(VALUES, VALUES, indexing="ij"))

OPERATIONS = {
    "remainder": lambda a, b: torch.remainder(a, b),
    "remainder-of-number": lambda a, b: a % -0.7,
    "floor-division": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=0.25),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.25),
    "lerp": lambda a, b: torch.lerp(a, b, torch.sigmoid(a)),
    "asinh": lambda a, b: torch.asinh(a),
    "acosh": lambda a, b: torch.acosh(a.abs() + 1),
    "atanh": lambda a, b: torch.atanh(a / 2e4),
    "sgn": lambda a, b: torch.sgn(a) * b + torch.sgn(b - a),
    "sgn-of-lerp": lambda a, b: torch.sgn(torch.lerp(a, b, 0.25)) * b,  # its slope is a tensor without memory
    "bools-divided": lambda a, b: torch.nan_to_num((a > 0.5) / (b > 0.4), 7.0, 8.0).to(a.dtype) + a,
    "round-to-tenths": lambda a, b: torch.round(a * b, decimals=1) + a,
    "round-to-tens": lambda a, b: torch.round(a * b, decimals=-1) + a,
    "maximum-of-itself": lambda a, b: torch.maximum(a, 0.5 * a + 0.1),
    "softplus": lambda a, b: torch.nn.functional.softplus(a / 1e3),
    "leaky_relu": lambda a, b: torch.nn.functional.leaky_relu(a) + torch.nn.functional.elu(b),
    "hardtanh": lambda a, b: torch.nn.functional.hardtanh(a) + torch.nn.functional.hardsigmoid(b.detach()),
    "mish": lambda a, b: torch.nn.functional.mish(a / 1e3),
    "where": lambda a, b: torch.where(a > 0.3, a, a.new_zeros(())) + b.clamp(0.2, 0.8),
    "pow": lambda a, b: (a.abs() + 2) ** 1.5,
    "constants-of-a-shape": lambda a, b: torch.where(a > b, torch.zeros(a.shape).to(a), a.new_full(a.shape, 0.5) * b),
}

# The equation is in one dtype, a part of it in the other; a number is rounded as where it stands.
OTHER_DTYPE = {
    "float32-number-in-float64": lambda a, b: (a.float() > 0.1).to(a.dtype) + (a.float() * 0.3).to(a.dtype),
    "float64-number-in-float32": lambda a, b: (a.double() * 0.1 - a.double() / 10 + 1 / 3 * b.double()).to(a.dtype),
    "float32-constant": lambda a, b: a * torch.scalar_tensor(0.1),
}


def through(engine, operations, dtype):
    """Results of all operations and their gradients for a and b; one step holds them all, each has a state."""
    a, *states = (v.to(dtype).requires_grad_() for v in (A, *[B] * len(operations)))

    def step(x, state):
        results = [function(x, b) for function, b in zip(operations.values(), state, strict=True)]
        return x * 1.0, tuple(results)

    _, last = unroll(step, a[None], tuple(states), engine=engine)
    weights = torch.linspace(1, 2, len(a), dtype=dtype)
    gradients = [
        torch.autograd.grad((out * weights).sum(), (a, b), retain_graph=True, allow_unused=True, materialize_grads=True)
        for out, b in zip(last, states, strict=True)
    ]
    return [out.detach() for out in last], gradients


@pytest.mark.filterwarnings("error:.*engine.*:UserWarning")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_operations(dtype):
    (found, gradients), (wanted, wanted_gradients) = (through(e, OPERATIONS, dtype) for e in ("cpp", "eager"))
    close = {"rtol": 16 * torch.finfo(dtype).eps, "atol": 16 * torch.finfo(dtype).eps}
    for name, *of_cpp, out, gradient in zip(OPERATIONS, found, gradients, wanted, wanted_gradients, strict=True):
        torch.testing.assert_close(of_cpp, [out, gradient], **close, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.filterwarnings("error:.*engine.*:UserWarning")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_numbers_in_another_dtype(dtype):
    found, wanted = (through(e, OTHER_DTYPE, dtype)[0] for e in ("cpp", "eager"))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def in_place_under_another_name(x, state):
    y = x * 1.5
    other = y.detach()
    y.add_(state[0])
    return other, (y,)


def in_place_on_the_state(x, state):
    (v,) = state
    v = v.clone()
    v.mul_(0.9).add_(x)
    spike = (v >= 1).to(v.dtype)
    v.masked_fill_(v >= 1, 0.0)
    return spike, (v,)


@pytest.mark.filterwarnings("error:.*engine.*:UserWarning")
@pytest.mark.parametrize("compiled", ["cpp", pytest.param("block", marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", [in_place_under_another_name, in_place_on_the_state])
def test_in_place(step, compiled):
    x = torch.rand(5, 7, dtype=torch.float64)
    state = (torch.rand(7, dtype=torch.float64),)
    found, expected = (unroll(step, x, state, engine=name) for name in (compiled, "eager"))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)


def test_a_setting_that_is_not_known_is_not_passed_over():
    graph = make_fx(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), tracing_mode="fake")(torch.zeros(3))
    with pytest.raises(Untranslatable, match="no expression for gelu with approximate"):
        _Reader(["x"], torch.float32).read(graph)


def test_numbers_of_another_device_are_no_obstacle():
    def step(x, state):
        v = torch.where(x > 0.5, 0.9 * state[0] + x, 0.0)
        return torch.where(v > 1, 1.0, 0.0), (v,)

    found = []
    for kind in ("cpu", "meta"):
        device = torch.device(kind)
        equation = trace(step, (torch.zeros(1, device=device),), [], torch.float32, device)
        found.append(programs(equation).forward)
    assert found[0] == found[1]
