import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from snnkit.neuron import LIF
from snnkit.surrogate import ATan, FastSigmoid, Sigmoid, StraightThrough, SuperSpike, Surrogate, Triangle

SURROGATES = [ATan(), ATan(5.0), FastSigmoid(), FastSigmoid(2.0), Sigmoid(), Sigmoid(25.0)]
SURROGATES += [SuperSpike(), Triangle(), Triangle(2.0), StraightThrough()]
ids = [str(s) for s in SURROGATES]

# The derivatives once more, as scalar formulas from the papers, independent of the tensors' code.
CLOSED = {
    ATan: lambda s, u: s.alpha / 2 / (1 + (math.pi / 2 * s.alpha * u) ** 2),
    FastSigmoid: lambda s, u: (1 + s.slope * abs(u)) ** -2,
    SuperSpike: lambda s, u: (1 + s.alpha * abs(u)) ** -2,
    Sigmoid: lambda s, u: s.alpha / (2 * math.cosh(s.alpha * u / 2)) ** 2,
    Triangle: lambda s, u: s.alpha * max(0.0, 1 - s.alpha * abs(u)),
    StraightThrough: lambda s, u: 1.0,
}
POINTS = [-3.0, -1.01, -0.6, -0.3, -1e-3, 0.0, 1e-3, 0.2, 0.45, 0.99, 2.5]


@pytest.mark.parametrize("surrogate", SURROGATES, ids=ids)
@given(u=st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_forward_is_zero_or_one(surrogate, u):
    values = torch.tensor(u, dtype=torch.float32)
    at, above = surrogate(values), surrogate(values, strict=True)
    assert torch.equal(at, torch.tensor([1.0 if v >= 0 else 0.0 for v in u]))
    assert torch.equal(above, torch.tensor([1.0 if v > 0 else 0.0 for v in u]))


@pytest.mark.parametrize("surrogate", SURROGATES, ids=ids)
def test_backward_is_the_closed_form(surrogate):
    u = torch.tensor(POINTS, dtype=torch.float64, requires_grad=True)
    upstream = torch.linspace(-2, 3, len(POINTS), dtype=torch.float64)
    surrogate(u).backward(upstream)
    expected = torch.tensor([CLOSED[type(surrogate)](surrogate, v) for v in POINTS], dtype=torch.float64) * upstream
    torch.testing.assert_close(u.grad, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=ids)
def test_derivative_is_that_of_the_primitive(surrogate):
    # No point lies within h of a kink (0 or the feet of a triangle).
    u = torch.tensor([-2.1, -0.7, -0.21, -0.03, 0.04, 0.33, 0.8, 1.7], dtype=torch.float64)
    h = 1e-6
    numerical = (surrogate.primitive(u + h) - surrogate.primitive(u - h)) / (2 * h)
    torch.testing.assert_close(surrogate.derivative(u), numerical, rtol=1e-6, atol=1e-8)
    assert surrogate.primitive(torch.zeros(1)).item() == 0.5


@pytest.mark.parametrize("surrogate", SURROGATES, ids=ids)
@given(bits=st.integers(0, 2**32 - 1))
def test_finite_at_every_float32(surrogate, bits):
    u = torch.tensor([bits - 2**32 if bits >= 2**31 else bits], dtype=torch.int32).view(torch.float32)
    if torch.isnan(u):
        return
    derivative = surrogate.derivative(u)
    assert torch.isfinite(derivative).all() and (derivative >= 0).all()


class Box(Surrogate):
    """A learner's own: no dataclass, not frozen."""

    def __init__(self, width):
        self.width = width

    def derivative(self, u):
        return (u.abs() < self.width).to(u.dtype)


class Unhashable(Box):
    __hash__ = None

    def __eq__(self, other):
        return True


OWN = [ATan(3.0), Box(0.2), Box(0.6), Unhashable(0.2), Unhashable(0.6)]


def gradient(function, u):
    u = u.clone().requires_grad_()
    function(u).sum().backward()
    return u.grad


def gradient_of_net(net, x):
    return gradient(lambda u: net(u)[0], x)


@pytest.mark.parametrize("family", [ATan, FastSigmoid, Sigmoid, SuperSpike, Triangle, Box, Unhashable])
def test_whole_model_compilation_takes_several_values_in_one_process(family):
    torch.compiler.reset()
    x = torch.rand(4, 2) * 2
    for value in (0.3, 0.6, 0.9):
        net = LIF(surrogate=family(value))
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        torch.testing.assert_close(gradient_of_net(compiled, x), gradient_of_net(net, x))


def test_annealing_reaches_compiled_code():
    torch.compiler.reset()
    net, x = LIF(), torch.rand(4, 2) * 2
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    for alpha in (2.0, 5.0, 9.0, 2.0):
        net.surrogate = ATan(alpha)
        torch.testing.assert_close(gradient_of_net(compiled, x), gradient_of_net(LIF(surrogate=ATan(alpha)), x))


@pytest.mark.parametrize("surrogate", OWN, ids=[f"{type(s).__name__}{i}" for i, s in enumerate(OWN)])
def test_functional_transforms_and_make_fx_see_the_surrogate(surrogate):
    u = torch.rand(3, 4) - 0.5
    expected = surrogate.derivative(u)
    _, pull = torch.func.vjp(surrogate, u)
    assert torch.equal(pull(torch.ones_like(u))[0], expected)
    row = torch.func.grad(lambda row: surrogate(row).sum())
    assert torch.equal(torch.func.vmap(row)(u), expected)
    traced = make_fx(lambda u: gradient(surrogate, u))(u)
    assert torch.equal(traced(u), expected)


@pytest.mark.parametrize("surrogate", OWN, ids=[f"{type(s).__name__}{i}" for i, s in enumerate(OWN)])
def test_pickles_and_copies_have_their_own_function(surrogate):
    u = torch.rand(8) - 0.5
    for clone in (pickle.loads(pickle.dumps(surrogate)), copy.copy(surrogate), copy.deepcopy(surrogate)):
        assert vars(clone).keys() == vars(surrogate).keys() and clone._spike is not surrogate._spike
        assert torch.equal(gradient(clone, u), surrogate.derivative(u))


def test_base_class_says_what_is_missing():
    class Empty(Surrogate):
        pass

    u = torch.zeros(1, requires_grad=True)
    with pytest.raises(TypeError, match="Empty must define derivative"):
        Empty()(u).backward()
