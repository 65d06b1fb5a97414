"""Neurons that pool their own outputs, beside neurons and a pooling layer after them."""

import pytest
import torch
from torch import nn

from snnkit import engine
from snnkit.engine import autograd, unroll
from snnkit.neuron import IF, LI, LIF, Leaky
from snnkit.nn import Sequential, ablate, recording

from .zoo import FEATURES, ZOO


@pytest.fixture
def pooled(monkeypatch):
    """Of each call of a compiled engine, whether it pooled."""
    seen, run = [], autograd.run

    def watched(*arguments):
        seen.append(arguments[-1] is not None)
        return run(*arguments)

    monkeypatch.setattr(autograd, "run", watched)
    return seen


def images(steps=6, batch=3, channels=4, height=4, width=FEATURES, dtype=torch.float64):
    """[T, B, C, H, W], channels-last."""
    x = torch.randn(steps, batch, height, width, channels, dtype=torch.float64) * 2
    return x.to(dtype).permute(0, 1, 4, 2, 3)


def passed(neuron, x, window, name, state=None, **options):
    """out, last state, and the gradients of all of a loss that looks at all results."""
    x = x.detach().requires_grad_()
    parts = [s.detach().requires_grad_() for s in state or ()]
    state = type(state)(*parts) if state else None
    out, last = unroll(neuron, x, state, engine=name, window=window, **options)
    generator = torch.Generator().manual_seed(5)
    results = (out, *last)
    loss = sum((r * torch.randn(r.shape, generator=generator, dtype=r.dtype)).sum() for r in results)
    wanted = (x, *parts, *(p for p in neuron.parameters() if p.requires_grad))
    return [*results, *torch.autograd.grad(loss, wanted, materialize_grads=True)]


def assert_equal(found, wanted, tolerance=1e-12):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# Of one state and of several, with parameters of each neuron and without, with flags, and one that does not fire.
NEURONS = ("IF", "LI", "Leaky-learnable", "CubaLIF-learnable", "ALIF-hard-learnable", "Izhikevich", "Refractory")


@pytest.mark.parametrize("name", NEURONS)
def test_every_kind_of_neuron_beside_pytorchs_pooling(name, pooled):
    neuron, x = ZOO[name]().double(), images()
    state = unroll(neuron, images(2), engine="eager")[1]
    for start in (None, state):
        assert_equal(passed(neuron, x, 2, "cpp", start), passed(neuron, x, 2, "eager", start))
    step = images(1)[0]
    assert_equal(passed(neuron, step, 2, "cpp", repeat=5), passed(neuron, step, 2, "eager", repeat=5))
    assert pooled == [True] * 3


SIZES = [(torch.float32, *s) for s in ((2, 8, 7, 1), (2, 8, 7, 3), (2, 8, 7, 200), (3, 6, 8, 40), (5, 5, 5, 16))]
SIZES += [(dtype, 2, 8, 7, 40) for dtype in (torch.float64, torch.bfloat16, torch.float16)]


@pytest.mark.parametrize("dtype, window, height, width, channels", SIZES)
def test_any_size_gives_the_bits_of_the_two_layers(dtype, window, height, width, channels, pooled):
    x, before = images(4, 5, channels, height, width, dtype), torch.get_num_threads()
    one = passed(LIF(), x, window, "cpp")
    try:
        torch.set_num_threads(2)
        two = passed(LIF(), x, window, "cpp")
    finally:
        torch.set_num_threads(before)
    is_able = channels > 1  # one channel is no channels-last image
    assert pooled == [is_able] * 2
    spikes, last = LIF(engine="cpp")(x)
    expected = passed(LIF(), x, window, "eager")
    assert_equal(one, two, 0)
    out = nn.functional.max_pool2d(spikes.flatten(0, 1), window).unflatten(0, spikes.shape[:2])
    assert torch.equal(one[0], out) and torch.equal(one[1], last.v)
    assert one[0].dtype == dtype and (one[0].stride() == out.stride() or not is_able)
    assert_equal(one, expected, 0 if dtype in (torch.float32, torch.float64) else 2e-2)


def test_large_windows_are_pooled_by_pytorch(pooled):
    x = images(2, 2, 3, 17, 17)
    x[:, :, :, 16, 15] = 9.0  # place 287 of a window: too large for a byte
    assert_equal(passed(LI(), x, 17, "cpp"), passed(LI(), x, 17, "eager"))
    assert pooled == [False]


def test_infinite_and_missing_values_are_pooled_as_by_pytorch():
    def step(x, state):
        return torch.where(x > 1, torch.inf, torch.where(x < -1, -torch.inf, x)), state

    x = images(3, 2, 8, 4, 6, torch.float32)
    results = []
    for name in ("cpp", "eager"):
        leaf = x.detach().requires_grad_()
        out, _ = unroll(step, leaf, (torch.zeros(x.shape[1:]),), engine=name, window=2)
        results.append([out, *torch.autograd.grad(out.clamp(-2, 2).sum(), leaf)])
    assert_equal(*results, 0)


def test_each_gradient_alone_and_second_derivatives(pooled):
    neuron, x = ZOO["Leaky-learnable"]().double(), images().requires_grad_()
    results = []
    for name in ("cpp", "eager"):
        out, last = unroll(neuron, x, engine=name, window=2)
        loss = (out * out).sum() + last.mem.square().sum()
        alone = [torch.autograd.grad(loss, one, retain_graph=True)[0] for one in (x, *neuron.parameters())]
        of_last = torch.autograd.grad(last.mem.sum(), x, retain_graph=True)
        (d_x,) = torch.autograd.grad(loss, x, create_graph=True)
        second = torch.autograd.grad(d_x.square().sum(), (x, *neuron.parameters()), retain_graph=True)
        rows = torch.randn(3, *out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
        batched = torch.autograd.grad(out, x, rows, is_grads_batched=True, retain_graph=True)
        with torch.autograd.graph.save_on_cpu():
            again = torch.autograd.grad(unroll(neuron, x, engine=name, window=2)[0].sum(), x)
        results.append([*alone, *of_last, *second, *batched, *again])
    assert_equal(*results)
    assert pooled == [True, True]


def network(neuron, pool=2, channels=64, **options):
    return Sequential(nn.Conv2d(2, channels, 3, padding=1), neuron, nn.MaxPool2d(pool, **options), nn.Flatten())


def inputs(height=28, width=28):
    return (torch.rand(4, 6, 2, height, width) < 0.3).float().flatten(0, 1).unflatten(0, (4, 6))


@pytest.fixture
def large(pooled):
    """A network in which pooling by the neurons pays, and its input."""
    net = network(IF()).to(memory_format=torch.channels_last)
    assert net(inputs())[0].shape == (4, 6, 64 * 14 * 14) and pooled == [True]
    pooled.clear()
    return net


def test_a_network_pools_so_and_a_recording_does_not(large, pooled):
    x = inputs()
    results = []
    for run in (lambda: large(x), lambda: large.record(x)[:2]):
        out, state = run()
        weights = torch.linspace(-1, 1, out.numel()).view_as(out)
        loss = (out * weights).sum() + state[1].v.sum()
        results.append([out, state[1].v, *torch.autograd.grad(loss, large.parameters())])
        assert [s is None for s in state] == [True, False, True, True]
    assert pooled == [True, False]
    assert_equal(*results, 0)
    second = large(x, state)
    assert torch.equal(second[0], large.record(x, state).out)
    step = torch.rand(6, 2, 28, 28).expand(4, 6, 2, 28, 28)  # a static input is computed once
    assert torch.equal(large(step)[0], large.record(step).out) and pooled[-2:] == [True, False]


def within(context, net, x):
    with context:
        net(x)


OTHERWISE = {
    "a hook of the neurons": lambda net, x: (net[1].register_forward_hook(lambda *a: None), net(x))[1],
    "a hook of the pooling": lambda net, x: (net[2].register_forward_hook(lambda *a: None), net(x))[1],
    "a recording": lambda net, x: within(recording(net), net, x),
    "an ablation": lambda net, x: within(ablate(net, {"1": torch.ones(64, 28, 28)}), net, x),
    "another layout": lambda net, x: net.to(memory_format=torch.contiguous_format)(x),
    "rows that are left over": lambda net, x: net(x[..., :27, :]),
    "small images": lambda net, x: net(x[:, :1, :, :8, :8]),
    "windows that overlap": lambda net, x: network(IF(), 3, stride=2).to(memory_format=torch.channels_last)(x),
    "the eager engine": lambda net, x: network(IF(engine="eager")).to(memory_format=torch.channels_last)(x),
    "vmap": lambda net, x: torch.func.vmap(lambda x: net(x)[0])(x[None]),
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_what_expects_two_layers_gets_them(case, large, pooled):
    with torch.no_grad():
        OTHERWISE[case](large, inputs())
    assert True not in pooled


def test_no_spikes_of_full_size_are_kept(large):
    from snnkit.device import MemoryTracker

    with MemoryTracker() as tracker:
        out, _ = large[:3](inputs())
        pooled_peak = tracker.peak
    with MemoryTracker() as tracker:
        large[:3].record(inputs())
    assert tracker.peak - pooled_peak > 2 * out.nbytes  # the four spikes of each window, less their maximum


def test_what_can_not_be_pooled_is_refused():
    with pytest.raises(ValueError, match=r"x of LIF must be \[T, B, C, H, W\] to be pooled, but its shape is \[3, 4\]"):
        unroll(LIF(), torch.rand(3, 4), window=2)
    x = torch.rand(3, 4, 2, 5, 6)
    for window, error in ((6, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="window of LIF must be"):
            unroll(LIF(), x, window=window)
    assert engine.unroll is unroll
    assert unroll(Leaky(0.9), torch.rand(3, 4, 2, 5, 5), window=2)[0].shape == (3, 4, 2, 2, 2)
