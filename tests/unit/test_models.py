"""Reference networks: parameter counts by hand, shapes, gradients, and the published network."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from snnkit import encode, loss
from snnkit.models import ConvNet, EventConvNet, EventRecurrentNet, FashionConvNet, mlp
from snnkit.neuron import CubaLIF, Neuron
from snnkit.surrogate import FastSigmoid

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


def test_parameter_counts_by_hand():
    assert parameters(mlp(surrogate=torch.sign)) == (784 * 1000 + 1000) + (1000 * 10 + 10) == 795_010
    # 28 → 24 → 12 → 8 → 4 pixels
    expected = (20 * 25 + 20) + (50 * 20 * 25 + 50) + (50 * 4 * 4 * 500 + 500) + (500 * 10 + 10)
    assert parameters(ConvNet()) == expected == 431_080
    assert not any(bias.any() for name, bias in list(ConvNet().named_parameters())[:-2] if name.endswith("bias"))
    # two channels of 34 pixels: 34 → 30 → 15 → 11 → 5
    events = ConvNet(2, 34, 11, widths=SMALL)
    assert parameters(events) == (6 * 2 * 25 + 6) + (10 * 6 * 25 + 10) + (10 * 5 * 5 * 30 + 30) + (30 * 11 + 11)


@given(st.integers(4, 40), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_convnet_takes_every_image_size_from_four(size, channels, classes):
    net = ConvNet(channels, size, classes, widths=SMALL, engine="eager")
    assert net(images(2, 3, channels, size))[0].shape == (2, 3, classes)


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


def frames(steps=5, batch=3, polarities=2, size=16):
    draw = torch.Generator().manual_seed(0)
    return (torch.rand(steps, batch, polarities, size, size, generator=draw) < 0.3).float()


def test_parameter_counts_of_event_nets():
    # 16 → 8 → 4 pixels
    conv = (16 * 2 * 9 + 16) + (32 * 16 * 9 + 32) + (10 * 32 * 4 * 4 + 10)
    assert parameters(EventConvNet()) == conv == 10_074
    # 34 → 17 → 9
    assert parameters(EventConvNet(1, 34, 11, widths=(3, 4))) == (3 * 9 + 3) + (4 * 27 + 4) + (11 * 4 * 81 + 11)
    assert parameters(EventRecurrentNet()) == (512 * 128 + 128) + 128 * 128 + (128 * 10 + 10) == 83_338
    with pytest.raises(ValueError, match="sizes must hold at least the number of inputs and of outputs"):
        mlp((784,))
    with pytest.raises(ValueError, match=r"widths must be 3 integers, but it is \[6, 10\]"):
        ConvNet(widths=(6, 10))


@pytest.mark.parametrize("size", [4, 7, 16])
def test_shapes_and_gradients_of_event_nets(size):
    for net in (EventConvNet(2, size, engine="eager"), EventRecurrentNet(2 * size * size, engine="eager")):
        out, _ = net(frames(size=size))
        assert out.shape == (5, 3, 10) and set(out.unique().tolist()) <= {0.0, 1.0}
        out.sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


# --- the conv net of SpikingJelly's tutorial --------------------------------------------------------------------------


def small_fashion():
    torch.manual_seed(0)
    return FashionConvNet(6, 20, size=8, engine="eager")


def written_out(net, x_seq):
    """The published network, one operation after the other, one step after the other; batch norm over all steps."""
    conv1, bn1, conv2, bn2, linear1, linear2 = net[0], net[1].module, net[4], net[5], net[9], net[11]

    def norm(x, layer):
        steps = x.flatten(0, 1)
        mean, var = steps.mean((0, 2, 3), keepdim=True), steps.var((0, 2, 3), correction=0, keepdim=True)
        scale, shift = layer.weight.view(1, -1, 1, 1), layer.bias.view(1, -1, 1, 1)
        return ((steps - mean) / (var + 1e-5).sqrt() * scale + shift).unflatten(0, x.shape[:2])

    def fire(x):
        v, spikes = torch.zeros_like(x[0]), []
        for x_t in x:
            v = v + x_t
            spike = (v >= 1).to(v.dtype)
            v = v * (1 - spike)
            spikes.append(spike)
        return torch.stack(spikes)

    def each(function, x):
        return torch.stack([function(x_t) for x_t in x])

    x = each(lambda x_t: F.conv2d(x_t, conv1.weight, padding=1), x_seq)
    x = each(lambda x_t: F.max_pool2d(x_t, 2, 2), fire(norm(x, bn1)))
    x = each(lambda x_t: F.conv2d(x_t, conv2.weight, padding=1), x)
    x = each(lambda x_t: F.max_pool2d(x_t, 2, 2), fire(norm(x, bn2)))
    x = fire(each(lambda x_t: x_t.flatten(1) @ linear1.weight.T, x))
    return fire(each(lambda x_t: x_t @ linear2.weight.T, x))


@pytest.mark.parametrize("static", [True, False])
def test_it_is_the_published_network(static):
    net = small_fashion().double()
    with torch.no_grad():
        for index in (9, 11):
            net[index].weight.mul_(4)  # so that the last layers fire
    x = encode.repeat((4 * images(1, 4)[0]).double(), 6)
    x = x if static else x * torch.linspace(0.5, 1.5, 6, dtype=torch.float64).view(-1, 1, 1, 1, 1)
    with torch.no_grad():
        out, _ = net(x)
        expected = written_out(net, x)
    assert 0.05 < expected.mean() < 0.95
    assert torch.equal(out, expected)


@pytest.mark.parametrize("training", [True, False])
def test_the_first_convolution_and_norm_see_a_static_image_once(training):
    net, rows = small_fashion().train(training), []
    for layer in (net[0], net[1].module, net[4]):
        layer.register_forward_hook(lambda module, inputs, out: rows.append(len(inputs[0])))
    net(encode.repeat(images(1, 3)[0], 5))
    assert rows == [3, 3, 15]
    rows.clear()
    net(encode.repeat(images(1, 3)[0], 5).contiguous())
    assert rows == [15, 15, 15]
