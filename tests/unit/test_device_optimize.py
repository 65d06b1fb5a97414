"""What is saved, predicted and measured; accelerate; explain_memory."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from snnkit import device, encode
from snnkit.device import Precision, accelerate, explain_memory, optimize_memory_usage, training_step
from snnkit.device.accelerate import _precision
from snnkit.engine import missing_compiler
from snnkit.models import FashionConvNet, mlp
from snnkit.neuron import LIF
from snnkit.nn import Sequential


def conv_net():
    return FashionConvNet(16, 64, engine="eager")


def test_the_peak_is_more_than_halved_and_every_item_measured():
    """In float64, which PyTorch pools: our own pooling saves a byte of each output, with or without this."""
    net, x = FashionConvNet(32, 128).double(), encode.repeat(torch.rand(16, 1, 28, 28, dtype=torch.float64), 16)
    report = optimize_memory_usage(net, x)
    assert report.before.peak > 2 * report.after.peak
    assert report.after == training_step(net, x)
    assert report.items[0].saved + report.items[1].saved == report.before.held - report.after.held
    assert all(item.saved > 0 for item in report.items)
    assert "times less" in repr(report) and "<table>" in report._repr_html_()


@pytest.mark.skipif(bool(missing_compiler("cpu")), reason="no compiler for the C++ engine")
@pytest.mark.parametrize("steps", [4, 8])
def test_where_pooling_is_ours_and_neurons_run_in_cpp_the_peak_is_not_higher(steps):
    """Either saves by itself what a checkpoint would."""
    net, x = FashionConvNet(32, 128), encode.repeat(torch.rand(16, 1, 28, 28), steps)
    report = optimize_memory_usage(net, x)
    assert report.after.peak <= report.before.peak and report.after.held < 0.9 * report.before.held
    assert all(item.peak >= 0 for item in report.items)


def test_measuring_leaves_no_trace():
    net, x = conv_net(), torch.rand(3, 4, 1, 28, 28)
    before, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    optimize_memory_usage(net, x)
    explain_memory(net, x)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters()) and torch.equal(torch.get_rng_state(), random)


def test_it_can_be_called_again_and_undone():
    net, x = conv_net(), torch.rand(3, 4, 1, 28, 28)
    plain = training_step(net, x)
    optimize_memory_usage(net)
    optimize_memory_usage(net, recompute=False)
    assert net.runner.pack and not net.runner.recompute
    assert device.restore_memory_usage(net) is net and training_step(net, x) == plain
    optimize_memory_usage(net, recompute=False, pack=False)
    assert net.runner is None


def test_accelerate_on_a_cpu():
    net = conv_net()
    fast = accelerate(net, "cpu", optimize_memory=True, batch_size=3)
    assert fast.model is net and fast.device.type == "cpu" and fast.precision == "fp32" and fast.channels_last
    assert fast.memory.items and len(fast.reasons) == 3
    x = torch.rand(2, 7, 1, 28, 28)
    assert torch.equal(fast(x)[0], net(x)[0])
    fast.model.eval()
    assert torch.equal(fast.process(x, lambda net, b: net(b)[0], dim=1, out_dim=1, progress=False), net(x)[0])
    assert not fast.scaler().is_enabled()


@pytest.mark.parametrize(("dtype", "name"), [(torch.float16, "fp16"), (torch.bfloat16, "bf16")])
def test_auto_precision_follows_the_gpu(dtype, name, monkeypatch):
    monkeypatch.setattr(Precision, "choose", classmethod(lambda cls, device, amp: cls(device, dtype)))
    assert _precision("auto", torch.device("cuda"))[0] == name


@pytest.mark.parametrize("name, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)])
def test_precision(name, dtype):
    fast = device.setup_gpu_acceleration(mlp((4, 3)), "cpu", precision=name)
    assert fast.precision == name
    with fast.autocast():
        assert (torch.rand(2, 2) @ torch.rand(2, 2)).dtype == dtype


def mixed():
    net = mlp((4, 3))
    net[1].weight = nn.Parameter(torch.empty(3, 4, device="meta"))
    return net


def test_the_whole_is_the_sum_of_its_layers():
    net, x = FashionConvNet(8, 32, engine="cpp"), torch.rand(4, 6, 1, 28, 28)
    table = explain_memory(net, x, optimizer="adam")
    assert [row.layer for row in table] == ["0", "1.module", *map(str, range(2, 13))]
    gradients = sum(row.gradients for row in table)
    assert gradients == sum(p.nbytes for p in net.parameters())
    assert table.optimizer == 2 * gradients and "the optimizer keeps" in repr(table)
    assert table.step.peak >= table.step.held > 0 and table.optimized is None and "<table>" in table._repr_html_()
    states = sum(part.v.nbytes for part in net(x)[1] if part is not None)
    # x was there before; the last states are not kept for backward, but handed out.
    assert table.measured - x.nbytes + states == pytest.approx(table.step.held, rel=0.001)


def test_a_tensor_that_two_layers_keep_counts_once():
    table = explain_memory(Sequential(nn.Linear(50, 50), nn.Sigmoid(), nn.Linear(50, 50)), torch.rand(3, 4, 50))
    assert [row.measured for row in table] == [2400, 2400, 0] and table.measured == 4800


def test_an_optimised_model_shows_both():
    net, x = conv_net(), torch.rand(5, 4, 1, 28, 28)
    plain = explain_memory(net, x)
    optimize_memory_usage(net)
    table = explain_memory(net, x)
    assert table.rows == plain.rows and table.step == plain.step
    assert table.optimized.held < table.step.held / 2 and net.runner.pack
    assert "with optimize_memory_usage" in repr(table)


SMALL, X = mlp((4, 3)), torch.rand(2, 2, 4)


@pytest.mark.parametrize(
    "function, arguments, error, match",
    [
        (partial(optimize_memory_usage, steps=2), (conv_net(),), ValueError, r"norm that learns .*\('1.module'\)"),
        (accelerate, (LIF(),), ValueError, "no parameters: LIF"),
        (accelerate, (mixed(),), ValueError, r"mixed devices, meta \('1.weight'\) and cpu \('1.bias'\)"),
        (optimize_memory_usage, (SMALL, X.to("meta")), ValueError, "model is on cpu and sample on meta"),
        (explain_memory, (SMALL, X.to("meta")), ValueError, "model is on cpu and x on meta"),
        (explain_memory, (mlp((4, 3)).requires_grad_(False), X), ValueError, "every parameter frozen"),
    ],
)
def test_bad_arguments(function, arguments, error, match):
    with pytest.raises(error, match=match):
        function(*arguments)
