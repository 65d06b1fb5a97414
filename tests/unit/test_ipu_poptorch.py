"""The way to an IPU, through a double of PopTorch's interface: never run on one."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit import models, neuron
from snnkit import nn as snn
from snnkit.hardware import ipu
from snnkit.loss import count_cross_entropy

from . import ipu_cases as planted
from . import poptorch_double
from .ipu_cases import CASES, CLASSES, HIDDEN, INPUTS, STEPS, Net, example

SIZES = (INPUTS, HIDDEN, CLASSES)


@pytest.fixture
def poptorch(monkeypatch):
    return poptorch_double.install(monkeypatch)


def lively(**how):
    """A small network of snnkit that fires."""
    torch.manual_seed(0)
    net = models.mlp(SIZES, flatten=False, **how)
    for layer in (net[0], net[2]):
        nn.init.normal_(layer.weight, std=1.5)
    return net


# --- without PopTorch -----------------------------------------------------------------------------------------------


def test_without_poptorch_it_says_what_is_needed():
    assert "poptorch" not in sys.modules
    assert "2.0.1" in ipu.poptorch_status() and "Poplar SDK" in ipu.poptorch_status()
    with pytest.raises(ImportError, match=r"PopTorch can't be imported.*graphcore\.ai.*ipu\.check"):
        ipu.ipu_training_model(lively(), count_cross_entropy, steps=STEPS)


@pytest.mark.parametrize("line", ["assert False, 'torch 2.0.1 wanted'", "raise ImportError('source /path/enable')"])
def test_a_poptorch_that_refuses_to_import_is_explained(tmp_path, monkeypatch, line):
    (tmp_path / "poptorch.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ipu.PopTorchMissing, match=r"wanted|enable"):
        ipu.ipu_training_model(lively(), count_cross_entropy, steps=STEPS)
    sys.modules.pop("poptorch", None)


# --- training through the double ------------------------------------------------------------------------------------


def by_hand(net, batches, per_step, **adam):
    """The same training in plain PyTorch."""
    model = ipu.WithLoss(ipu.convert(net, STEPS), count_cross_entropy)
    optimizer = torch.optim.Adam(model.parameters(), **adam)
    for i in range(0, len(batches), per_step):
        optimizer.zero_grad()
        for x, y in batches[i : i + per_step]:
            (model(x, y)[1] / per_step).backward()
        optimizer.step()
    return net


@pytest.mark.parametrize(("iterations", "accumulation", "replicas"), [(1, 1, 1), (4, 1, 1), (2, 2, 1), (1, 2, 2)])
def test_training_is_what_plain_pytorch_would_do(poptorch, iterations, accumulation, replicas):
    net, twin = lively(), lively()
    before = copy.deepcopy(net.state_dict())
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    model = ipu.ipu_training_model(
        net, count_cross_entropy, poptorch.optim.Adam(net.parameters(), lr=0.01), options, steps=STEPS
    )
    count = iterations * accumulation * replicas
    x, y = torch.rand(8 * count, INPUTS), torch.randint(0, CLASSES, (8 * count,))
    for _ in range(3):
        out, loss = model(x, y)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())  # not yet on the host
    model.copyWeightsToHost()
    batches = [(x[i * 8 : i * 8 + 8], y[i * 8 : i * 8 + 8]) for i in range(count)] * 3
    by_hand(twin, batches, accumulation * replicas, lr=0.01)
    for key, value in net.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[key])
        assert not torch.equal(value, before[key])
    assert out.shape == (8, STEPS, CLASSES) and loss.shape == ()  # of the last micro-batch


def test_it_learns(poptorch):
    torch.manual_seed(0)
    net = lively()
    data = torch.utils.data.TensorDataset(torch.rand(64, INPUTS), torch.zeros(64, dtype=torch.int64))
    data.tensors[1][:] = data.tensors[0][:, :CLASSES].argmax(1)
    options = poptorch.Options().deviceIterations(2)
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    model = ipu.ipu_training_model(net, count_cross_entropy, None, options, steps=STEPS)
    model.setOptimizer(poptorch.optim.Adam(net.parameters(), lr=0.02, loss_scaling=8.0))
    losses = [model(x, y)[1].item() for _ in range(30) for x, y in loader]
    assert sum(losses[-10:]) < 0.85 * sum(losses[:10])
    model.destroy()


def test_the_optimizer_by_default_is_adam(poptorch):
    model = ipu.ipu_training_model(ipu.tutorial_net(SIZES), count_cross_entropy)
    assert isinstance(model._optimizer, torch.optim.Adam)
    assert model._optimizer.param_groups[0]["lr"] == 1e-3


def test_a_module_of_plain_operations_is_taken_as_it_is(poptorch):
    net = nn.Sequential(nn.Linear(INPUTS, CLASSES))
    model = ipu.ipu_training_model(net, F.cross_entropy)
    x, y = example()
    out, loss = model(x, y)
    assert torch.equal(out, net(x)) and torch.isclose(loss, F.cross_entropy(net(x), y))


def test_what_poptorch_has_no_counterpart_of_is_refused(poptorch):
    net = ipu.tutorial_net(SIZES)
    for error, match, optimizer in (
        (TypeError, "optimizer must be.*Adagrad", torch.optim.Adagrad(net.parameters())),
        (ValueError, "amsgrad of Adam", torch.optim.Adam(net.parameters(), amsgrad=True)),
        (ValueError, "nesterov of SGD", torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True)),
        (TypeError, "optimizer must be", 0.1),
        (ValueError, "optimizer must hold parameters of net", torch.optim.Adam(ipu.tutorial_net(SIZES).parameters())),
    ):
        with pytest.raises(error, match=match):
            ipu.ipu_training_model(net, count_cross_entropy, optimizer)
    with pytest.raises(TypeError, match="net must be"):
        ipu.ipu_training_model(3, count_cross_entropy)
    with pytest.raises(TypeError, match="loss must be"):
        ipu.ipu_training_model(net, None)
    for module in (net, nn.Linear(INPUTS, CLASSES)):
        with pytest.raises(ValueError, match="steps must be None unless"):
            ipu.ipu_training_model(module, count_cross_entropy, steps=3)


def test_a_loss_marked_by_poptorch_itself_is_seen_by_the_check(poptorch):
    class Theirs(Net):
        def cost(self, out, y):
            return poptorch_double.sys.modules["poptorch"].identity_loss(out.square().mean() + 0 * y.sum(), "none")

    report = ipu.check(Theirs(), example())
    assert report.ready, str(report)


# --- the double is as strict as PopTorch ----------------------------------------------------------------------------


def train(poptorch, model, inputs=None, **options):
    made = poptorch.Options()
    for name, value in options.items():
        getattr(made, name)(value)
    executor = poptorch.trainingModel(model, made, poptorch.optim.SGD(model.parameters(), lr=0.1))
    executor(*(example() if inputs is None else inputs))
    executor.copyWeightsToHost()
    return executor


def test_a_function_has_no_backward_there(poptorch):
    torch.manual_seed(0)
    model = planted.OwnSurrogate()
    before = copy.deepcopy(model.state_dict())
    copy.deepcopy(model)(*example())[1].backward()  # here it has one
    train(poptorch, model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    train(poptorch, clean := Net())
    assert not torch.equal(clean.first.weight, copy.deepcopy(before)["first.weight"])


REFUSED = {
    "ResetChosenByABuffer": "_local_scalar_dense",
    "ThresholdAsANumber": "_local_scalar_dense",
    "LoopUntilQuiet": "_local_scalar_dense",
    "BufferReassigned": "is reassigned within the model",
    "ConstantInAnAttribute": "device",
    "NoLoss": "Couldn't find a loss",
    "TwoLosses": "Multiple independent losses",
    "TwoMarkedLosses": "Multiple independent losses",
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses_what_the_check_finds(poptorch, name):
    (case,) = [case for case in CASES if case.name == name]
    with pytest.raises((poptorch.Error, RuntimeError), match=REFUSED[name]):
        train(poptorch, case.model())


def test_it_takes_what_is_clean(poptorch):
    train(poptorch, Net())
    net = snn.Sequential(nn.Linear(INPUTS, HIDDEN), neuron.Recurrent(neuron.ALIF(), HIDDEN), nn.Linear(HIDDEN, CLASSES))
    train(poptorch, ipu.WithLoss(ipu.convert(net, STEPS), count_cross_entropy))


def test_its_calls_are_pinned(poptorch):
    x, y = example()
    model = Net()
    executor = train(poptorch, model)
    with pytest.raises(poptorch.Error, match="Shape mismatch"):
        executor(x[:4], y[:4])
    with pytest.raises(poptorch.Error, match="Type mismatch"):
        executor(x.double(), y)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(model)
    with pytest.raises(RuntimeError, match="backward"):
        executor(x, y)[1].backward()
    with pytest.raises(AttributeError, match="frozen"):
        executor.options.deviceIterations(2)
    executor.destroy()
    with pytest.raises(AssertionError, match="Invalid batch dimension"):
        train(poptorch, model, deviceIterations=3)
