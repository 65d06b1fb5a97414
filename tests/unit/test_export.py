"""Exported programs: equal to the model bit for bit, for any batch, with the state in and out, without snnkit."""

import functools
import importlib.util
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from snnkit import encode, export, neuron, quantize
from snnkit.engine import ops
from snnkit.models import ConvNet, FashionConvNet, StatisticalSNN, mlp
from snnkit.nn import Sequential, detach

ADRIFT = 7  # a batch that is not that of any example


class Pair(nn.Module):
    """A model that is not a Sequential: two of them, one with a recurrent layer, in a state of its own."""

    def __init__(self):
        super().__init__()
        self.first = mlp((64, 12, 10), engine="eager")
        self.second = Sequential(nn.Linear(10, 6), neuron.Recurrent(neuron.LIF(v_threshold=0.1), 6), neuron.LI())

    def forward(self, x, state=None):
        one, two = (None, None) if state is None else state
        x, one = self.first(x, one)
        x, two = self.second(x, two)
        return x, (one, two)


def twice():
    shared = neuron.ALIF(engine="eager")
    block = Sequential(nn.Linear(9, 9), neuron.Leaky(0.8, 0.2))
    return Sequential(nn.Flatten(), nn.Linear(64, 9), shared, nn.Linear(9, 9), shared, block, block)


def learnable():
    plif = neuron.PLIF(shape=(9,), v_reset=torch.linspace(-1, 0.5, 9))
    return Sequential(nn.Flatten(), nn.Linear(64, 9), plif, nn.Dropout(0.5), neuron.ALIF())


def fashion():
    net = FashionConvNet(4, 32, 10, 1, 8)
    with torch.no_grad():
        for layer in (net[9], net[11]):
            layer.weight.mul_(8)
    net[1].module.running_mean.fill_(0.05)
    return net


NETS = {
    "mlp": lambda: mlp((64, 12, 10)),
    "conv": lambda: ConvNet(size=8, widths=(6, 10, 30)),
    "fashion": fashion,
    "pair": Pair,
    "twice": twice,
    "learnable": learnable,
    "statistical": lambda: StatisticalSNN(64, 32, populations=4),
}


def images(steps, batch=ADRIFT, seed=0):
    return torch.rand(steps, batch, 1, 8, 8, generator=torch.Generator().manual_seed(seed)) * 3


def tensors(state):
    if isinstance(state, tuple):
        return [tensor for part in state for tensor in tensors(part)]
    return [] if state is None else [state]


def assert_runs_alike(net, program, *, steps, batch):
    """From rest, and on from there: to the bit, but for recurrent products, which are added in another order."""
    tolerance = 1e-5 if any(isinstance(layer, neuron.Recurrent) for layer in net.modules()) else 0.0
    equal = functools.partial(torch.testing.assert_close, rtol=tolerance, atol=tolerance)
    run, x = program.module(), images(steps, batch)
    with torch.no_grad():
        out, state = net(x)
        later, last = net(x, state)
    found, kept = run(x, export.resting_state(program, batch))
    equal(found, out)
    found, kept = run(x, kept)
    equal(found, later)
    assert len(tensors(kept)) == len(tensors(last))
    equal(tensors(kept), tensors(last))
    found, _ = run(x, export.plain(state))
    equal(found, later)


@pytest.mark.parametrize("name", NETS)
def test_equal_to_the_model(name):
    torch.manual_seed(0)
    net = NETS[name]().eval()
    assert net(images(16))[0].abs().sum() > 0  # or it would be easy to equal
    program = export.export(net, images(4, 3))
    for batch in (1, 2, 3, ADRIFT):
        assert_runs_alike(net, program, steps=4, batch=batch)
    kinds = {str(node.target).partition(".")[0] for node in program.graph.nodes if node.op == "call_function"}
    assert kinds <= {"aten", "<built-in function getitem>", "<built-in function mul>", "<built-in function add>"}


@pytest.mark.parametrize("name", ["auto", "block"])
def test_loops_that_a_compiled_model_would_keep_as_one_operation(name):
    net = Sequential(nn.Linear(5, 3), neuron.Leaky(0.9, 0.2, engine=name))
    x = torch.rand(ops.INLINED + 2, 3, 5)
    program = export.export(net, x)
    assert "snnkit" not in str(program.graph)
    assert torch.equal(program.module()(x, export.resting_state(program, 3))[0], net(x)[0])


def test_the_model_stays_as_it_was():
    net = learnable().train()
    engines = [layer.engine for layer in net if isinstance(layer, neuron.Neuron)]
    export.export(net, images(2))
    assert net.training and all(p.requires_grad for p in net.parameters())
    assert [layer.engine for layer in net if isinstance(layer, neuron.Neuron)] == engines == ["auto"] * 2
    assert not any(layer._forward_hooks for layer in net)


def test_a_static_example_makes_no_static_program():
    net = mlp((64, 12, 10), engine="eager")
    program = export.export(net, encode.repeat(images(1, 3)[0], 4))
    assert_runs_alike(net, program, steps=4, batch=3)


def test_states_at_rest():
    net = learnable()
    program = export.export(net, images(2))
    rest = export.resting_state(program, 5)
    assert type(rest) is tuple and [type(part) for part in rest] == [type(None), type(None), tuple, type(None), tuple]
    torch.testing.assert_close(rest[2][0], torch.linspace(-1, 0.5, 9).expand(5, 9))
    with torch.no_grad():
        _, state = net.eval()(images(2))
    shapes = [tensor.shape for tensor in tensors(export.plain(detach(state)))]
    assert [tensor.shape for tensor in tensors(export.resting_state(program, ADRIFT))] == shapes


ALONE = """
import sys, torch
sys.modules["snnkit"] = sys.modules["torchao"] = None       # importing them is an error now
folder = sys.argv[1]
x = torch.load(folder + "/x.pt")
for name in sys.argv[2:]:
    program = torch.export.load(f"{folder}/{name}.pt2")
    _, state = program.example_inputs[0]
    out, state = program.module()(x, state)
    out, state = program.module()(x, state)
    torch.save(out, f"{folder}/{name}.out")
assert not [name for name in sys.modules if name.startswith(("snnkit.", "torchao."))]
"""


@pytest.mark.slow
def test_files_run_without_snnkit(tmp_path):
    torch.manual_seed(0)
    net, x = fashion().eval(), images(4, 2)
    models = {"fixed": net}
    if importlib.util.find_spec("torchao"):
        models["int8"] = quantize.quantize(mlp((64, 12, 10), engine="eager")).model
    for name, model in models.items():
        program = export.export(model, x)
        torch.export.save(program, tmp_path / f"{name}.pt2")
    torch.save(x, tmp_path / "x.pt")
    subprocess.run([sys.executable, "-c", ALONE, str(tmp_path), *models], check=True, capture_output=True)
    for name, model in models.items():
        with torch.no_grad():
            _, state = model(x)
            assert torch.equal(torch.load(tmp_path / f"{name}.out"), model(x, state)[0])
    assert_runs_alike(net, torch.export.load(tmp_path / "fixed.pt2"), steps=4, batch=5)


def test_weights_in_channels_last_are_saved_without_a_warning(tmp_path):
    net = Sequential(nn.Conv2d(2, 3, 3), neuron.LIF()).to(memory_format=torch.channels_last)
    program = export.export(net, torch.zeros(2, 2, 2, 5, 5))
    assert all(weight.is_contiguous() for weight in program.state_dict.values())
    assert not net[0].weight.is_contiguous()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.export.save(program, tmp_path / "net.pt2")


def test_half_precision():
    torch.manual_seed(0)
    net = mlp((64, 12, 10), beta=0.9, engine="eager").bfloat16()
    x = images(4).bfloat16()
    program = export.export(net, x)
    out, state = program.module()(x, export.resting_state(program, ADRIFT))
    assert out.dtype == torch.bfloat16 and tensors(state)[0].dtype == torch.float32
    assert torch.equal(out, net(x)[0])


def test_int8_weights_are_exported_as_int8():
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    small, _ = quantize.quantize(mlp((64, 12, 10), engine="eager"))
    program = export.export(small, images(4))
    assert_runs_alike(small, program, steps=4, batch=3)
    stored = {(tensor.dtype, tuple(tensor.shape)) for tensor in program.state_dict.values()}
    assert {(torch.int8, (12, 64)), (torch.int8, (10, 12))} <= stored
    assert not {(torch.float32, (12, 64)), (torch.float32, (10, 12))} & stored


class Counting(nn.Module):
    def forward(self, x, state=None):
        state = torch.zeros(x.shape[1]) if state is None else state
        return x, state + x.shape[0]


class Labelled(nn.Module):
    def forward(self, x, state=None):
        return x, ("label",)


@pytest.mark.parametrize(
    "model, example, error, says",
    [
        (mlp((64, 10)), torch.ones(2, 3, 64).int(), TypeError, "x of export must be floating point"),
        (mlp((64, 10)), torch.ones(0, 3, 64), ValueError, "x of export must have at least one time step"),
        (mlp((64, 10)), torch.ones(2, 0, 64), ValueError, r"at least one sample, but its shape is \[2, 0, 64\]"),
        (nn.Linear(64, 10), torch.ones(2, 3, 64), TypeError, r"model must return \(out, state\).* returned a Tensor"),
        (Counting(), torch.ones(2, 3), ValueError, r"a tensor \[2\] whose value at rest is not known"),
        (Labelled(), torch.ones(2, 3), TypeError, "must be made of tensors, but it holds a str"),
    ],
)
def test_what_can_not_be_exported(model, example, error, says):
    with pytest.raises(error, match=says):
        export.export(model, example)
