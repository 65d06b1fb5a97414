"""``train.diagnose``: networks broken in known ways are told their cause first; those that learn are told nothing."""

import functools
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn as torch_nn

from snnkit import data, encode, loss, models, neuron, nn, surrogate, train

STEPS = 10
IMAGES, LABELS = data.load("digits")
SHUFFLED = LABELS[:128][torch.randperm(128, generator=torch.Generator().manual_seed(0))]
SEQUENCES, PARITY = data.xor_in_time(300, steps=16, delay=5, seed=0)
XOR = {"x": SEQUENCES.transpose(0, 1), "y": PARITY, "encode": None}
NOISE = torch.rand(128, 64, generator=torch.Generator().manual_seed(0))
X, Y = data.to_unit(IMAGES[:128]).flatten(1), LABELS[:128]
REPEAT = functools.partial(encode.repeat, steps=STEPS)


def net(hidden=None, last=None, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(torch_nn.Linear(64, 48), hidden or neuron.LIF(), torch_nn.Linear(48, 10), last or neuron.LIF())


def changed(change, made=None):
    made = made or net()
    with torch.no_grad():
        change(made)
    return made


class Detached(torch_nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = net()[:2], net()[2:]

    def forward(self, x, state=None):
        first, rest = state or (None, None)
        spikes, first = self.first(x, first)
        out, rest = self.rest(spikes.detach(), rest)
        return out, (first, rest)


class Unused(Detached):
    def forward(self, x, state=None):
        out, state = self.rest(x[..., :48], state)
        return out, state


class Comparison(neuron.LIF):
    def step(self, x, state):
        spikes, state = super().step(x, state)
        return (spikes > 0.5).to(x.dtype), state


class Kept(torch_nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.kept = nn.Sequential(torch_nn.Linear(64, 48), neuron.IF(), torch_nn.Linear(48, 10)), None

    def forward(self, x, state=None):
        same = self.kept is not None and self.kept[0] == x.shape[1]
        out, state = self.net(x, self.kept[1] if same else None)
        self.kept = x.shape[1], nn.detach(state)
        return out, state


class Renewed(torch_nn.Module):
    """Its output is a new tensor, with a gradient that ends there."""

    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x, state=None):
        out, state = self.net(x, state)
        return torch.tensor(out.detach().numpy(), requires_grad=True), state


class Rounded(torch_nn.Linear):
    def forward(self, x):
        return F.linear(x, torch.round(self.weight), self.bias)


class KeptGraph(Kept):
    def forward(self, x, state=None):
        same = self.kept is not None and self.kept[0] == x.shape[1]
        out, state = self.net(x, self.kept[1] if same else None)
        self.kept = x.shape[1], state
        return out, state

    def __deepcopy__(self, memo):  # tensors with a graph can't be copied
        made = KeptGraph()
        made.load_state_dict(self.state_dict())
        return made


class Steps(torch_nn.Module):
    """A loop over time, with layers in a list if ``listed``, that hands the state on if ``keeps``."""

    def __init__(self, *, listed=False, keeps=True):
        super().__init__()
        first, self.hidden, self.last, self.out = net()
        self.first, self.keeps = [first] if listed else torch_nn.ModuleList([first]), keeps

    def forward(self, x, state=None):
        outs, hidden, out = [], None, None
        for step in x.split(1):
            spikes, hidden = self.hidden(self.first[0](step), hidden if self.keeps else None)
            spikes, out = self.out(self.last(spikes), out)
            outs.append(spikes)
        return torch.cat(outs), (hidden, out)


class DetachedState(torch_nn.Module):
    """A loop over time that detaches the state in each step."""

    def __init__(self):
        super().__init__()
        self.net = forgetful(0.9)

    def forward(self, x, state=None):
        outs = []
        for step in x.split(1):
            out, state = self.net(step, nn.detach(state))
            outs.append(out)
        return torch.cat(outs), state


class OverBatch(torch_nn.Module):
    def forward(self, x, state=None):
        return x.softmax(1), None


def exploding():
    torch.manual_seed(0)
    layer = neuron.Recurrent(neuron.Leaky(0.9, surrogate=surrogate.StraightThrough()), 48)
    torch_nn.init.normal_(layer.weight.weight, std=1e4)
    return nn.Sequential(torch_nn.Linear(64, 48), layer, torch_nn.Linear(48, 10))


def deep():
    torch.manual_seed(0)
    hidden = [module for _ in range(8) for module in (torch_nn.Linear(48, 48), neuron.LIF())]
    return nn.Sequential(torch_nn.Linear(64, 48), neuron.LIF(), *hidden, torch_nn.Linear(48, 10))


def normalised():
    torch.manual_seed(0)
    first = [torch_nn.Linear(64, 1), torch_nn.LayerNorm(1), torch_nn.Linear(1, 48), neuron.LIF()]
    return nn.Sequential(*first, torch_nn.Linear(48, 10))


def dead():
    return changed(lambda n: n[0].bias.fill_(-20.0), nn.Sequential(*net()[:1], torch_nn.ReLU(), *mlp_of(48)))


def mlp_of(inputs):
    return torch_nn.Linear(inputs, 48), neuron.LIF(), torch_nn.Linear(48, 10), neuron.LIF()


def unfollowed():
    """A batch norm with statistics that stay as they are at first, far from those of the batches."""
    made = nn.Sequential(torch_nn.Linear(64, 48), torch_nn.BatchNorm1d(48, momentum=0.0), neuron.LIF(), *net()[2:])
    return changed(lambda n: n[0].bias.add_(20), made)


def leaky(**last):
    return net(neuron.Leaky(0.9), neuron.Leaky(0.9, **last))


def readout():
    return net(neuron.Leaky(0.9), neuron.Readout(0.9))


def forgetful(decay):
    torch.manual_seed(1)
    return nn.Sequential(torch_nn.Linear(10, 64), neuron.Leaky(decay), torch_nn.Linear(64, 2), neuron.Leaky(decay))


def sines(own=False):
    """Three classes by amplitude, which is lost if each sample is standardised on its own."""
    generator, time = torch.Generator().manual_seed(0), torch.linspace(0, 19, 30)
    y = torch.randint(0, 3, (200,), generator=generator)
    x = (1 + y)[:, None] * torch.sin(time + 6.3 * torch.rand(200, 1, generator=generator))
    x = x + 0.1 * torch.randn(x.shape, generator=generator)
    return {"x": ((x - x.mean(1, True)) / x.std(1, keepdim=True) if own else x).unsqueeze(2), "y": y, "encode": None}


def one_input():
    torch.manual_seed(1)
    return nn.Sequential(torch_nn.Linear(1, 48), neuron.Leaky(0.9), torch_nn.Linear(48, 3), neuron.Readout(0.9))


class Swapped(torch_nn.Module):
    """It takes the batch for time."""

    def __init__(self):
        super().__init__()
        self.net = dots_net()

    def forward(self, x, state=None):
        out, state = self.net(x.transpose(0, 1))
        return out.transpose(0, 1), state


def dots_net():
    torch.manual_seed(0)
    return nn.Sequential(torch_nn.Linear(16, 128), neuron.Leaky(0.8), torch_nn.Linear(128, 2), neuron.Leaky(0.8))


def dots(**change):
    """A dot moves to the left or to the right, [B, T, 16]."""
    generator = torch.Generator().manual_seed(0)
    start, y = torch.randint(16, (1500, 1), generator=generator), torch.randint(2, (1500,), generator=generator)
    x = F.one_hot((start + (2 * y - 1)[:, None] * torch.arange(16)) % 16, 16).float()
    x = x.maximum((torch.rand(x.shape, generator=generator) < 0.02).float())
    return {"x": x, "y": y, "encode": None, "loss": loss.count_cross_entropy} | change


def rings():
    """Two classes by the distance from the centre."""
    generator = torch.Generator().manual_seed(0)
    y, angle = torch.randint(2, (256,), generator=generator), 6.3 * torch.rand(256, generator=generator)
    return {"x": (0.5 + y)[:, None] * torch.stack([angle.cos(), angle.sin()], 1), "y": y, "loss": cross_entropy}


def linear():
    torch.manual_seed(0)
    return nn.Sequential(torch_nn.Linear(2, 64), torch_nn.Linear(64, 2), neuron.Readout(0.9))


def rare(weight=None):
    """3 of 100 labels are 1, and lie apart."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(600, generator=generator) < 0.03).long()
    x = torch.randn(600, 8, generator=generator) + y[:, None]
    return {"x": x, "y": y, "loss": lambda out, y: F.cross_entropy(out.mean(0), y, weight=weight)}


def table_net():
    torch.manual_seed(0)
    return nn.Sequential(torch_nn.Linear(8, 64), neuron.Leaky(0.9), torch_nn.Linear(64, 2), neuron.Readout(0.9))


def three_layers(make, inputs=64, outputs=10):
    torch.manual_seed(0)
    sizes = ((inputs, 128), (128, 128), (128, outputs))
    return nn.Sequential(*(m for a, b in sizes for m in (torch_nn.Linear(a, b), make())))


def first_output_mse(out, y):
    return F.mse_loss(out.mean(0)[:, :1], y)


def last_cross_entropy(out, y):
    return F.cross_entropy(out[-1], y)


def in_front(x):
    """Samples followed by steps of zeros, [B, 40, 64]."""
    return torch.cat([x.unsqueeze(1).repeat(1, 5, 1), x.new_zeros(len(x), 35, 64)], 1)


def cross_entropy(out, y):
    return F.cross_entropy(out.sum(0), y)


def nan_in(x):
    x = x.clone()
    x[3, 5] = math.nan
    return x


BROKEN = {
    "NaN in the data": (net, {"x": nan_in(X)}, "values of samples are NaN"),
    "black images": (net, {"x": X * 0}, "samples are all zero"),
    "the same image again and again": (net, {"x": X[:1].expand(128, -1)}, "all samples are the same"),
    "pixels in 0 to 255": (net, {"x": X * 255}, "samples go from 0 to 255"),
    "tiny input": (net, {"x": X * 1e-3}, "samples go from 0 to 0.001"),
    "labels from 1 to 10": (net, {"y": Y + 1}, r"labels go from 1 to 10, but the network has 10 outputs"),
    "one label": (net, {"y": Y * 0}, "all targets are 0"),
    "encode that forgets its input": (net, {"encode": lambda x: x.new_ones(STEPS, len(x), 64)}, "same for all samples"),
    "encode that is zero": (net, {"encode": lambda x: x.new_zeros(STEPS, len(x), 64)}, "encode returns is all zero"),
    "one time step": (net, {"encode": functools.partial(encode.repeat, steps=1)}, "single time step|silent"),
    "weights of zero": (lambda: changed(lambda n: n[2].weight.zero_()), {}, "all weights of 2.weight are 0"),
    "weights that are NaN": (lambda: changed(lambda n: n[0].weight.fill_(math.nan)), {}, "weights of 0.weight are NaN"),
    "frozen": (lambda: changed(lambda n: n[0].requires_grad_(False)), {}, "0.weight can't learn"),
    "another optimizer": (net, {"optimizer": lambda n: torch.optim.Adam(n[2].parameters())}, "not hold 0.weight"),
    "threshold too high": (lambda: net(neuron.LIF(v_threshold=30.0)), {}, "LIF '1' is silent"),
    "weights too small": (lambda: changed(lambda n: n[0].weight.mul_(1e-3)), {}, "LIF '1' is silent"),
    "a very slow neuron": (lambda: net(neuron.LIF(tau=1000.0)), {}, "LIF '1' is silent, as its membrane charges too"),
    "nearly all dropped": (lambda: nn.Sequential(torch_nn.Dropout(0.999), *net()), {}, "drops 99.9 % of its input"),
    "equal weights": (lambda: changed(lambda n: n[0].weight.fill_(0.1)), {}, "all weights of 0.weight are equal"),
    "accuracy as the loss": (
        net,
        {"loss": lambda out, y: (out.sum(0).argmax(1) != y).float().mean().requires_grad_()},
        "no gradient leads from the loss to the output of the network",
    ),
    "weight decay": (
        net,
        {"optimizer": lambda n: torch.optim.AdamW(n.parameters(), lr=1e-3, weight_decay=50)},
        "weight decay shrinks the weights by 5% in each update",
    ),
    "a loss that is maximised": (
        net,
        {"optimizer": lambda n: torch.optim.Adam(n.parameters(), maximize=True)},
        "the optimizer makes the loss larger",
    ),
    "a rate of 0": (net, {"optimizer": lambda n: torch.optim.Adam(n.parameters(), lr=0.0)}, "the learning rate is 0"),
    "state with its graph": (KeptGraph, {}, "two passes with the same input give different outputs"),
    "recurrent weights that explode": (exploding, {}, "gradient of .* is NaN or infinite|gradients explode"),
    "negative bias": (lambda: changed(lambda n: n[2].bias.fill_(-20.0)), {}, "LIF '3' is silent"),
    "weights too large": (lambda: changed(lambda n: n[0].weight.abs_().mul_(50)), {}, "LIF '1' is saturated"),
    "surrogate too narrow": (lambda: net(neuron.LIF(surrogate=surrogate.Triangle(1e4))), {}, "LIF '1' passes the"),
    "detached": (Detached, {}, "no gradient reaches first.0.weight"),
    "a layer that is not used": (Unused, {}, "no gradient reaches first.0.weight"),
    "no gradient at all": (net, {"loss": lambda out, y: out.detach().sum() * 1.0}, "no gradient leads from the loss"),
    "argmax in the loss": (net, {"loss": lambda out, y: (out.sum(0).argmax(1) != y).float().mean()}, "no gradient"),
    "sign of the loss": (net, {"loss": lambda out, y: -loss.rate_mse(out, y)}, "moves away from the answer"),
    "learning rate too high": (net, {"lr": 1.0}, "learning rate is too high: one update changes"),
    "learning rate too low": (net, {"lr": 1e-9}, "learning rate is too low"),
    "SGD with a tiny rate": (net, {"optimizer": lambda n: torch.optim.SGD(n.parameters(), lr=1e-8)}, "rate is too low"),
    "SGD with momentum": (
        net,
        {"optimizer": lambda n: torch.optim.SGD(n.parameters(), lr=500.0, momentum=0.99)},
        "learning rate is too high",
    ),
    "Adam with a low rate": (net, {"lr": 1e-6}, "learning rate is too low"),
    "labels of other samples": (net, {"y": SHUFFLED}, "memorises"),
    "a comparison without surrogate": (lambda: net(Comparison()), {}, "no gradient passes through the spikes of Comp"),
    "activity that dies": (lambda: changed(lambda n: n[0].weight.mul_(4), deep()), {}, "activity dies with depth"),
    "state from batch to batch": (Kept, {}, "two passes with the same input give different outputs"),
    "targets out of reach": (
        lambda: net(last=neuron.LIF()),
        {"loss": lambda out, y: F.mse_loss(out.mean(0), y), "y": 15 + X[:, 20:30]},
        "targets, which go from 15 to 16, are out of reach",
    ),
    "one step in the loss": (net, {"loss": lambda out, y: F.cross_entropy(out[0], y)}, "depends only on step 0 of 10"),
    "a norm of one value": (normalised, {}, "from LayerNorm '1' on, all samples give"),
    "counts as log-probabilities": (net, {"loss": lambda out, y: F.nll_loss(out.sum(0), y)}, "the loss falls below 0"),
    "an output made anew": (Renewed, {}, "the loss depends on no parameter of the network, but on a new tensor"),
    "rounded weights": (
        lambda: nn.Sequential(Rounded(64, 48), neuron.LIF(), Rounded(48, 10), neuron.Readout(0.9)),
        {"loss": cross_entropy, "optimizer": lambda n: torch.optim.Adam(n.parameters(), lr=1e-2)},
        "no gradient passes through Rounded '2'",
    ),
    "outputs of other samples": (
        lambda: nn.Sequential(torch_nn.Linear(64, 48), neuron.LIF(), torch_nn.Linear(48, 10), neuron.LIF()),
        {"loss": lambda out, y: F.cross_entropy(out.reshape(out.shape[1], 10, -1).mean(2), y)},
        "the loss compares outputs with targets of other samples",
    ),
    "a penalty": (
        net,
        {"loss": lambda out, y: loss.count_cross_entropy(out, y) + 1e4 * out.mean() + 100.0},
        "a penalty in the loss outweighs the task",
    ),
    "a loss that is NaN": (net, {"loss": lambda out, y: out.sum() * math.nan}, "the loss is nan"),
    "class weights of zero": (
        net,
        {"loss": lambda out, y: F.cross_entropy(out.sum(0), y, weight=torch.zeros(10))},
        "the loss is nan",
    ),
    "a loss without targets": (net, {"loss": lambda out, y: (out.mean(0) - 0.2).square().mean()}, "on the targets"),
    "a constant loss": (net, {"loss": lambda out, y: out.sum() * 0 + 2.3}, "does not depend on the output"),
    "a mean over the batch": (
        net,
        {"loss": lambda out, y: F.cross_entropy(out.mean(1).sum(0).expand(len(y), -1), y)},
        "on which target belongs to which sample",
    ),
    "shapes that broadcast": (
        lambda: net()[:3],
        {"loss": lambda out, y: (out.mean(0)[:, :1] - y).square().mean(), "y": X[:, 20]},
        "on which target belongs to which sample",
    ),
    "the class as a number": (
        leaky,
        {"loss": lambda out, y: F.mse_loss(out.sum(0).mean(1), y.float())},
        "does not prefer the right class",
    ),
    "classes in place of time": (leaky, {"loss": lambda out, y: F.cross_entropy(out.sum(2).T, y)}, "prefer the right"),
    "softmax twice": (
        readout,
        {"loss": lambda out, y: F.cross_entropy(out[-1].softmax(1), y)},
        "softmax or sigmoid comes before the cross-entropy",
    ),
    "softmax as a layer": (
        lambda: nn.Sequential(*readout(), torch_nn.Softmax(1)),
        {"loss": lambda out, y: F.cross_entropy(out.mean(0), y)},
        "softmax or sigmoid comes before the cross-entropy",
    ),
    "softmax over the batch": (
        lambda: nn.Sequential(*readout(), OverBatch()),
        {"loss": cross_entropy},
        "the network mixes samples",
    ),
    "the last step of a silence": (
        lambda: net(neuron.Leaky(0.5), neuron.Readout(0.5)),
        {"x": in_front(X), "encode": None, "loss": lambda out, y: F.cross_entropy(out[-1], y)},
        "reads only step 39 of 40, and what tells",
    ),
    "a price on spikes": (
        leaky,
        {"loss": lambda out, y: loss.count_cross_entropy(out, y) + 50 * out.sum(0).mean()},
        "a penalty in the loss outweighs the task: an output without spikes costs",
    ),
    "noise in place of the samples": (net, {"encode": lambda x: torch.rand(STEPS, *x.shape)}, "random and hardly"),
    "noise over the samples": (net, {"encode": lambda x: x + 30 * torch.randn(STEPS, *x.shape)}, "random and hardly"),
    "reshape for transpose": (
        net,
        {"x": in_front(X), "encode": lambda x: x.reshape(40, len(x), 64)},
        "what encode returns mixes samples",
    ),
    "hardly any spikes": (net, {"encode": lambda x: encode.poisson(x * 0.004, steps=STEPS)}, "the input is too weak"),
    "far from zero": (net, {"x": X - 8}, "samples go from -8 to -7"),
    "saturated by the bias": (lambda: changed(lambda n: n[0].bias.fill_(20.0)), {}, "by the bias of '0', which is 20"),
    "never reset": (
        lambda: net(*(neuron.Leaky(1.0, 0.05, reset_mechanism="none") for _ in range(2))),
        {"lr": 1e-4},
        "never pauses|is saturated",
    ),
    "a dead ReLU": (dead, {}, "from ReLU '1' on, all samples give the same output"),
    "state in no step": (lambda: Steps(keeps=False), {}, "the state of hidden is lost"),
    "layers in a list": (lambda: Steps(listed=True), {}, "no parameters of the network, of shapes"),
    "a batch norm that does not follow": (unfollowed, {}, "lost in evaluation mode"),
    "an optimizer of another network": (
        net,
        {"optimizer": lambda n: torch.optim.Adam(net().parameters())},
        "the optimizer does not hold 0.weight, 2.weight: was it made for another network",
    ),
    "SGD with a low rate": (
        leaky,
        {"loss": loss.count_cross_entropy, "optimizer": lambda n: torch.optim.SGD(n.parameters(), lr=1e-4)},
        "learning rate is too low",
    ),
    "silent, with a common rate": (
        lambda: changed(lambda n: (n[0].weight.mul_(0.01), n[0].bias.zero_())),
        {"lr": 1e-4},
        "LIF '1' is silent: .* The weights of '0' are .* smaller",
    ),
    "weight decay in the gradient": (
        leaky,
        {"loss": cross_entropy, "optimizer": lambda n: torch.optim.Adam(n.parameters(), weight_decay=10.0)},
        "weight_decay=10 of the optimizer is too large",
    ),
    "eps": (
        leaky,
        {"loss": cross_entropy, "optimizer": lambda n: torch.optim.Adam(n.parameters(), eps=10.0)},
        "eps=10 of the optimizer is too large",
    ),
    "divided twice, in encode": (net, {"encode": lambda x: encode.repeat(x / 255, STEPS)}, "returns goes from 0 to"),
    "divided twice, after standardising": (
        lambda: net(neuron.Leaky(0.9), neuron.Readout(0.9)),
        {"x": (X - X.mean()) / X.std() * 0.02, "loss": cross_entropy, "lr": 1e-4},
        "the network's inputs go from -0.",
    ),
    "no memory": (lambda: forgetful(0.0), XOR | {"loss": loss.count_cross_entropy}, "no layer remembers: .* 1 of 16"),
    "late in a latency code": (
        lambda: net(neuron.Leaky(0.8), neuron.Leaky(0.8)),
        {"encode": functools.partial(encode.latency, steps=20), "loss": last_cross_entropy},
        "the loss reads only step 19 of 20, and what tells the samples apart comes at others",
    ),
    "sorted labels": (readout, {"x": X[Y.argsort()], "y": Y.sort().values, "loss": cross_entropy}, "sorted by label"),
    "targets below 0, for spikes": (
        lambda: net(last=neuron.Leaky(0.9)),
        {"y": F.one_hot(Y, 10) * 3.0 - 1.0, "loss": lambda out, y: F.mse_loss(out.mean(0), y)},
        "out of reach of an output of spikes",
    ),
    "weights above 0": (
        lambda: changed(lambda n: [n[i].weight.uniform_() for i in (0, 2)]), {}, "as all weights of '0' are above 0",
    ),
    "biases below the threshold, a low rate": (
        lambda: changed(lambda n: n[0].bias.fill_(-5.0), net(neuron.Leaky(0.8), neuron.Leaky(0.8))),
        {"loss": loss.count_cross_entropy, "lr": 1e-3},
        "The bias of '0' is -5 on average",
    ),
    "each sample standardised": (one_input, sines(own=True) | {"loss": cross_entropy}, "have the same mean and"),
    "state detached in each step": (DetachedState, XOR | {"loss": last_cross_entropy}, "no gradient leads back"),
    "a state detached, and silence at the end": (
        DetachedState,
        XOR | {"x": F.pad(XOR["x"], (0, 0, 0, 1)), "loss": last_cross_entropy, "lr": 1e-2},
        "no gradient leads back|no gradient reaches",
    ),
    "a steep surrogate in three layers": (
        lambda: three_layers(lambda: neuron.Leaky(0.8, 0.5, surrogate=surrogate.FastSigmoid(2000.0)), 16, 2),
        dots(),
        r"passes the gradient on for only \d.*its surrogate is nearly 0",
    ),
    "three steps, three layers": (
        lambda: changed(lambda n: [n[i].weight.mul_(4) for i in (0, 2, 4)], three_layers(neuron.CubaLIF)),
        {"loss": loss.count_cross_entropy, "encode": functools.partial(encode.repeat, steps=3)},
        "3 time steps are too few to charge .* with 24, the network learns",
    ),
    "the batch for time": (Swapped, dots(), "the network mixes samples"),
    "a mean over time": (
        dots_net, dots(encode=lambda x: encode.repeat(x.mean(1), 16)), "encode loses what tells the samples apart",
    ),
    "no neuron between layers": (linear, rings(), "the network is linear"),
    "one label for 97 %": (table_net, rare(), "97% of the labels are 0"),
    "threshold and reset in millivolts": (
        lambda: net(*(neuron.LIF(10.0, v_threshold=-50.0, v_reset=-65.0) for _ in range(2))),
        {},
        "LIF '1' is silent: .* the threshold -50, and at rest it is -65",
    ),
    "encode that keeps its first answer": (
        net, {"encode": lambda x: X[: len(x)].repeat(STEPS, 1, 1)}, "does not depend on its argument",
    ),
    "time not in front": (net, {"x": in_front(X)[:40], "y": Y[:40], "encode": lambda x: x}, "returns mixes samples"),
    "prices": (
        lambda: net()[:3],
        {"loss": first_output_mse, "y": 1e4 * X.mean(1, keepdim=True)},
        "targets go from .*, far beyond what",
    ),
    "one class in 24": (
        readout, {"x": NOISE, "y": (torch.arange(128) % 24 == 0).long(), "loss": cross_entropy}, "95% of the labels",
    ),
    "a loss of one class": (
        readout,
        {"loss": lambda out, y: F.cross_entropy(out.sum(0), y, weight=torch.eye(10)[0])},
        "the loss does not depend on 9.% of the samples",
    ),
    "a sigmoid before the cross-entropy": (
        readout, {"loss": lambda out, y: F.cross_entropy(out[-1].sigmoid(), y)}, "a softmax or sigmoid comes before",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_the_cause_is_named_first(name):
    make, change, words = BROKEN[name]
    model = make()
    change = {"x": X, "y": Y, "encode": REPEAT, "loss": loss.rate_mse} | change
    x, y = change.pop("x"), change.pop("y")
    if "optimizer" in change:
        change["optimizer"] = change["optimizer"](model)
    result = train.diagnose(model, x, y, device="cpu", **change)
    assert result.findings, f"{name}: nothing found\n{result}"
    assert re.search(words, result.findings[0].what), f"{name}\n{result}"


def conv():
    torch.manual_seed(0)
    return models.ConvNet(1, 8, 10, widths=(4, 8, 16))


def recurrent():
    torch.manual_seed(0)
    return nn.Sequential(torch_nn.Linear(64, 32), nn.Recurrent(neuron.LIF(), 32), torch_nn.Linear(32, 10))


LEARNING = {
    "LIF": (net, {}),
    "IF": (lambda: net(neuron.IF(), neuron.IF()), {}),
    "Leaky": (lambda: net(neuron.Leaky(0.9), neuron.Leaky(0.9)), {"loss": loss.count_cross_entropy}),
    "PLIF": (lambda: net(neuron.PLIF(), neuron.PLIF()), {}),
    "ALIF": (lambda: net(neuron.ALIF()), {}),
    "a readout": (lambda: net(neuron.Leaky(0.9), neuron.Leaky(0.95, reset_mechanism="none")), {}),
    "mlp": (lambda: torch.manual_seed(0) and models.mlp((64, 48, 10)), {"loss": loss.count_cross_entropy}),
    "recurrent": (recurrent, {"loss": loss.rate_cross_entropy}),
    "convolutions": (conv, {"x": X.unflatten(1, (1, 8, 8)), "loss": loss.membrane_max_cross_entropy}),
    "Poisson": (net, {"encode": functools.partial(encode.poisson, steps=STEPS)}),
    "regression": (lambda: net()[:3], {"loss": first_output_mse, "y": X.mean(1, keepdim=True)}),
    "sequences": (net, {"x": X.unsqueeze(1).repeat(1, STEPS, 1), "encode": None}),
    "dots": (dots_net, dots(lr=2e-2)),
    "one label for 97 %, weighted": (table_net, rare(torch.tensor([0.03, 0.97]))),
    "rings": (lambda: nn.Sequential(*linear()[:1], neuron.Leaky(0.9), *linear()[1:]), rings()),
    "SGD": (net, {"optimizer": lambda n: torch.optim.SGD(n.parameters(), lr=0.5, momentum=0.9)}),
    "a loop over time": (Steps, {}),
    "one output for two classes": (
        lambda: readout()[:2].append(torch_nn.Linear(48, 1)),
        {"y": Y % 2, "loss": lambda out, y: F.binary_cross_entropy_with_logits(out.mean(0).squeeze(1), y.float())},
    ),
    "populations": (
        lambda: nn.Sequential(*mlp_of(64)[:2], torch_nn.Linear(48, 50), neuron.LIF()),
        {"loss": lambda out, y: F.cross_entropy(out.sum(0).unflatten(1, (10, 5)).sum(2), y)},
    ),
    "ignored labels": (leaky, {"y": torch.where(torch.arange(128) % 5 == 0, -100, Y), "loss": cross_entropy}),
    "the size of samples": (one_input, sines() | {"loss": cross_entropy}),
    "no memory, and none needed": (
        lambda: net(neuron.Leaky(0.0), neuron.Leaky(0.0)),
        {"encode": functools.partial(encode.poisson, steps=20), "loss": loss.count_cross_entropy},
    ),
    "the last step of a latency code": (
        readout, {"encode": functools.partial(encode.latency, steps=20), "loss": last_cross_entropy}
    ),
    "first spikes": (
        lambda: net(neuron.Leaky(0.95), neuron.Leaky(0.95)),
        {"encode": functools.partial(encode.latency, steps=STEPS), "loss": loss.first_spike_cross_entropy},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEARNING)
def test_a_network_that_learns_is_told_nothing(name):
    make, change = LEARNING[name]
    model = make()
    change = {"x": X, "y": Y, "encode": REPEAT, "loss": loss.rate_mse, "lr": 5e-3} | change
    x, y = change.pop("x"), change.pop("y")
    if "optimizer" in change:
        change["optimizer"] = change["optimizer"](model)
    result = train.diagnose(model, x, y, device="cpu", **change)
    assert not result.findings, f"{name}\n{result}"
    assert "Nothing found" in str(result) and "Nothing found" in result._repr_html_()


def test_nothing_changes_and_the_result_is_a_table():
    model = changed(lambda n: n[0].weight.mul_(1e-3))
    model.train(False)
    optimizer = torch.optim.Adam(model.parameters())
    torch.optim.lr_scheduler.ConstantLR(optimizer)  # it wraps the step of this optimizer
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.Generator().manual_seed(3)
    poisson = functools.partial(encode.poisson, steps=STEPS, generator=generator)
    states = torch.get_rng_state(), generator.get_state()
    result = train.diagnose(model, X, Y, encode=poisson, loss=loss.rate_mse, optimizer=optimizer, device="cpu")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.training and not optimizer.state and all(p.grad is None for p in model.parameters())
    assert torch.equal(states[0], torch.get_rng_state()) and torch.equal(states[1], generator.get_state())
    assert [layer.kind for layer in result.layers] == ["Linear", "LIF", "Linear", "LIF"]
    assert result.layers[1].silent == 1 and math.isnan(result.chance)
    text = str(result)
    assert "1. LIF '1' is silent: 100% of its neurons never fire" in text and "make the weights of '0' larger" in text
    assert text.splitlines()[0].split() == [
        "layer",
        *["rate", "silent", "always", "felt", "gradient", "weights", "change"],
    ]
    assert "<table>" in result._repr_html_() and "LIF &#x27;1&#x27; is silent" in result._repr_html_()


def test_a_network_that_knows_shuffled_labels_by_heart_is_told_so():
    model = readout()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(REPEAT(X))[0], SHUFFLED).backward()
        optimizer.step()
    result = train.diagnose(model, X, SHUFFLED, encode=REPEAT, loss=cross_entropy, device="cpu")
    assert "memorises samples" in result.findings[0].what


def test_batch_norms_that_follow_are_not_blamed():
    torch.manual_seed(1)
    sizes = ((1, 12, False), (12, 12, True), (12, 16, False), (16, 16, True))
    parts = [
        part
        for a, b, pools in sizes
        for part in (
            torch_nn.Conv2d(a, b, 3, padding=1), torch_nn.BatchNorm2d(b), neuron.LIF(),
            *([torch_nn.AvgPool2d(2)] if pools else []),
        )
    ]  # fmt: skip
    model = nn.Sequential(*parts, torch_nn.Flatten(), torch_nn.Linear(64, 10), neuron.LIF())
    images = data.to_unit(IMAGES[:128])
    result = train.diagnose(model, images, Y, encode=REPEAT, loss=loss.rate_mse, lr=5e-3, device="cpu")
    assert "evaluation mode" not in str(result)


@pytest.mark.parametrize(
    ("criterion", "outputs"),
    [(cross_entropy, 10), (functools.partial(loss.count_cross_entropy, population_size=5), 50), (loss.rate_mse, 10)],
)
def test_what_a_guess_costs_is_told_of_cross_entropies(criterion, outputs):
    torch.manual_seed(0)
    model = nn.Sequential(torch_nn.Linear(64, outputs), neuron.Leaky(0.9))
    result = train.diagnose(model, X, Y, encode=REPEAT, loss=criterion, device="cpu")
    if criterion is loss.rate_mse:
        assert math.isnan(result.chance) and "a guess" not in str(result)
    else:
        assert result.chance == pytest.approx(math.log(10)) and "a guess costs ln(classes) = 2.3" in str(result)


def test_large_outputs_do_not_hide_that_a_loss_depends_on_its_targets():
    model, error = nn.Sequential(torch_nn.Linear(64, 10), neuron.Readout(0.99)), torch_nn.MSELoss()
    with torch.no_grad():
        model[0].weight *= 1000  # a target of 1 changes the loss by less than its last digits
    result = train.diagnose(model, X, Y, encode=REPEAT, loss=lambda out, y: error(out[-1], F.one_hot(y, 10).float()))
    assert "does not depend on the targets" not in str(result) and "belongs to which" not in str(result)


def test_a_recurrent_layer_is_one_row():
    result = train.diagnose(recurrent(), X, Y, encode=REPEAT, loss=loss.rate_cross_entropy, lr=5e-3, device="cpu")
    assert [layer.kind for layer in result.layers] == ["Linear", "Linear", "LIF", "Linear"]
    assert all(layer.gradient > 0 for layer in result.layers)


def test_the_memory_of_a_neuron_is_measured():
    x, y = data.xor_in_time(400, steps=16, delay=6, seed=0)
    torch.manual_seed(0)
    short = nn.Sequential(torch_nn.Linear(10, 32), neuron.Leaky(0.1), torch_nn.Linear(32, 2))
    how = {"encode": None, "loss": loss.rate_cross_entropy, "device": "cpu"}
    changed(lambda n: n[0].weight.mul_(4), short)
    result = train.diagnose(short, x.transpose(0, 1), y, **how)
    assert result.layers[1].memory == 2, result


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"samples": [1, 2]}, TypeError, r"samples of samples, targets must be a tensor, .* but they are \[1, 2\]"),
        ({"targets": Y[:5]}, ValueError, "samples, targets must have one target for each sample"),
        ({"lr": 0}, ValueError, "lr must be greater than 0, but it is 0"),
        ({"loss": lambda out, y: out}, TypeError, "the result of loss must be a scalar tensor"),
        ({"encode": lambda x: x}, ValueError, "the result of encode must be a sequence"),
    ],
)
def test_bad_input(change, error, words):
    given = {"samples": X, "targets": Y, "encode": REPEAT, "loss": loss.rate_mse, "lr": 1e-3} | change
    with pytest.raises(error, match=words):
        train.diagnose(net(), given.pop("samples"), given.pop("targets"), device="cpu", **given)


@pytest.mark.parametrize("silent", [True, False])
def test_fit_says_once_when_nothing_is_learned(silent, recwarn):
    model = net(neuron.LIF(v_threshold=100.0), neuron.LIF(v_threshold=100.0)) if silent else net()
    how = {"encode": REPEAT, "loss": loss.rate_mse, "progress": False, "device": "cpu", "seed": 0}
    train.fit(model, (X, Y), lr=5e-3, batch_size=4, epochs=8, **how)
    told = [str(w.message) for w in recwarn if "train.diagnose" in str(w.message)]
    assert len(told) == silent
    assert not silent or "the network has learned nothing in 200 updates (loss 0.1 to 0.1)" in told[0]
