"""The check for IPUs: right verdict for the right reason, on models that break a rule and on models that don't."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit import models, neuron, surrogate
from snnkit import nn as snn
from snnkit.hardware import ipu
from snnkit.loss import count_cross_entropy, membrane_max_cross_entropy, rate_mse

from . import ipu_cases as planted
from .ipu_cases import BATCH, CASES, CLASSES, HIDDEN, INPUTS, STEPS, Net, example


def check(case):
    options = case.options()
    torch.manual_seed(0)
    return ipu.check(case.model(), case.example(), **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planted(case):
    report = check(case)
    assert not report.ready
    assert {finding.rule for finding in report.errors} == set(case.rules), str(report)
    reasons = [finding for finding in report.errors if case.words in finding.what]
    assert reasons, str(report)
    assert all(finding.fix for finding in report.errors)
    if case.planted:
        assert any("# planted" in finding.where and "ipu_cases.py" in finding.where for finding in reasons), str(report)
    if case.module:
        assert any(finding.module == case.module for finding in reasons), str(report)


def ready(model, inputs, loss=None, **options):
    report = ipu.check(model, inputs, loss, **options)
    assert report.ready, str(report)
    assert not report.findings, str(report)
    return report


class OwnNeuron(neuron.Neuron):
    """As its docstring shows how to write one."""

    State = neuron.MembraneState

    def __init__(self):
        super().__init__(surrogate=surrogate.Sigmoid())

    def step(self, x, state):
        v = state.v * 0.5 + x
        spike = self.spike(v - 1.0)
        return spike, neuron.MembraneState(torch.where(v > 1.0, v - 1.0, v))


NEURONS = {
    "IF": neuron.IF(),
    "IF-soft": neuron.IF(v_reset=None),
    "LIF": neuron.LIF(),
    "PLIF": neuron.PLIF(),
    "Leaky": neuron.Leaky(0.9),
    "Leaky-zero": neuron.Leaky(0.9, reset_mechanism="zero"),
    "Leaky-at-once": neuron.Leaky(0.9, reset_delay=False),
    "Leaky-learnable": neuron.Leaky(nn.Parameter(torch.full((HIDDEN,), 0.8)), nn.Parameter(torch.tensor(1.0))),
    "CubaLIF": neuron.CubaLIF(),
    "LI": neuron.LI(),
    "ALIF": neuron.ALIF(),
    "Izhikevich": neuron.Izhikevich(),
    "Recurrent": neuron.Recurrent(neuron.LIF(), HIDDEN),
    "own": OwnNeuron(),
}


@pytest.mark.parametrize("steps", [STEPS, None], ids=["pictures", "sequences"])
@pytest.mark.parametrize("layer", NEURONS.values(), ids=NEURONS.keys())
def test_a_converted_net_of_every_neuron_is_ready(layer, steps):
    net = snn.Sequential(nn.Linear(INPUTS, HIDDEN), copy.deepcopy(layer), nn.Linear(HIDDEN, CLASSES))
    x, y = example()
    x = x if steps else x.unsqueeze(1).repeat(1, STEPS, 1)
    ready(ipu.convert(net, steps), (x, y), membrane_max_cross_entropy)


SURROGATES = [
    surrogate.ATan(),
    surrogate.FastSigmoid(),
    surrogate.SuperSpike(),
    surrogate.Sigmoid(),
    surrogate.Triangle(),
    surrogate.StraightThrough(),
]


@pytest.mark.parametrize("smooth", SURROGATES, ids=lambda s: type(s).__name__)
def test_every_surrogate_is_ready_once_converted_and_not_before(smooth):
    net = snn.Sequential(nn.Linear(INPUTS, CLASSES), neuron.LIF(surrogate=smooth))
    x, y = example()
    ready(ipu.convert(net, STEPS), (x, y), count_cross_entropy)
    report = ipu.check(net, (x.expand(BATCH, BATCH, INPUTS), y), count_cross_entropy)
    assert {finding.rule for finding in report.errors} == {"no autograd.Function"}


def test_clean_models_with_their_own_loss_are_ready():
    x, y = example()
    ready(Net(), (x, y))
    ready(ipu.WithLoss(planted.converted(), count_cross_entropy), (x, y))
    ready(Net(), (x, y), device_iterations=2, gradient_accumulation=2)


def test_clean_convolutions_norms_and_dropout_are_ready():
    torch.manual_seed(0)
    x, y = torch.rand(BATCH, 1, 8, 8), torch.randint(0, CLASSES, (BATCH,))
    net = models.ConvNet(size=8, classes=CLASSES, widths=(2, 3, 5))
    ready(ipu.convert(net, 3), (x, y), membrane_max_cross_entropy)
    net = models.FashionConvNet(2, 4, CLASSES, size=8)
    ready(ipu.convert(net, 3), (x, y), rate_mse)
    net = snn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES), nn.Dropout(0.5), neuron.LIF())
    ready(ipu.convert(net, 3), (x, y), count_cross_entropy)


class Clean(Net):
    """Things that look like breaking a rule, and don't."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(INPUTS))
        self.training_steps = 3

    def encode(self, x):
        self.count.copy_(self.count * 0.9 + x.detach().mean(0))  # state in a buffer, in place
        x = torch.where(x > 0.5, x, 0.5 * x)  # a decision per element
        seen = planted.Step.apply(x.detach() - 0.5)  # an autograd.Function off the path of the gradient
        if self.training_steps > 2 and x.shape[1] == INPUTS:  # decisions by constants and shapes
            x = x + 0 * seen
        weights = torch.from_numpy(np.ones(INPUTS, dtype=np.float32)).to(x.device)  # of the CPU, moved at once
        x = x * weights * torch.tensor(0.9) + torch.full((INPUTS,), 0.1)
        return x.to(torch.float16).to(torch.float32)


def test_what_only_looks_wrong_is_ready():
    ready(Clean(), example())


def test_loss_made_of_a_known_loss_and_marked_is_one_loss():
    class Regularised(Net):
        def cost(self, out, y):
            return ipu.identity_loss(F.cross_entropy(out.sum(1), y) + 0.1 * F.mse_loss(out, out.detach() * 0))

    ready(Regularised(), example())


def test_with_loss_marks_what_poptorch_would_not_take_for_a_loss():
    net, (x, y) = planted.converted(), example()
    ready(net, (x, y), lambda out, y: out.mean().square())  # none that PopTorch knows
    ready(net, (x, y), rate_mse)  # one that it knows, divided by the number of steps afterwards


def test_the_tutorials_network_is_ready_and_small():
    x, y = torch.rand(4, 784), torch.randint(0, 10, (4,))
    report = ready(ipu.convert(models.mlp(flatten=False), 3), (x, y), count_cross_entropy)
    assert report.memory.weights == 795_010 * 4
    assert report.memory.gradients == 795_010 * 4
    assert report.memory.optimizer == 2 * 795_010 * 4
    assert report.memory.accumulation == 0
    assert report.memory.transfer == (4 * 784 + 4 * 3 * 10 + 1) * 4 + 4 * 8
    assert math.isclose(report.memory.share, report.memory.total / (1472 * 624 * 1024))


def test_memory_counts_what_the_plan_asks_for():
    x, y = example()
    one = ready(Net(), (x, y)).memory
    more = ready(Net(), (x, y), gradient_accumulation=2).memory
    assert more.accumulation == one.weights
    assert 0 < more.activations < one.activations  # of a micro-batch half as large
    crowded = ipu.check(planted.Wide(1800), (x, y), tiles=1)
    assert 0.6 < crowded.memory.share < 1
    assert crowded.ready and [(f.rule, f.severity) for f in crowded.findings] == [("memory", "warning")]


def test_warnings_leave_a_model_ready():
    class Warned(Net):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(2, 2)

        def forward(self, x, y):
            out, loss = super().forward(x, y)
            self.last = out
            return out, loss

    report = ipu.check(Warned(), example())
    assert report.ready
    assert sorted(f.rule for f in report.findings) == [*["gradients"] * 2, "state in place"]
    assert report.rules["gradients"] == "warning"


def test_the_check_changes_nothing():
    class Counting(Clean):
        def encode(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            return super().encode(x)

    torch.manual_seed(3)
    net = Counting()
    before, hooks = copy.deepcopy(net.state_dict()), torch.autograd.Function.__dict__["apply"]
    state = torch.random.get_rng_state()
    ipu.check(net, example())
    assert not hasattr(net, "calls")
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.autograd.Function.__dict__["apply"] is hooks


def test_the_report_names_line_and_fix():
    text = str(ipu.check(planted.ThresholdAsANumber(), example()))
    assert text.startswith("not IPU-ready: 1 error")
    assert "ipu_cases.py" in text and "fix:" in text and "never run on one" in text
    good = ipu.check(Net(), example())
    assert set(good.rules) == set(ipu.RULES) and str(good).startswith("IPU-ready")


class LazyNet(Net):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(HIDDEN)


def test_a_backward_pass_that_fails_is_a_finding():
    class Overwritten(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("trace", torch.ones(BATCH, INPUTS))
            self.gain = nn.Parameter(torch.ones(INPUTS))

        def encode(self, x):
            scaled = self.gain * self.trace
            self.trace.copy_(x)
            return scaled

    report = ipu.check(Overwritten(), example())
    (finding,) = report.errors
    assert finding.rule == "gradients" and "modified by an inplace operation" in finding.what
    assert report.rules["static graph"] == "ok"


@pytest.mark.parametrize(
    ("error", "match", "given"),
    [
        (TypeError, "model must be", {"model": print}),
        (TypeError, "example must be", {"example": []}),
        (TypeError, "example must be", {"example": (torch.rand(8, INPUTS), 3)}),
        (TypeError, "loss must be", {"loss": 3}),
        (ValueError, "loss must be None unless", {"example": example()[:1], "loss": F.cross_entropy}),
        (ValueError, "loss must be None unless", {"model": ipu.WithLoss(Net(), F.cross_entropy), "loss": rate_mse}),
        (ValueError, "model must run on example", {"example": (torch.rand(8, 2), example()[1])}),
        (ValueError, "first.weight has none yet", {"model": LazyNet()}),
        (ValueError, "first.weight has none yet", {"model": Net().to("meta")}),
        (ValueError, "its tensor 0 is torch.strided on meta", {"example": tuple(t.to("meta") for t in example())}),
        (ValueError, "its tensor 0 is torch.sparse_coo", {"example": (example()[0].to_sparse(), example()[1])}),
        (ValueError, "device_iterations must be at least 1", {"device_iterations": 0}),
        (TypeError, "gradient_accumulation must be", {"gradient_accumulation": 1.5}),
        (ValueError, "tiles must be at least 1", {"tiles": 0}),
    ],
)
def test_misuse_is_refused(error, match, given):
    with pytest.raises(error, match=match):
        ipu.check(**({"model": Net(), "example": example()} | given))
