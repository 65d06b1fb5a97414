"""Networks in the form that an IPU takes: the same spikes and gradients as those of our engines."""

from __future__ import annotations

import copy
import math
import sys
import types

import pytest
import torch
from torch import nn

from snnkit import models, neuron, surrogate
from snnkit import nn as snn
from snnkit.hardware import ipu
from snnkit.loss import count_cross_entropy

from .ipu_cases import HIDDEN
from .test_ipu_check import NEURONS, SURROGATES

B, T, N = 3, 12, HIDDEN


def drive(*shape, seed=3):
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 1.5


def test_detached_has_the_spikes_and_the_gradient_of_the_surrogate_to_the_bit():
    u = torch.cat([torch.linspace(-3, 3, 1001, dtype=torch.float64), torch.tensor([0.0, -0.0, 1e-300, 1e9])])
    for smooth in SURROGATES:
        for strict in (False, True):
            results = []
            for spike in (smooth, ipu.Detached(smooth)):
                x = u.clone().requires_grad_()
                out = spike(x, strict=strict)
                (gradient,) = torch.autograd.grad(out, x, torch.linspace(1, 2, len(u), dtype=torch.float64))
                results.append((out, gradient))
            (spikes, gradient), (again, other) = results
            assert torch.equal(spikes, again) and torch.equal(gradient, other)
            assert set(again.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_spikes_of_detached_are_exact_in_every_precision(dtype):
    u = torch.randn(10000, generator=torch.Generator().manual_seed(0)).to(dtype)
    out = ipu.Detached(surrogate.ATan())(u)
    assert out.dtype == dtype and torch.equal(out, (u >= 0).to(dtype))


def compare(net, x, steps, out_shape=None):
    """Spikes and gradients of ``net`` over time and of its converted form must agree."""
    converted = ipu.convert(net, steps)
    assert [id(p) for p in converted.parameters()] == [id(p) for p in net.parameters()]
    x = x.clone().requires_grad_()
    sequence = x.expand(steps, *x.shape) if steps else x.transpose(0, 1)
    expected = net(sequence)[0].transpose(0, 1)
    out = converted(x)
    weights = drive(*out.shape, seed=7)
    assert torch.equal(out, expected)
    wanted = torch.autograd.grad((expected * weights).sum(), [x, *net.parameters()])
    gradients = torch.autograd.grad((out * weights).sum(), [x, *net.parameters()])
    for gradient, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, want, rtol=1e-9, atol=1e-11)
    assert any(g.abs().sum() > 0 for g in gradients)
    return out


@pytest.mark.parametrize("steps", [T, None], ids=["pictures", "sequences"])
@pytest.mark.parametrize("layer", NEURONS.values(), ids=NEURONS.keys())
def test_every_neuron_keeps_its_spikes_and_gradients(layer, steps):
    torch.manual_seed(0)
    net = snn.Sequential(nn.Linear(4, N), copy.deepcopy(layer), nn.Linear(N, 3), neuron.LIF()).double()
    nn.init.normal_(net[0].weight, std=2.0)
    if "Izhikevich" in str(layer):
        nn.init.normal_(net[0].weight, std=20.0)
    if isinstance(layer, neuron.LI):
        nn.init.normal_(net[2].weight, std=20.0)
    x = drive(B, 4, seed=1) if steps else drive(B, T, 4, seed=1)
    out = compare(net, x, steps)
    assert out.shape == (B, T, 3)
    if layer.__class__ is not neuron.LI:
        hidden = ipu.convert(net[:2], steps)(x)
        assert 0 < hidden.sum() < hidden.numel()


def test_models_of_the_catalogue_agree():
    torch.manual_seed(0)
    x = drive(B, 1, 8, 8)
    compare(models.ConvNet(size=8, classes=4, widths=(2, 3, 5)).double(), x, 6)
    compare(models.FashionConvNet(2, 4, 4, size=8).double(), x, 6)


def test_norm_in_training_counts_steps_as_the_network_does():
    def net():
        torch.manual_seed(0)
        return snn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), neuron.IF(), snn.Once(nn.Linear(5, 2)), neuron.IF())

    x = drive(B, 4).float()
    one, other = net(), net()
    one(x.expand(T, *x.shape))
    ipu.convert(other, T)(x)
    assert torch.equal(one[1].running_mean, other[1].running_mean)
    torch.testing.assert_close(one[1].running_var, other[1].running_var)


def test_mode_and_hooks_and_the_network_itself_stay():
    net = snn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3), neuron.LIF()).eval()
    kept = net[2].surrogate
    converted = ipu.convert(net, 2)
    assert not converted.training and not any(m.training for m in converted.modules())
    assert net[2].surrogate is kept and not isinstance(kept, ipu.Detached)
    assert ipu.convert(net.train(), 2).training
    net[0].eval()
    assert not ipu.convert(net, 2).net[0].training


def test_nested_and_shared_layers():
    torch.manual_seed(0)
    shared = nn.Linear(5, 5)
    inner = snn.Sequential(shared, neuron.LIF())
    net = snn.Sequential(nn.Linear(4, 5), neuron.LIF(), inner, snn.TimeBatched(shared), neuron.LIF()).double()
    compare(net, drive(B, 4) * 3, T)


class Keeping(nn.Module):
    def forward(self, x, state=None):
        return x, state


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = neuron.LIF()


def test_what_cannot_be_converted_is_named():
    linear, net = nn.Linear(2, 2), ipu.convert(nn.Linear(2, 2))
    for error, match, arguments in (
        (TypeError, "converted already", (net,)),
        (TypeError, r"net\.1 must be a Sequential.* a Keeping", (snn.Sequential(linear, Keeping()),)),
        (TypeError, r"net\.0 must be a Sequential.* a Holding", (snn.Sequential(Holding()),)),
        (TypeError, r"surrogate of net\.0 must be a Surrogate", (snn.Sequential(neuron.LIF(surrogate=torch.sigmoid)),)),
    ):
        with pytest.raises(error, match=match):
            ipu.convert(*arguments)
    with pytest.raises(TypeError, match="net of WithLoss must be"):
        ipu.WithLoss(3, count_cross_entropy)
    with pytest.raises(TypeError, match="loss of WithLoss must be"):
        ipu.WithLoss(net, None)


def test_loss_inside():
    torch.manual_seed(0)
    net = ipu.convert(models.mlp((4, 5, 3), flatten=False), T)
    x, y = torch.rand(B, 4) * 3, torch.tensor([0, 1, 2])
    model = ipu.WithLoss(net, count_cross_entropy)
    out, loss = model(x, y)
    assert out.shape == (B, T, 3) and math.isclose(loss.item(), count_cross_entropy(out.transpose(0, 1), y).item())
    assert torch.equal(model(x), out)
    for no_loss in (lambda out, y: (out.mean(), out.sum()), lambda out, y: out.mean((0, 2))):
        with pytest.raises(ipu.NotOneLoss, match="one scalar tensor"):
            ipu.WithLoss(net, no_loss)(x, y)


def test_identity_loss_reduces():
    x = torch.tensor([1.0, 3.0])
    assert ipu.identity_loss(x, "mean") == 2 and ipu.identity_loss(x, "sum") == 4
    assert torch.equal(ipu.identity_loss(x), x)


def test_without_poptorch_it_says_what_is_needed(monkeypatch):
    assert "2.0.1" in ipu.poptorch_status() and "Poplar SDK" in ipu.poptorch_status()
    theirs = types.SimpleNamespace(identity_loss=lambda x, reduction: (reduction, x))
    monkeypatch.setitem(sys.modules, "poptorch", theirs)
    assert ipu.poptorch_status() == ""
    assert ipu.identity_loss(torch.tensor(2.0), "mean") == ("mean", torch.tensor(2.0))
