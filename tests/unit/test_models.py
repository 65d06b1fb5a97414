"""Reference networks: parameter counts by hand, shapes of output and state, gradients, copies, learning, bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit import encode, loss
from snnkit.models import ConvNet, mlp
from snnkit.neuron import LI, CubaLIF, Leaky, Neuron
from snnkit.surrogate import ATan, FastSigmoid, SuperSpike

SMALL = (6, 10, 30)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def small_convnet(**arguments):
    torch.manual_seed(0)
    return ConvNet(**{"size": 8, "widths": SMALL, "engine": "eager", **arguments})


def small_mlp(**arguments):
    torch.manual_seed(0)
    return mlp((64, 12, 10), **{"engine": "eager", **arguments})


def images(steps=5, batch=2, channels=1, size=8):
    return torch.rand(steps, batch, channels, size, size, generator=torch.Generator().manual_seed(0))


# --- structure -------------------------------------------------------------------------------------------------------


def test_parameter_counts_by_hand():
    assert parameters(mlp()) == (784 * 1000 + 1000) + (1000 * 10 + 10) == 795_010
    assert parameters(mlp((64, 32, 16, 10))) == (64 * 32 + 32) + (32 * 16 + 16) + (16 * 10 + 10)
    # 28 → 24 → 12 → 8 → 4 pixels
    expected = (20 * 25 + 20) + (50 * 20 * 25 + 50) + (50 * 4 * 4 * 500 + 500) + (500 * 10 + 10)
    assert parameters(ConvNet()) == expected == 431_080
    # 8 → 8 → 4 → 4 → 2 pixels
    assert parameters(ConvNet(size=8)) == (20 * 9 + 20) + (50 * 20 * 9 + 50) + (50 * 2 * 2 * 500 + 500) + (
        500 * 10 + 10
    )
    # two channels of 34 pixels: 34 → 30 → 15 → 11 → 5
    events = ConvNet(2, 34, 11, widths=SMALL)
    assert parameters(events) == (6 * 2 * 25 + 6) + (10 * 6 * 25 + 10) + (10 * 5 * 5 * 30 + 30) + (30 * 11 + 11)


def test_arguments_reach_the_neurons():
    for layer in mlp((4, 3, 2), beta=0.7, reset_mechanism="zero", surrogate=FastSigmoid(5.0), engine="eager"):
        if isinstance(layer, Leaky):
            assert (layer.beta, layer.reset_mechanism, layer.engine) == (0.7, "zero", "eager")
            assert layer.surrogate == FastSigmoid(5.0)
    assert [m.surrogate for m in mlp() if isinstance(m, Leaky)] == [ATan()] * 2
    assert {m.engine for m in small_convnet() if isinstance(m, (CubaLIF, LI))} == {"eager"}
    assert {m.surrogate for m in ConvNet() if isinstance(m, CubaLIF)} == {SuperSpike(100.0)}


# --- running ---------------------------------------------------------------------------------------------------------


@given(st.integers(4, 40), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_convnet_takes_every_image_size_from_four(size, channels, classes):
    net = ConvNet(channels, size, classes, widths=SMALL, engine="eager")
    assert net(images(2, 3, channels, size))[0].shape == (2, 3, classes)


def test_state_shapes_of_the_full_networks():
    x = encode.repeat(torch.rand(2, 1, 28, 28), 3)
    out, state = mlp(engine="eager")(x)
    assert out.shape == (3, 2, 10)
    assert [s is None for s in state] == [True, True, False, True, False]
    assert state[2].mem.shape == (2, 1000) and state[4].mem.shape == (2, 10)
    out, state = ConvNet(engine="eager")(x)
    assert out.shape == (3, 2, 10)
    shapes = {i: tuple(s.v.shape) for i, s in enumerate(state) if s is not None}
    assert shapes == {1: (2, 20, 24, 24), 4: (2, 50, 8, 8), 8: (2, 500), 10: (2, 10)}
    assert all(s.i.shape == s.v.shape for s in state if s is not None)


@pytest.mark.parametrize("build", [small_mlp, small_convnet])
def test_two_halves_with_state_are_the_whole(build):
    net, x = build(), 3 * images(8)
    whole, last = net(x)
    first, state = net(x[:3])
    second, end = net(x[3:], state)
    assert whole.abs().sum() > 0
    assert torch.allclose(torch.cat((first, second)), whole, atol=1e-6)
    for a, b in zip(end, last, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("build", [small_mlp, small_convnet])
def test_static_input_gives_what_the_copied_one_gives(build):
    net = build()
    static = encode.repeat(3 * images(1)[0], 6)
    assert torch.allclose(net(static)[0], net(static.contiguous())[0], atol=1e-5)


@pytest.mark.parametrize("build", [small_mlp, small_convnet])
def test_every_parameter_gets_a_gradient(build):
    net = build()
    for module in net:
        if isinstance(module, Neuron) and module.spiking:
            module.surrogate = FastSigmoid(2.0)
    out, _ = net(2 * images(10, 8))
    loss.membrane_max_cross_entropy(out, torch.arange(8)).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_convnet_fires_in_every_layer_before_training():
    # With PyTorch's own initial weights the layers behind the first are silent on this input, and nothing is learned.
    for size in (8, 28):
        torch.manual_seed(0)
        net = ConvNet(size=size, engine="eager")
        with torch.no_grad():
            layers = net.record(encode.repeat(images(1, 4, 1, size)[0], 16)).layers
        for layer, out in zip(net, layers, strict=True):
            if isinstance(layer, CubaLIF):
                assert 0.02 < float(out.mean()) < 0.4


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"sizes": (784,)}, ValueError, "sizes must hold at least"),
        ({"sizes": ()}, ValueError, "sizes must hold at least"),
        ({"sizes": 784}, TypeError, "sizes must be a tuple of integers"),
        ({"sizes": "784"}, TypeError, "sizes must be a tuple of integers"),
        ({"sizes": (784, 0, 10)}, ValueError, r"sizes\[1\] must be at least 1"),
        ({"sizes": (784, 10.0)}, TypeError, r"sizes\[1\] must be an integer"),
        ({"sizes": (True, 10)}, TypeError, r"sizes\[0\] must be an integer"),
        ({"beta": 1.5}, ValueError, "beta"),
        ({"beta": math.nan}, ValueError, "beta"),
        ({"reset_mechanism": "sub"}, ValueError, "reset_mechanism"),
        ({"surrogate": "atan"}, TypeError, "surrogate"),
        ({"engine": "fast"}, ValueError, "engine"),
        ({"flatten": 1}, TypeError, "flatten must be True or False"),
    ],
)
def test_mlp_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        mlp(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"channels": 0}, ValueError, "channels must be at least 1"),
        ({"channels": "1"}, TypeError, "channels must be an integer"),
        ({"size": 3}, ValueError, "size must be at least 4"),
        ({"size": (28, 28)}, TypeError, "size must be an integer"),
        ({"classes": -1}, ValueError, "classes must be at least 1"),
        ({"classes": 10.0}, TypeError, "classes must be an integer"),
        ({"widths": (20, 50)}, ValueError, "widths must be 3 integers"),
        ({"widths": 20}, TypeError, "widths must be 3 integers"),
        ({"widths": (20, 50, 0)}, ValueError, r"widths\[2\] must be at least 1"),
        ({"engine": "fast"}, ValueError, "engine"),
    ],
)
def test_convnet_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        ConvNet(**arguments)
