"""The check for IPUs: right verdict for the right reason on models, and on what PopTorch's guide lists."""

from __future__ import annotations

import copy
import math
import sys
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit import models, neuron, nn as snn, surrogate
from snnkit.lab.hardware import ipu
from snnkit.lab.hardware.ipu import graph_recording as recording
from snnkit.lab.hardware.ipu.operations import SIZE_FROM_VALUES, SUPPORTED, is_supported
from snnkit.lab.hardware.ipu.poptorch_rules import LIMITS
from snnkit.loss import count_cross_entropy, membrane_max_cross_entropy, rate_mse

from . import ipu_cases as planted
from .ipu_cases import BATCH, CASES, CLASSES, HIDDEN, INPUTS, STEPS, Net, OnIPU, batch_first, example


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planted(case):
    torch.manual_seed(0)
    report = ipu.check(case.model(), case.example(), **case.options())
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
def test_a_net_of_every_neuron_is_ready(layer, steps):
    net = snn.Sequential(nn.Linear(INPUTS, HIDDEN), copy.deepcopy(layer), nn.Linear(HIDDEN, CLASSES))
    x, y = example()
    x = x if steps else x.unsqueeze(1).repeat(1, STEPS, 1)
    ready(OnIPU(net, steps), (x, y), batch_first(membrane_max_cross_entropy))


NAMES = ("ATan", "FastSigmoid", "SuperSpike", "Sigmoid", "Triangle", "StraightThrough")
SURROGATES = [getattr(surrogate, name)() for name in NAMES]


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


@pytest.mark.parametrize("smooth", SURROGATES, ids=lambda s: type(s).__name__)
def test_every_surrogate_is_ready_once_detached_and_not_before(smooth):
    net = snn.Sequential(nn.Linear(INPUTS, CLASSES), neuron.LIF(surrogate=smooth))
    x, y = example()
    report = ipu.check(net, (x.expand(BATCH, BATCH, INPUTS), y), count_cross_entropy)
    assert {finding.rule for finding in report.errors} == {"no autograd.Function"}
    ready(OnIPU(net), (x, y), batch_first(count_cross_entropy))


def test_clean_models_with_their_own_loss_are_ready():
    x, y = example()
    ready(Net(), (x, y))
    ready(ipu.WithLoss(planted.converted(), batch_first(count_cross_entropy)), (x, y))
    ready(Net(), (x, y), device_iterations=2, gradient_accumulation=2)


def test_clean_convolutions_norms_and_dropout_are_ready():
    torch.manual_seed(0)
    x, y = torch.rand(BATCH, 1, 8, 8), torch.randint(0, CLASSES, (BATCH,))
    net = models.ConvNet(size=8, classes=CLASSES, widths=(2, 3, 5))
    ready(OnIPU(net), (x, y), batch_first(membrane_max_cross_entropy))
    net = models.FashionConvNet(2, 4, CLASSES, size=8)
    ready(OnIPU(net), (x, y), batch_first(rate_mse))
    net = snn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES), nn.Dropout(0.5), neuron.LIF())
    ready(OnIPU(net), (x, y), batch_first(count_cross_entropy))


class Unknown(Net):
    """What is no error, but does something else on an IPU, or what is not known."""

    def encode(self, x):
        x.requires_grad_()
        (slope,) = torch.autograd.grad(x.square().sum(), x)  # planted
        print("shape", x.shape, f"mean {x}")  # planted
        return slope


class Clean(Net):
    """Things that look like breaking a rule, and don't."""

    def parts(self):
        return {"count": nn.Buffer(torch.zeros(INPUTS)), "training_steps": 3}

    def encode(self, x):
        self.count.copy_(self.count * 0.9 + x.detach().mean(0))  # state in a buffer, in place
        x = torch.where(x > 0.5, x, 0.5 * x)  # a decision per element
        seen = planted.Step.apply(x.detach() - 0.5)  # an autograd.Function off the path of the gradient
        if self.training_steps > 2 and x.shape[1] == INPUTS:  # decisions by constants and shapes
            x = x + 0 * seen
        weights = torch.from_numpy(np.ones(INPUTS, dtype=np.float32)).to(x.device)  # of the CPU, moved at once
        x = x * weights * torch.tensor(0.9) + torch.full((INPUTS,), 0.1)
        x[x < 0.2] = 0.0  # a where
        x = x + 0 * x.sort(descending=True).values
        return x.to(torch.float16).to(torch.float32)


def test_what_only_looks_wrong_is_ready():
    ready(Clean(), example())
    ready(Regularised(), example())  # a known loss and more, marked as one


class Regularised(Net):
    def cost(self, out, y):
        return ipu.identity_loss(nn.CrossEntropyLoss()(out.sum(1), y) + 0.1 * F.mse_loss(out, out.detach() * 0))


def test_with_loss_marks_what_poptorch_would_not_take_for_a_loss():
    net, (x, y) = planted.converted(), example()
    ready(net, (x, y), lambda out, y: out.mean().square())  # none that PopTorch knows
    ready(net, (x, y), batch_first(rate_mse))  # one that it knows, divided by the number of steps afterwards


def test_the_tutorials_network_is_ready_and_small():
    x, y = torch.rand(4, 784), torch.randint(0, 10, (4,))
    report = ready(OnIPU(models.mlp(flatten=False)), (x, y), batch_first(count_cross_entropy))
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
        def parts(self):
            return {"spare": nn.Linear(2, 2)}

        def forward(self, x, y):
            out, loss = super().forward(x, y)
            self.last = out
            return out, loss

    report = ipu.check(Warned(), example())
    assert report.ready
    assert sorted(f.rule for f in report.findings) == [*["gradients"] * 2, "state in place"]
    assert report.rules["gradients"] == "warning"


def test_what_is_not_known_and_what_is_only_printed_once_are_warnings():
    report = ipu.check(Unknown(), example())
    printed, differentiated = sorted(report.findings, key=lambda finding: "known" in finding.what)
    assert report.ready and {finding.severity for finding in report.findings} == {"warning"}
    assert "<unavailable>" in printed.what and "print(" in printed.where
    assert "is not known" in differentiated.what and "autograd.grad(" in differentiated.where


def test_the_check_changes_nothing():
    class Counting(Clean):
        def encode(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            return super().encode(x)

    torch.manual_seed(3)
    net, inputs = Counting(), example()
    before, hooks = copy.deepcopy(net.state_dict()), torch.autograd.Function.__dict__["apply"]
    state, assign = torch.random.get_rng_state(), nn.Module.__setattr__
    ipu.check(net, inputs)
    assert not hasattr(net, "calls") and nn.Module.__setattr__ is assign
    assert all(torch.equal(x, given) for x, given in zip(inputs, example(), strict=True))
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.autograd.Function.__dict__["apply"] is hooks


def test_the_report_names_line_and_fix():
    text = str(ipu.check(planted.ThresholdAsANumber(), example()))
    assert text.startswith("not IPU-ready: 1 error") and "never run on one" in text
    good = ipu.check(Net(), example())
    assert set(good.rules) == set(ipu.RULES) and str(good).startswith("IPU-ready")
    for report in (text, str(good)):  # longer lines break inside words
        assert max(len(line) for line in report.splitlines() if "where:" not in line) <= 100


def test_a_backward_pass_that_fails_is_a_finding():
    class Overwritten(Net):
        def parts(self):
            return {"trace": nn.Buffer(torch.ones(BATCH, INPUTS)), "gain": nn.Parameter(torch.ones(INPUTS))}

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
        (TypeError, r"example\[1\] must be", {"example": (torch.rand(8, INPUTS), 3)}),
        (ValueError, "loss must be None unless", {"example": example()[:1], "loss": F.cross_entropy}),
        (ValueError, "loss must be None unless", {"model": ipu.WithLoss(Net(), F.cross_entropy), "loss": rate_mse}),
        (ValueError, "model must run on example", {"example": (torch.rand(8, 2), example()[1])}),
        (ValueError, "first.weight has none yet", {"model": Net().to("meta")}),
        (ValueError, "its tensor 0 is torch.strided on meta", {"example": tuple(t.to("meta") for t in example())}),
        (TypeError, r"example\[0\] must be .* sparse", {"example": (example()[0].to_sparse(), example()[1])}),
    ],
)
def test_misuse_is_refused(error, match, given):
    with pytest.raises(error, match=match):
        ipu.check(**({"model": Net(), "example": example()} | given))


IMAGE, LINE, CUBE, FLAT = (2, 3, 8, 8), (2, 3, 8), (2, 3, 4, 4, 4), (2, 6)
SHAPES = {"1d": LINE, "2d": IMAGE, "3d": CUBE}
BY_DIMENSIONS = {"Conv": (3, 4, 3), "ConvTranspose": (3, 4, 3), "MaxPool": (2,), "AvgPool": (2,)}
BY_DIMENSIONS |= {"AdaptiveAvgPool": (2,), "ReplicationPad": (1,)}

# Layers of the guide, and a shape they take.
LAYERS = [
    *(
        (getattr(nn, kind + dimensions)(*arguments), shape)
        for kind, arguments in BY_DIMENSIONS.items()
        for dimensions, shape in SHAPES.items()
    ),
    (nn.ReflectionPad1d(1), LINE),
    (nn.ReflectionPad2d(1), IMAGE),
    (nn.ZeroPad2d(1), IMAGE),
    (nn.ConstantPad1d(1, 0.5), LINE),
    *(
        (layer, FLAT)
        for layer in (
            *(nn.ELU(), nn.CELU(), nn.GELU(), nn.Hardshrink(), nn.LeakyReLU(), nn.LogSoftmax(1), nn.ReLU(), nn.SELU()),
            *(nn.SiLU(), nn.Sigmoid(), nn.Softmax(1), nn.Softplus(), nn.Softsign(), nn.Softshrink(), nn.Tanh()),
            *(nn.PReLU(), nn.RReLU(), nn.Hardtanh(), nn.GLU(), nn.Threshold(0.1, 0.0)),
            *(nn.BatchNorm1d(6), nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.Identity(), nn.Linear(6, 4), nn.Dropout(0.3)),
            *(nn.RNN(6, 4), nn.GRU(6, 4), nn.LSTM(6, 4), nn.GRU(6, 4, bias=False), nn.Mish(), nn.Hardswish()),
        )
    ),
    (nn.BatchNorm2d(3), IMAGE),
    (nn.BatchNorm3d(3), CUBE),
    (nn.InstanceNorm2d(3, affine=True), IMAGE),
    (nn.Upsample(scale_factor=2), IMAGE),
    (nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
]
# Layers beyond the limits that the guide names.
LIMITED = [
    *((nn.RNN(6, 4, bias=False), FLAT), (nn.LSTM(6, 4, bias=False), FLAT), (nn.LSTM(6, 4, bidirectional=True), FLAT)),
    *((nn.LSTM(6, 4, num_layers=2), FLAT), (nn.GRU(6, 4, 2, dropout=0.5), FLAT), (nn.GRU(6, 4, 2), FLAT)),
    *((nn.ConvTranspose1d(3, 4, 3, dilation=2), LINE), (nn.BatchNorm2d(3, affine=False), IMAGE)),
    (nn.MaxPool2d(2, None, 0, 1, True), IMAGE),
    *((nn.AvgPool2d(2, divisor_override=3), IMAGE), (nn.AdaptiveAvgPool2d(3), IMAGE), (nn.AdaptiveAvgPool3d(3), CUBE)),
    *((nn.LayerNorm(6, elementwise_affine=False), FLAT), (nn.InstanceNorm2d(3), IMAGE)),
]


def unsupported(module, *shapes, integers=False):
    """The operations of a call without values that are not in the list, and the limits that it breaks."""
    inputs = [torch.zeros(s, dtype=torch.int64 if integers else torch.float32, device="meta") for s in shapes]
    module = module.to("meta")
    record = recording.record(module, inputs, meta=True)
    assert record.error is None, record.error
    assert record.operations or isinstance(module, nn.Identity)
    limits = {what for op in record.operations for names, no, what, _ in LIMITS if op.name in names.split() and no(op)}
    return {op.name for op in record.operations if not is_supported(op.name) and not op.part} | limits


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda part: type(part).__name__)
def test_layers_of_the_guide(layer, shape):
    assert not unsupported(layer, shape)


@pytest.mark.parametrize(("layer", "shape"), LIMITED, ids=lambda part: type(part).__name__)
def test_limits_of_the_guide(layer, shape):
    (limit,) = unsupported(layer, shape)
    assert " " in limit  # no name of an operation


@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_of_the_guide(layer):
    assert not unsupported(layer(5, 4), (2, 3), integers=True)
    assert unsupported(layer(5, 4, padding_idx=0), (2, 3), integers=True) == {"an embedding with padding_idx"}
    for option in ("sparse", "scale_grad_by_freq"):
        assert unsupported(layer(5, 4, **{option: True}), (2, 3), integers=True) == {
            "an embedding with sparse or scale_grad_by_freq"
        }


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor frac log log10 log1p log2 neg reciprocal round
    rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc all any argmax argmin mean median prod std sum var max min
    isnan argsort sort amax amin erf std_mean var_mean count_nonzero zeros_like ones_like t relu
"""
BINARY = """
    add div floor_divide fmod mul pow remainder sub true_divide eq ge gt le lt ne max min maximum minimum matmul
    logical_and logical_or cdist expand_as
"""


@pytest.mark.parametrize(("name", "arguments"), [*((n, 1) for n in UNARY.split()), *((n, 2) for n in BINARY.split())])
def test_functions_of_one_or_two_arguments(name, arguments):
    function = getattr(torch, name, None) or getattr(torch.Tensor, name)
    assert not unsupported(Calls(function), *[(4, 4)] * arguments)


def test_other_functions_of_the_guide():
    def index(x):
        return x[:, 0].long()

    for function in (
        lambda x: torch.cat([x, x]).chunk(2)[0] + torch.stack([x, x])[0] + torch.where(x > 0, x, 0.0),
        lambda x: x.reshape(2, 8).roll(1).transpose(0, 1).unsqueeze(0).squeeze(0).expand(8, 2),
        lambda x: x.masked_fill(x > 0, 0.0),
        lambda x: x.gather(1, index(x).unsqueeze(1)) + x.index_select(0, index(x)),
        lambda x: x.scatter(1, index(x).unsqueeze(1), 1.0) + x.scatter_add(0, index(x).unsqueeze(1), x),
        lambda x: torch.bernoulli(x) + torch.randn(4, 4) + torch.rand(4) + torch.normal(x, 1.0) + torch.randperm(4),
        lambda x: torch.addcdiv(x, x, x) + torch.addcmul(x, x, x) + x.clamp(0, 1) + x.clamp_min(0) + x.clamp_max(1),
        lambda x: torch.topk(x, 2).values.sum() + x.cumsum(0) + torch.meshgrid(x[0], x[1], indexing="ij")[0],
        lambda x: torch.addmm(x, x, x) + torch.bmm(x[None], x[None])[0] + torch.einsum("ij,jk->ik", x, x),
        lambda x: x.logsumexp(0) + torch.tensordot(x, x, dims=1) + torch.bucketize(x, x[0]),
        lambda x: x.cumprod(0) + torch.cross(x[:, :3], x[:, 1:], dim=1).sum() + x.unfold(0, 4, 4)[0],
        lambda x: F.bilinear(x, x, torch.zeros(4, 4, 4)) + x.take_along_dim(index(x).unsqueeze(1), 1),
        lambda x: torch.linalg.norm(x) + torch.linalg.vector_norm(x) + torch.norm(x) + 1 - x + x.flip(0).repeat(1, 1),
        lambda x: F.one_hot(index(x), 4) + torch.arange(4) + torch.full((4,), 2.0) + x.new_zeros(4) + x.new_ones(4),
        lambda x: x.unbind(0)[0] + x.split(2)[0][0] + x.flatten()[:4] + x.permute(1, 0)[0] + x.to(torch.float16)[0],
        lambda x: x.add_(1).mul_(2).sub_(x).clamp_(0, 1).relu_().sigmoid_(),
    ):
        assert not unsupported(Calls(function), (4, 4))


def test_losses_of_the_guide():
    def classes(x):
        return x.sum(1).long()

    for function in (
        lambda a, b: F.l1_loss(a, b) + F.mse_loss(a, b) + F.smooth_l1_loss(a, b) + F.binary_cross_entropy(a, b),
        lambda a, b: F.cross_entropy(a, classes(b)) + F.nll_loss(F.log_softmax(a, 1), classes(b)),
        lambda a, b: F.kl_div(a, b) + F.poisson_nll_loss(a, b) + F.binary_cross_entropy_with_logits(a, b),
        lambda a, b: F.soft_margin_loss(a, b) + F.hinge_embedding_loss(a, b),
        lambda a, b: F.cosine_embedding_loss(a, b, classes(b)) + F.triplet_margin_loss(a, b, a + b),
    ):
        assert not unsupported(Calls(function), (4, 4), (4, 4))


ABSENT = """
    heaviside lerp nan_to_num sinc rand_like bernoulli_ nonzero masked_select fft_fft svd histc erfinv
"""


@pytest.mark.parametrize("name", ABSENT.split())
def test_what_is_absent(name):
    assert not is_supported(name) or name in SIZE_FROM_VALUES
    assert name not in SUPPORTED


def test_loss_inside():
    (x, y), net = example(), planted.converted()
    model = ipu.WithLoss(net, batch_first(count_cross_entropy))
    out, loss = model(x, y)
    assert math.isclose(loss.item(), count_cross_entropy(out.transpose(0, 1), y).item())
    assert torch.equal(model(x), out)
    for no_loss in (lambda out, y: (out.mean(), out.sum()), lambda out, y: out.mean((1, 2))):
        with pytest.raises(ipu.NotOneLoss, match="one scalar tensor"):
            ipu.WithLoss(net, no_loss)(x, y)


def test_identity_loss_is_poptorchs_where_that_is_imported(monkeypatch):
    x = torch.tensor([1.0, 3.0])
    assert ipu.identity_loss(x, "mean") == 2 and ipu.identity_loss(x, "sum") == 4
    assert torch.equal(ipu.identity_loss(x), x)
    theirs = types.SimpleNamespace(identity_loss=lambda x, reduction: (reduction, x))
    monkeypatch.setitem(sys.modules, "poptorch", theirs)
    assert ipu.identity_loss(x, "mean") == ("mean", x)
