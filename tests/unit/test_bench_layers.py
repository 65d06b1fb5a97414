"""Times of layers: each kind of layer once, static inputs computed once, weights untouched."""

from __future__ import annotations

import copy

import torch

from snnkit import bench, encode, models


def test_times_of_layers_are_by_kind_and_leave_the_weights_alone():
    net = models.FashionConvNet(2, 4)
    before = copy.deepcopy([p.detach() for p in net.parameters()])
    for x in (encode.repeat(torch.rand(3, 1, 28, 28), 2), torch.rand(2, 3, 1, 28, 28)):
        for amp in (False, True):
            times = bench.layer_times(net, x, amp=amp, repeats=3)
            assert list(times) == ["Conv2d", "BatchNorm2d", "IF", "MaxPool2d", "Flatten", "Linear"]
            assert all(seconds > 0 for seconds in times.values())
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert all(p.grad is None for p in net.parameters())
