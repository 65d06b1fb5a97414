"""Int8 weights: which layers get them, what it costs, and files and copies of them. Needs torchao."""

import copy
import math
import pickle
import sys
import types
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

pytest.importorskip("torchao")

from snnkit import data, encode, loss, quantize, train
from snnkit.models import mlp


def dense(*sizes, seed=0, **arguments):
    torch.manual_seed(seed)
    return mlp(sizes or (64, 32, 16), engine="eager", **arguments)


def inputs(steps=6, batch=4, width=64):
    return torch.rand(steps, batch, width, generator=torch.Generator().manual_seed(1)) * 2


# --- what becomes of a model -----------------------------------------------------------------------------------------


def test_a_weight_is_rounded_to_one_of_256_steps():
    layer = nn.Linear(24, 8)
    small, _ = quantize.quantize(layer)
    weight = layer.weight.detach()
    rounded = (small(torch.eye(24)) - layer.bias.detach()).T
    step = weight.abs().amax(1, keepdim=True) / 127.5
    assert ((rounded - weight).abs() <= step * 0.501).all() and not torch.equal(rounded, weight)
    torch.testing.assert_close(rounded / step, (rounded / step).round(), atol=1e-4, rtol=0)
    spikes = (torch.rand(5, 24) < 0.4).float()
    torch.testing.assert_close(small(spikes), spikes @ rounded.T + layer.bias.detach())


def test_the_model_itself_stays_and_the_copy_is_for_inference():
    net = dense().train()
    before = copy.deepcopy(net.state_dict())
    small, _ = quantize.quantize(net)
    assert net.training and all(p.requires_grad for p in net.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert not small.training and not any(p.requires_grad for p in small.parameters())
    x = inputs()
    out, state = small(x)
    assert out.shape == (6, 4, 16) and not out.requires_grad
    with torch.no_grad():
        again, _ = small(x, state)
        assert torch.equal(small(torch.cat([x, x]))[0], torch.cat([out, again]))


def test_the_report_counts_every_byte():
    net = dense(64, 32, 12)
    small, report = quantize.quantize(net)
    assert [(one.name, one.kind, one.done) for one in report.layers] == [("1", "Linear", True), ("3", "Linear", True)]
    assert report.bytes_before == sum(p.numel() * 4 for p in net.parameters())
    # a byte per weight, four per output for the scale, four for the bias, and a zero point per output
    assert report.layers[0].bytes_after - (64 * 32 + 4 * 32 + 4 * 32) in (0, 32)
    assert report.bytes_after == sum(one.bytes_after for one in report.layers)
    ratio = report.bytes_before / report.bytes_after
    assert 3.4 < ratio < 3.6 and f"{ratio:.2f} times smaller" in str(report) and "8,320" in str(report)
    assert "int8 weight" in repr(small)


def test_layers_that_share_a_weight_or_are_something_of_their_own():
    class Odd(nn.Linear):
        pass

    one, two, odd = nn.Linear(8, 8), nn.Linear(8, 8), Odd(8, 8)
    two.weight = one.weight
    net = nn.Sequential(one, two, odd, nn.Linear(8, 8), nn.Linear(8, 8).double())
    small, report = quantize.quantize(net)
    assert [layer.done for layer in report.layers] == [False, False, False, True, False]
    whys = [layer.note for layer in report.layers]
    assert "another layer's" in whys[0] and "for Odd" in whys[2] and "torch.float64" in whys[4]
    assert small[0].weight is small[1].weight and report.layers[1].bytes_before == 8 * 4


# --- accuracy --------------------------------------------------------------------------------------------------------


def test_a_trained_network_answers_as_before():
    train.seed_everything(0)
    net = mlp((64, 64, 10), engine="eager")
    see = partial(encode.repeat, steps=10)
    images = data.load("digits")
    count = loss.count_cross_entropy
    train.fit(net, images, encode=see, loss=count, lr=5e-3, epochs=3, device="cpu", progress=False)
    small, report = quantize.quantize(net)
    test = data.load("digits", "test")
    before, after = (train.evaluate(one, test, encode=see, device="cpu")["accuracy"] for one in (net, small))
    assert before > 0.85 and abs(after - before) < 0.02
    assert report.bytes_before > 3 * report.bytes_after


# --- copies and files ------------------------------------------------------------------------------------------------


def test_copies_and_files_answer_alike(tmp_path):
    small, _ = quantize.quantize(dense())
    torch.save(small.state_dict(), tmp_path / "small.pt")
    loaded, _ = quantize.quantize(dense(seed=9))
    loaded.load_state_dict(torch.load(tmp_path / "small.pt"), assign=True)
    x = inputs()
    for other in (copy.deepcopy(small), pickle.loads(pickle.dumps(small)), loaded):
        assert torch.equal(other(x)[0], small(x)[0]) and repr(other) == repr(small)
    assert small(x)[0].mean() > 0
    assert not loaded.training and not any(p.requires_grad for p in loaded.parameters())
    floats = train.save_checkpoint(tmp_path / "whole.pt", dense())
    assert (tmp_path / "small.pt").stat().st_size < floats.stat().st_size


# --- bad input -------------------------------------------------------------------------------------------------------


def with_nan():
    net = dense()
    net[3].weight.data[0, 0] = math.nan
    return net


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3)), "no layer whose weights could be int8: 0: torchao has"),
        (nn.ReLU, "no layer whose weights could be int8: it holds no weights"),
        (lambda: quantize.quantize(dense()).model, "no layer whose weights could be int8: 1: is int8 already"),
        (lambda: nn.Linear(8, 8, device="meta"), "meta device"),
        (
            lambda: weight_norm(nn.Linear(8, 8)),
            "its weight is parametrized: call torch.nn.utils.parametrize.rem",
        ),
        (with_nan, "the weight of layer '3' must be finite"),
    ],
)
def test_models_that_can_not_be(make, says):
    with pytest.raises(ValueError, match=says):
        quantize.quantize(make())


@pytest.mark.parametrize("old", [None, types.SimpleNamespace(Int8WeightOnlyConfig=lambda group_size=None: None)])
def test_without_torchao_or_with_colabs_old_one_it_says_what_to_install(old, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.quantization", old)
    error = r".*\(its error: torchao .* is too old\)" if old else ""
    with pytest.raises(ImportError, match=r"pip install .snnkit\[quantize\] @ git" + error):
        quantize.quantize(dense())
