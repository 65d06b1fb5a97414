"""The conv net of SpikingJelly's tutorial: against its equations written out, and its first layers computed once."""

import pytest
import torch
import torch.nn.functional as F

from snnkit import encode
from snnkit.models import FashionConvNet


def small(**arguments):
    torch.manual_seed(0)
    return FashionConvNet(**{"channels": 6, "hidden": 20, "size": 8, "engine": "eager", **arguments})


def images(batch=4, size=8, channels=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return 4 * torch.rand(batch, channels, size, size, generator=generator, dtype=dtype)


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
    net = small().double()
    with torch.no_grad():
        for index in (9, 11):
            net[index].weight.mul_(4)  # so that the last layers fire
    x = encode.repeat(images(dtype=torch.float64), 6)
    x = x if static else x * torch.linspace(0.5, 1.5, 6, dtype=torch.float64).view(-1, 1, 1, 1, 1)
    with torch.no_grad():
        out, _ = net(x)
        expected = written_out(net, x)
    assert 0.05 < expected.mean() < 0.95
    assert torch.equal(out, expected)


@pytest.mark.parametrize("training", [True, False])
def test_the_first_convolution_and_norm_see_a_static_image_once(training):
    net, rows = small().train(training), []
    for layer in (net[0], net[1].module, net[4]):
        layer.register_forward_hook(lambda module, inputs, out: rows.append(len(inputs[0])))
    net(encode.repeat(images(3), 5))
    assert rows == [3, 3, 15]
    rows.clear()
    net(encode.repeat(images(3), 5).contiguous())
    assert rows == [15, 15, 15]
