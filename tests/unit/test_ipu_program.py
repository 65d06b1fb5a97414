"""Programs that are written for a machine with PopTorch: they stand alone, and compute what their network does."""

from __future__ import annotations

import ast
import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from snnkit import loss, models, neuron, surrogate
from snnkit import nn as snn
from snnkit.hardware import ipu
from snnkit.hardware.ipu import program

from . import poptorch_double
from .ipu_cases import CLASSES, HIDDEN, INPUTS, STEPS, example
from .test_ipu_check import NEURONS, SURROGATES, OwnNeuron


def dense(layer, **how):
    torch.manual_seed(0)
    net = snn.Sequential(nn.Linear(INPUTS, HIDDEN), layer, nn.Linear(HIDDEN, CLASSES), neuron.Leaky(0.9, **how))
    for part in (net[0], net[2]):
        nn.init.normal_(part.weight, std=1.5)
    return net


def loaded(path):
    """What the program defines, run as a module."""
    space = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space


def sequences():
    x, y = example()
    return x.unsqueeze(1).repeat(1, STEPS, 1), y


@pytest.mark.parametrize("layer", NEURONS.values(), ids=NEURONS.keys())
def test_every_neuron(layer, tmp_path):
    net = dense(copy.deepcopy(layer))
    path, weights = ipu.write_program(
        net, loss.membrane_max_cross_entropy, sequences(), tmp_path / "on_ipu.py", steps=None
    )
    text = path.read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "autograd.Function" not in text and "snnkit." not in text.split('"""', 2)[2]
    space = loaded(path)
    made = space["Net"]()
    made.load_state_dict(torch.load(weights))
    x, _ = sequences()
    assert torch.equal(made(x), ipu.convert(net)(x))
    assert ipu.check(space["WithLoss"](made, ipu.identity_loss), sequences()).ready


@pytest.mark.parametrize("smooth", SURROGATES, ids=lambda s: type(s).__name__)
def test_every_surrogate_has_its_gradient_in_it(smooth, tmp_path):
    net = dense(neuron.LIF(surrogate=smooth))
    path, weights = ipu.write_program(net, "out.sum()", sequences(), tmp_path / "a.py")
    made = loaded(path)["Net"]()
    made.load_state_dict(torch.load(weights))
    x, _ = sequences()
    made(x).sum().backward()
    net(x.transpose(0, 1))[0].sum().backward()
    theirs = dict(made.named_parameters())
    for name, p in net.named_parameters():
        torch.testing.assert_close(theirs[name].grad, p.grad)
    assert net[0].weight.grad.any()


def test_a_convolutional_net_of_pictures(tmp_path):
    inner = snn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), neuron.IF(), nn.MaxPool2d(2))
    last = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    dense = snn.TimeBatched(nn.Linear(64, 16))
    net = snn.Sequential(inner, nn.Flatten(), dense, nn.Dropout(0.2), neuron.CubaLIF(), last)
    x, y = torch.rand(6, 1, 8, 8), torch.arange(6) % CLASSES
    path, weights = ipu.write_program(net, loss.rate_mse, (x, y), tmp_path / "conv.py", steps=4)
    made = loaded(path)["Net"]()
    made.load_state_dict(torch.load(weights))
    net.eval(), made.eval()
    assert torch.equal(made(x), ipu.convert(net, 4)(x))
    assert "x = once(" in path.read_text() and "x = folded(" in path.read_text()


def test_layers_that_are_used_twice_and_layers_that_are_not_trained(tmp_path):
    torch.manual_seed(0)
    same, beta = nn.Linear(HIDDEN, HIDDEN), nn.Parameter(torch.tensor(0.7))
    net = snn.Sequential(nn.Linear(INPUTS, HIDDEN), neuron.Leaky(beta), same, neuron.Leaky(beta), same, neuron.LI())
    net[0].requires_grad_(False)
    x, y = sequences()
    y = y % HIDDEN
    path, weights = ipu.write_program(net, loss.membrane_max_cross_entropy, (x, y), tmp_path / "a.py")
    made = loaded(path)["Net"]()
    made.load_state_dict(torch.load(weights))
    assert [n for n, _ in made.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert [p.requires_grad for p in made.parameters()] == [p.requires_grad for p in net.parameters()]
    assert torch.equal(made(x), ipu.convert(net)(x))


LOSSES = {name: getattr(loss, name) for name in program._LOSSES} | {"tutorial": ipu.tutorial_loss}


def test_every_loss_of_classes_is_here():
    known = set(loss.__all__) - {"accuracy", "spike_rate_regulariser"}
    assert known == set(program._LOSSES)


@pytest.mark.parametrize("function", LOSSES.values(), ids=LOSSES.keys())
def test_losses(function, tmp_path):
    net = dense(neuron.LIF())
    x, y = example()
    path, _ = ipu.write_program(net, function, (x, y), tmp_path / "a.py", steps=STEPS)
    out = torch.rand(STEPS, 8, CLASSES)
    torch.testing.assert_close(loaded(path)["loss_of"](out, y), function(out, y))


# --- the program itself ---------------------------------------------------------------------------------------------


def learnable(count=64):
    x = torch.rand(count, INPUTS, generator=torch.Generator().manual_seed(3))
    return x, x[:, :CLASSES].argmax(1)


def started(path, *arguments):
    """The program as a learner starts it, where there is no snnkit."""
    code = "import sys, runpy, torch; torch.manual_seed(0); "  # the order of samples
    code += "sys.modules['snnkit'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], "
    command = [sys.executable, "-c", code + "run_name='__main__')", str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=path.parent)


def test_it_trains_without_snnkit_and_the_weights_come_back(tmp_path):
    net = dense(neuron.LIF())
    path, _ = ipu.write_program(net, loss.count_cross_entropy, example(), tmp_path / "here.py", steps=STEPS)
    x, y = learnable()
    torch.save((x, y), tmp_path / "data.pt")
    done = started(path, "data.pt", "--epochs", "40", "--batch", "16", "--lr", "0.02")
    assert done.returncode == 0, done.stderr
    losses = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
    assert len(losses) == 40 and losses[-1] < 0.9 * losses[0]
    before = loss.count_cross_entropy(ipu.convert(net, STEPS)(x).transpose(0, 1), y)
    net.load_state_dict(torch.load(tmp_path / "here_trained.pt"))
    after = loss.count_cross_entropy(ipu.convert(net, STEPS)(x).transpose(0, 1), y)
    assert after < 0.9 * before
    few = started(path, "data.pt", "--batch", "65")
    assert few.returncode and "at least 65 samples" in few.stderr
    no = started(path, "data.pt", "--ipu", "--batch", "8")
    assert no.returncode and "poptorch" in no.stderr


def test_it_trains_through_the_double_of_poptorch(tmp_path, monkeypatch):
    poptorch_double.install(monkeypatch)
    net = dense(neuron.LIF())
    path, _ = ipu.write_program(net, loss.count_cross_entropy, example(), tmp_path / "there.py", steps=STEPS)
    x, y = learnable()
    torch.save((x, y), tmp_path / "data.pt")
    words = [str(tmp_path / "data.pt"), "--ipu", "--epochs", "30", "--batch", "8", "--iterations", "2", "--lr", "0.02"]
    loaded(path)["main"](words)
    trained = torch.load(tmp_path / "there_trained.pt")
    before = loss.count_cross_entropy(ipu.convert(net, STEPS)(x).transpose(0, 1), y)
    net.load_state_dict(trained)
    after = loss.count_cross_entropy(ipu.convert(net, STEPS)(x).transpose(0, 1), y)
    assert after < 0.9 * before


# --- what is refused ------------------------------------------------------------------------------------------------


class Opaque(nn.Module):
    def forward(self, x):
        return x * 2


class WithATensor(OwnNeuron):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor([1.5])

    def step(self, x, state):
        return super().step(x * self.scale, state)


class OfTheBatch(OwnNeuron):
    def step(self, x, state):
        return super().step(x + torch.zeros(len(x), 1), state)


def test_norms_are_written_as_pytorch_2_0_knows_them(tmp_path):
    net = snn.Sequential(nn.Linear(INPUTS, CLASSES), nn.LayerNorm(CLASSES), neuron.LIF())
    path, _ = ipu.write_program(net, loss.count_cross_entropy, example(), tmp_path / "a.py", steps=STEPS)
    line = next(line for line in path.read_text().splitlines() if "nn.LayerNorm(" in line)
    assert "bias" not in line


def wrong_layer(layer):
    return snn.Sequential(nn.Linear(INPUTS, CLASSES), layer, neuron.LIF())


X, Y = example()
WRONG = {
    "no net": (TypeError, "net must be a torch.nn.Module", {"net": 3}),
    "no snn": (TypeError, "can't be converted", {"net": nn.Sequential(neuron.LIF())}),
    "converted": (TypeError, "converted already", {"net": ipu.convert(dense(neuron.LIF()), STEPS)}),
    "own layer": (ValueError, "Opaque is no single layer of torch.nn", {"net": wrong_layer(Opaque())}),
    "too new": (ValueError, "2.0.1.*has no RMSNorm", {"net": wrong_layer(nn.RMSNorm(CLASSES))}),
    "no bias": (ValueError, "LayerNorm without a bias", {"net": wrong_layer(nn.LayerNorm(CLASSES, bias=False))}),
    "a tensor": (ValueError, "neither", {"net": wrong_layer(WithATensor())}),
    "batch": (ValueError, "size of the batch", {"net": wrong_layer(OfTheBatch())}),
    "double": (ValueError, "float32, but 0.weight is torch.float64", {"net": dense(neuron.LIF()).double()}),
    "own loss": (ValueError, "loss must be one of.*<lambda>", {"loss": lambda out, y: out.sum()}),
    "no loss": (TypeError, "loss must be a function", {"loss": None}),
    "syntax": (ValueError, "one expression", {"loss": "out.sum("}),
    "unknown name": (ValueError, "can't be run on example.*mine", {"loss": "mine(out, y)"}),
    "no example": (TypeError, r"example must be \(x, y\)", {"example": X}),
    "three": (TypeError, "3 values", {"example": (X, Y, Y)}),
    "half": (ValueError, "must be float32", {"example": (X.half(), Y)}),
    "sizes": (ValueError, "same number of samples", {"example": (X, Y[:3])}),
    "one": (ValueError, "at least 2", {"example": (X[:1], Y[:1])}),
    "features": (ValueError, "can't be run", {"example": (torch.rand(8, INPUTS + 1), Y)}),
    "path": (ValueError, "path must be that of a Python module", {"path": "on ipu.py"}),
    "suffix": (ValueError, "path must be", {"path": "on_ipu"}),
    "keyword": (ValueError, "path must be", {"path": "class.py"}),
    "steps": (ValueError, "steps must be at least 1", {"steps": 0}),
    "steps as text": (TypeError, "steps must be a whole number", {"steps": "25"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_named_and_nothing_is_written(name, tmp_path):
    error, match, changed = WRONG[name]
    given = {"net": dense(neuron.LIF()), "loss": loss.count_cross_entropy, "example": (X, Y), "path": "a.py"}
    given |= {"steps": STEPS} | changed
    with pytest.raises(error, match=match):
        ipu.write_program(given["net"], given["loss"], given["example"], tmp_path / given["path"], steps=given["steps"])
    assert not list(tmp_path.iterdir())


def test_a_program_that_computes_something_else_is_never_written(tmp_path, monkeypatch):
    from snnkit.hardware.ipu import step_text

    monkeypatch.setitem(step_text._INFIX, "sub", "+")
    with pytest.raises(ValueError, match="other spikes than net"):
        ipu.write_program(dense(neuron.LIF()), loss.count_cross_entropy, (X, Y), tmp_path / "a.py", steps=STEPS)
    assert not list(tmp_path.iterdir())


def test_a_program_with_another_gradient_is_never_written(tmp_path, monkeypatch):
    from snnkit.hardware.ipu import step_text

    monkeypatch.setattr(step_text, "_SAME", ("detach",))  # the surrogate's tangent then cancels out
    with pytest.raises(ValueError, match="gradient of"):
        ipu.write_program(dense(neuron.LIF()), loss.count_cross_entropy, (X, Y), tmp_path / "a.py", steps=STEPS)


def test_the_network_and_its_random_numbers_stay_as_they_were(tmp_path):
    net = dense(neuron.LIF()).eval()
    before, chance = copy.deepcopy(net.state_dict()), torch.random.get_rng_state()
    ipu.write_program(net, "F.cross_entropy(out.sum(0), y)", (X, Y), tmp_path / "a.py", steps=STEPS)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.equal(chance, torch.random.get_rng_state())
    assert not net.training and not any(p.grad is not None for p in net.parameters())


def test_models_of_the_kit(tmp_path):
    net = models.mlp((INPUTS, HIDDEN, CLASSES), surrogate=surrogate.FastSigmoid(), flatten=True)
    x = X.reshape(8, 1, 2, 3)
    path, _ = ipu.write_program(net, loss.count_cross_entropy, (x, Y), tmp_path / "a.py", steps=STEPS)
    assert "nn.Flatten" in path.read_text()
