"""Convolutions of spikes from their places: values and gradients of PyTorch's, and plain calls where they are meant."""

import copy
import random

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from snnkit import engine, event_products, linear
from snnkit.neuron import LIF
from snnkit.nn import Sequential, TimeBatched, dense_products

WIDE = {torch.float32: 1e-5, torch.float64: 1e-13, torch.bfloat16: 0.05}


@pytest.fixture
def events(monkeypatch):
    """Event-driven convolutions of any size and density, and the kernels that ran."""
    if event_products.kernels() is None:
        pytest.skip("no C++ compiler")
    ran, run = [], event_products._run
    monkeypatch.setattr(linear, "COUNTED", 0)
    monkeypatch.setattr(event_products, "break_even_of_windows", lambda *shape: 1.0)
    monkeypatch.setattr(event_products, "_run", lambda name, *rest: ran.append(name) or run(name, *rest))
    return ran


def images(*shape, density=0.1, dtype=torch.float32):
    """[T, B, C, H, W] of spikes, channels-last."""
    x = (torch.rand(shape) < density).to(dtype)
    return x.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, shape[:2])


def close(ours, theirs, dtype):
    assert ours.dtype == theirs.dtype == dtype and ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= WIDE[dtype] * theirs.abs().max().clamp_min(1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(
    "channels, outputs, height, width, options",
    [
        (2, 5, 7, 9, {"kernel_size": 3, "padding": 1}),
        (70, 65, 6, 5, {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0), "bias": False}),
        (3, 8, 9, 11, {"kernel_size": 5, "stride": (2, 3), "padding": 2}),
        (4, 8, 3, 3, {"kernel_size": 1, "stride": 2}),
        (4, 8, 3, 3, {"kernel_size": 3, "padding": 4}),
    ],
)
def test_values_and_gradients_are_those_of_pytorch(
    events, monkeypatch, channels, outputs, height, width, options, density, dtype, threads
):
    monkeypatch.setattr(event_products, "threads_for", lambda x: threads)
    layer = nn.Conv2d(channels, outputs, **options).to(dtype)
    if channels % 2:
        layer = layer.to(memory_format=torch.channels_last)
    x = images(2, 3, channels, height, width, density=density, dtype=dtype).requires_grad_()
    ours, theirs = TimeBatched(layer)(x).flatten(0, 1), layer(x.flatten(0, 1))
    assert events == ["product"]
    close(ours, theirs, dtype)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    g, leaves = torch.randn_like(theirs), (x, *layer.parameters())
    for a, b in zip(*(torch.autograd.grad(out, leaves, g) for out in (ours, theirs)), strict=True):
        close(a, b, dtype)
    assert events == ["product", "gradients"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_random_convolutions(events, monkeypatch, seed):
    chance = random.Random(seed)
    for _ in range(20):
        dtype, threads = chance.choice([*WIDE]), chance.choice((1, 2, 3))
        monkeypatch.setattr(event_products, "threads_for", lambda x, n=threads: n)
        kernel, stride, padding = ([chance.randint(*limits) for _ in range(2)] for limits in ((1, 5), (1, 3), (0, 3)))
        sides = [chance.randint(max(1, k - 2 * p), 12) for k, p in zip(kernel, padding, strict=True)]
        channels, outputs, batch = chance.randint(2, 9), chance.choice((1, 5, 64, 70)), chance.randint(1, 4)
        how = {"kernel_size": kernel, "stride": stride, "padding": padding, "bias": chance.random() < 0.5}
        layer = nn.Conv2d(channels, outputs, **{name: tuple(v) if name != "bias" else v for name, v in how.items()})
        layer, density = layer.to(dtype), chance.choice((0.0, 0.05, 0.3, 1.0))
        x = images(1, batch, channels, *sides, density=density, dtype=dtype).requires_grad_()
        exact, wide, before = copy.deepcopy(layer).double(), x.detach().double().requires_grad_(), len(events)
        ours, theirs = TimeBatched(layer)(x)[0], exact(wide[0])
        g = torch.randn_like(theirs)
        found = torch.autograd.grad(ours, (x, *layer.parameters()), g.to(dtype))
        wanted = torch.autograd.grad(theirs, (wide, *exact.parameters()), g.to(dtype).double())
        for a, b in zip((ours, *found), (theirs, *wanted), strict=True):
            close(a, b.to(dtype), dtype)
        assert events[before:] == ["product", "gradients"], (seed, how)


@pytest.mark.parametrize(
    "frozen", [(), ("x",), ("weight",), ("x", "bias"), ("weight", "bias"), ("x", "weight", "bias")]
)
def test_gradients_of_first_and_second_order(events, frozen):
    layer, x = nn.Conv2d(2, 3, 3, stride=2, padding=1).double(), images(1, 2, 2, 3, 4, dtype=torch.float64, density=0.4)
    tensors = {"x": x, **dict(layer.named_parameters())}
    for name, tensor in tensors.items():
        tensor.requires_grad_(name not in frozen)
    out = TimeBatched(layer)(x)
    assert out.requires_grad == (len(frozen) < 3) and events == ["product"]
    if out.requires_grad:
        inputs = tuple(tensors.values())
        assert torch.autograd.gradcheck(lambda *_: TimeBatched(layer)(x), inputs)
        assert ("gradients" in events) == ("weight" not in frozen)
        assert torch.autograd.gradgradcheck(lambda *_: TimeBatched(layer)(x), inputs)
        rows = torch.eye(3, dtype=torch.float64)
        leaves = [tensor for tensor in inputs if tensor.requires_grad]
        outs = TimeBatched(layer)(x).flatten(0, 1), layer(x.flatten(0, 1))
        many = (torch.autograd.grad(o[0, :, 0, 0], leaves, rows, is_grads_batched=True) for o in outs)
        torch.testing.assert_close(*many)


def test_where_a_plain_call_is_expected_convolutions_are_pytorchs(events, monkeypatch):
    layer, x = nn.Conv2d(4, 6, 3, padding=1), images(2, 3, 4, 5, 6)
    net = TimeBatched(layer)

    def plain(layer, x=x):
        torch.testing.assert_close(TimeBatched(layer)(x).flatten(0, 1), layer(x.flatten(0, 1)))
        return not events

    assert plain(nn.Conv2d(4, 6, 3, groups=2)) and plain(nn.Conv2d(4, 6, 3, dilation=2))
    assert plain(nn.Conv2d(4, 6, 3, padding="same")) and plain(nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"))
    assert plain(layer, x.contiguous()) and plain(layer, 2 * x) and plain(layer, x[:, :0])
    assert plain(nn.Conv2d(1, 6, 3), images(2, 3, 1, 5, 6))
    with pytest.raises(ValueError, match="x of Conv2d must be"):
        net(images(2, 3, 5, 5, 6))
    with pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        TimeBatched(nn.Conv2d(4, 6, 9))(x)
    torch.func.vmap(net)(x[None])
    torch.func.jvp(net, (x,), (x,))
    torch.compile(net, backend="eager", fullgraph=True)(x)
    dense = torch.rand_like(x)
    torch.testing.assert_close(torch.jit.trace(net, x, check_trace=False)(dense), net(dense))
    with torch.autocast("cpu", torch.bfloat16):
        assert net(x).dtype == torch.bfloat16
    with FlopCounterMode(display=False) as flops:
        net(x)
    assert flops.get_total_flops() == 2 * x.numel() * 6 * 9
    seen = []
    handle = layer.register_forward_hook(lambda *_: seen.append(1))
    assert plain(layer) and seen == [1, 1]
    handle.remove()
    with dense_products():
        assert plain(layer)
    with torch.no_grad():
        before = layer.weight[0, 0, 0, 0].item()
        layer.weight[0, 0, 0, 0] = torch.inf
        assert torch.equal(net(x).flatten(0, 1).isnan(), layer(x.flatten(0, 1)).isnan()) and events.pop() == "product"
        layer.weight[0, 0, 0, 0] = before
    with monkeypatch.context() as patch:
        patch.setattr(event_products, "kernels", lambda: None)
        assert plain(layer)
    assert not plain(layer)


def test_checkpoints_hooks_and_gradients_that_are_not_finite(events):
    layer, x = nn.Conv2d(4, 6, 3, padding=1), images(2, 3, 4, 5, 6).requires_grad_()
    net, g = TimeBatched(layer), torch.randn(2, 3, 6, 5, 6)
    expected = torch.autograd.grad(layer(x.flatten(0, 1)).unflatten(0, (2, 3)), (x, layer.weight), g)
    with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.bfloat16, lambda t: t.float()):
        out = net(x.detach())
    torch.testing.assert_close(torch.autograd.grad(out, layer.weight, g)[0], expected[1])
    out = checkpoint(net, x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(out, (x, layer.weight), g), expected)
    assert events.count("gradients") == 2
    g[0, 0, 0, 0, 0] = torch.inf
    outs = net(x).flatten(0, 1), layer(x.flatten(0, 1))
    ours, theirs = (torch.autograd.grad(out, layer.weight, g.flatten(0, 1)) for out in outs)
    assert torch.equal(ours[0].isfinite(), theirs[0].isfinite())


def test_explain_and_the_rule():
    rule = event_products.break_even_of_windows
    assert 0.05 < rule(12544, 1152, 128, torch.float32) < event_products.break_even(12544, 1152, 128, torch.float32)
    assert rule(295936, 18, 32, torch.float32) < 0
    if event_products.kernels() is None:
        pytest.skip("no C++ compiler")
    net = Sequential({"conv": nn.Conv2d(128, 128, 3, padding=1), "lif": LIF()})
    x = images(2, 16, 128, 14, 14, density=0.02)
    (row,) = engine.explain(net, x).products
    assert (row.layer, row.shape, row.way) == ("conv", (32, 128, 14, 14), "events")
    assert row.reason.startswith(f"{x.mean():.1%} of the inputs are spikes")
    assert engine.explain(net, images(2, 16, 128, 14, 14, density=0.5)).products[0].way == "PyTorch"
    (row,) = engine.explain(net, x.contiguous()).products
    assert row.way == "PyTorch" and "channels-last" in row.reason
    with dense_products():
        assert engine.explain(net, x).products[0].reason == "dense_products asks so"


@pytest.mark.parametrize("allowed", [0, 1, 2, 3, 4, 5, 6])
def test_too_little_memory_for_any_part_of_the_lists(events, allowed, monkeypatch):
    """Two parts of those of lines, two of those of windows, and the latter again in backward."""
    layer, x, made = nn.Conv2d(4, 6, 3, padding=1), images(2, 3, 4, 5, 6), []
    net, empty = Sequential(layer), event_products._empty
    expected = layer(x.flatten(0, 1)).unflatten(0, (2, 3))
    with monkeypatch.context() as patch:
        patch.setattr(
            event_products, "_empty", lambda *a: made.append(a) or (empty(*a) if len(made) <= allowed else None)
        )
        out, g = net(x)[0], torch.randn_like(expected)
        found = torch.autograd.grad(out, list(layer.parameters()), g)
        made.clear()
        (row,) = engine.explain(net, x).products
    torch.testing.assert_close([out, *found], [expected, *torch.autograd.grad(expected, list(layer.parameters()), g)])
    assert events.count("product") == 2 * (allowed >= 4) and events.count("gradients") == (allowed >= 6)
    assert row.reason == "too little memory for lists" or allowed >= 4
