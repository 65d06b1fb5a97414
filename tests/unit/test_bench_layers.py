"""Each layer by itself, forward and backward."""

import pytest
import torch

from snnkit import encode, models, neuron, nn
from snnkit.bench import layers
from snnkit.bench.layers import layer_times
from snnkit.device.precision import Precision


class CountingClock:
    """Runs what it is given, and takes every call for a second."""

    name = "counting"

    def seconds(self, function, calls=1):
        for _ in range(calls):
            function()
        return 1.0, 1.0


class Spy(torch.nn.Module):
    """Hands on its input, and notes what it saw, and whether its gradient was asked for."""

    def __init__(self):
        super().__init__()
        self.seen, self.backward = [], 0

    def forward(self, x):
        self.seen.append((tuple(x.shape), x.dtype, x.requires_grad))
        if x.requires_grad:
            x = x * 1
            x.register_hook(self._note)
        return x

    def _note(self, gradient):
        self.backward += 1


def test_a_time_for_each_layer_and_the_net_as_it_was():
    net = models.FashionConvNet(2, 4, size=8, engine="eager")
    before = {key: value.clone() for key, value in net.state_dict().items()}
    times = layer_times(net, encode.repeat(torch.rand(3, 1, 8, 8), 4), repeats=3)
    assert len(times) == len(net) and all(seconds > 0 for seconds in times)
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert net.training and all(p.grad is None for p in net.parameters())


def test_layers_get_the_input_that_they_have_in_the_net():
    first, second = Spy(), Spy()
    net = nn.Sequential(first, torch.nn.Linear(3, 5), neuron.Leaky(0.9, engine="eager"), second)
    assert layer_times(net, torch.rand(4, 2, 3), repeats=3, clock=CountingClock()) == [1.0] * 4
    assert first.seen[-1] == ((8, 3), torch.float32, False) and first.backward == 0
    assert second.seen[-1] == ((8, 5), torch.float32, True) and second.backward > 3


def test_what_is_static_stays_static(monkeypatch):
    spy, given = Spy(), []
    both_ways = layers._both_ways
    monkeypatch.setattr(
        layers, "_both_ways", lambda layer, x, *rest, **more: given.append(x) or both_ways(layer, x, *rest, **more)
    )
    net = nn.Sequential(torch.nn.Linear(3, 5), spy, neuron.Leaky(0.9, engine="eager"))
    layer_times(net, encode.repeat(torch.rand(2, 3), 4), repeats=3, clock=CountingClock())
    assert {shape for shape, _, _ in spy.seen} == {(2, 5)}
    assert [x.shape[0] for x in given] == [1, 1, 4] and nn.is_static(given[2])


def test_under_autocast():
    spy, seen = Spy(), []
    net = nn.Sequential(torch.nn.Linear(3, 5), spy)
    net[0].register_forward_hook(lambda module, args, out: seen.append(out.dtype))
    precision = Precision(torch.device("cpu"), torch.bfloat16)
    layer_times(net, torch.rand(4, 2, 3), precision=precision, repeats=3, clock=CountingClock())
    assert spy.seen[-1][1] == torch.bfloat16 and set(seen) == {torch.bfloat16} and len(seen) > 4


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"net must be a snnkit\.nn\.Sequential"):
        layer_times(torch.nn.Linear(2, 2), torch.rand(1, 1, 2))
    with pytest.raises(ValueError, match="repeats"):
        layer_times(nn.Sequential(torch.nn.Linear(2, 2)), torch.rand(1, 1, 2), repeats=2)
