"""An economical network is the same network: outputs, states, gradients, statistics, names; spikes as bits."""

import contextlib
import copy
import pickle

import pytest
import torch
from torch import nn

from snnkit import encode, nn as nn_room, pooling
from snnkit.convolution import convolution
from snnkit.device import (
    MemoryTracker,
    memory_saving,
    optimize_memory_usage,
    packed_spikes,
    restore_memory_usage,
    spike_packing as bits,
    training_step,
)
from snnkit.device.memory_saving import MemorySaving, stages
from snnkit.linear import linear
from snnkit.models import FashionConvNet, mlp
from snnkit.neuron import IF, LIF, PLIF, CubaLIF, Leaky, Neuron
from snnkit.nn import Sequential
from snnkit.surrogate import ATan

EVERY = [MemorySaving(recompute=False), MemorySaving(pack=False), MemorySaving()]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that a few samples are cut into pieces, as a large batch is."""
    monkeypatch.setitem(memory_saving.PIECE, "cpu", 2000)


def conv_net(**options):
    net = FashionConvNet(4, 16, size=8, engine="eager", **options)
    for weight in (net[0].weight, net[4].weight, net[9].weight, net[11].weight):
        nn.init.normal_(weight, std=0.4)
    return net


class Graded(Neuron):
    """One that calls itself spiking and gives out other values, too."""

    def __init__(self):
        super().__init__(surrogate=ATan())

    def step(self, x, state):
        v = 0.5 * state.v + x
        spike = self.spike(v - 1.0)
        return spike * v, type(state)(v - spike)


NETS = {
    "fashion": conv_net,
    "mlp": lambda: mlp((64, 20, 10), engine="eager"),
    "learnable": lambda: Sequential(
        *(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, affine=False), PLIF(shape=(3, 1, 1)), nn.AvgPool2d(2)),
        *(nn.Conv2d(3, 2, 2), CubaLIF(), nn.MaxPool2d(2, stride=1, padding=1), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2, 5), Leaky(0.9)),
    ),
    "graded": lambda: Sequential(nn.Flatten(), nn.Linear(64, 30), Graded(), nn.Linear(30, 10), LIF()),
    "torch's containers": lambda: Sequential(
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)), IF(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten()
    ),
    "nested": lambda: Sequential(Sequential(nn.Conv2d(1, 3, 3), IF(), nn.MaxPool2d(3)), nn.Flatten(), nn.Linear(12, 4)),
}


def results(net, x, state=None):
    """Everything that a training step shows."""
    torch.manual_seed(1)
    x = x.clone(memory_format=torch.preserve_format).requires_grad_() if x.stride(0) else x
    out, last = net(x, state)
    flat = [part for parts in last if parts is not None for part in _tensors(parts)]
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    loss = (out * weight).sum() + sum((part * 0.3).sum() for part in flat)
    wanted = [p for p in net.parameters() if p.requires_grad] + ([x] if x.requires_grad else [])
    return [out, *flat], list(torch.autograd.grad(loss, wanted, allow_unused=True)), [b.clone() for b in net.buffers()]


def _tensors(state):
    return [t for part in state if part is not None for t in (_tensors(part) if isinstance(part, tuple) else [part])]


def assert_same(found, expected, exact=True):
    for a, b in zip(found, expected, strict=True):
        for u, v in zip(a, b, strict=True):
            if exact:
                assert (u is None and v is None) or torch.equal(u, v)
            else:
                torch.testing.assert_close(u, v, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("settings", EVERY, ids=str)
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_same_network(name, static, settings):
    plain = NETS[name]().double()
    for parameter in plain.parameters():
        nn.init.normal_(parameter, std=0.5)
    economical = copy.deepcopy(plain)
    for part in economical.modules():
        if isinstance(part, Sequential):
            part.runner = settings
    images = torch.rand(6, 1, 8, 8, dtype=torch.float64) * 2
    x = encode.repeat(images, 5) if static else torch.rand(5, 6, 1, 8, 8, dtype=torch.float64) * 2
    expected = results(plain, x)
    assert expected[0][0].any() and any(g is not None and g.any() for g in expected[1])
    # Two sums are taken in another order: over the steps of a static input, and of a neuron's own parameter.
    assert_same(results(economical, x), expected, exact=not static and name != "learnable")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast(dtype):
    plain = conv_net()
    economical = copy.deepcopy(plain)
    economical.runner = MemorySaving()
    x = torch.rand(5, 6, 1, 8, 8) * 2
    with torch.autocast("cpu", dtype):
        expected = results(plain, x)
        found = results(economical, x)
    assert expected[0][0].dtype == dtype
    assert_same(found, expected)


def test_in_compiled_engines():
    plain = FashionConvNet(16, 32, size=16)
    economical = copy.deepcopy(plain)
    economical.runner = MemorySaving()
    x = torch.rand(8, 8, 1, 16, 16) * 3  # 2^18 values: worth compiling
    found, expected = results(economical, x), results(plain, x)
    assert torch.equal(found[0][0], expected[0][0])
    for a, b in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * b.abs().max().item())


def channels_last(static):
    """A network and images in the format in which neurons pool their own outputs, and its weighted layers find few
    spikes."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 32, 3, padding=1), LIF(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, padding=1), LIF()]
    net = Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10)).to(memory_format=torch.channels_last)
    x = torch.rand(1 if static else 12, 8, 16, 16, 2).permute(0, 1, 4, 2, 3)
    return net, x.expand(12, *x.shape[1:]) if static else x


@pytest.mark.parametrize("settings", EVERY, ids=str)
@pytest.mark.parametrize("static", [False, True])
def test_neurons_pool_their_own_outputs_as_in_the_plain_network(static, settings, monkeypatch):
    monkeypatch.setattr(pooling, "_INPUTS", 1)
    monkeypatch.setitem(memory_saving.PIECE, "cpu", 2**20)
    windows, unroll = [], nn_room.unroll

    def watched(*arguments, window=0, **options):
        windows.append((arguments[1].shape[-3:], window))
        return unroll(*arguments, window=window, **options)

    monkeypatch.setattr(nn_room, "unroll", watched)
    net, x = channels_last(static)
    found = []
    for net.runner in (None, settings):
        windows.clear()
        found.append((results(net, x), training_step(net, x)))
        assert set(windows) == {((32, 16, 16), 2), ((32, 8, 8), 2)}
    (expected, plain), (made, economical) = found
    for part, other in zip(made, expected, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-4, atol=1e-4)
    assert economical.peak < 1.01 * plain.peak and (not settings.pack or economical.held < plain.held)


@pytest.mark.parametrize("kind, most", [("linear", 1.8), ("convolution", 2.1)])
def test_spikes_that_were_bits_are_gone_when_gradients_are_made(kind, most):
    """Backward lists them, and the gradient of the input, of the same size, takes their memory."""
    if kind == "linear":
        layer, run, x = nn.Linear(512, 256), linear, spikes(4096, 512)
    else:
        layer, run, x = nn.Conv2d(64, 64, 3, padding=1), convolution, spikes(64, 16, 16, 64).permute(0, 3, 1, 2)
    x = (x * (torch.rand_like(x) < 0.05)).requires_grad_()
    with bits.packed_input(x):
        out = run(layer, x)
    gradient = torch.rand_like(out)
    with MemoryTracker() as tracker:
        out.backward(gradient)
    assert tracker.peak < most * x.nbytes


def test_of_a_neuron_that_was_changed_nothing_is_known():
    patched = Sequential(IF(), nn.Linear(3, 3))
    assert [stage.packed for stage in stages(patched, MemorySaving())] == [False, True]
    patched[0].step = lambda x, state: (x * 2, state)
    assert not any(stage.packed for stage in stages(patched, MemorySaving()))


def test_whole_models_compile():
    net, x = NETS["mlp"](), torch.rand(3, 2, 64) * 3
    expected = net(x)[0]
    net.runner = MemorySaving()
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x)[0], expected)
    torch._dynamo.reset()


def test_it_is_the_same_model_to_everything_else():
    net = conv_net()
    names, parameters, kind = list(net.state_dict()), list(net.parameters()), type(net)
    net.runner = MemorySaving()
    assert isinstance(net, kind) and type(net).__name__ == kind.__name__
    assert list(net.state_dict()) == names and all(map(lambda a, b: a is b, net.parameters(), parameters))
    again = pickle.loads(pickle.dumps(copy.deepcopy(net)))
    assert again.runner == net.runner and type(again) is type(net)
    x = torch.rand(3, 2, 1, 8, 8)
    assert torch.equal(again(x)[0], net(x)[0])
    assert restore_memory_usage(net) is net and net.runner is None


@pytest.mark.parametrize("steps", [2, 100])
def test_checkpoints_over_time(steps):
    plain = conv_net().double().eval()
    economical = copy.deepcopy(plain)
    economical.runner = MemorySaving(steps=steps)
    x = torch.rand(5, 3, 1, 8, 8, dtype=torch.float64) * 2
    assert_same(results(economical, x), results(plain, x), exact=False)


@pytest.mark.parametrize(
    "module, size",
    [
        (nn.MaxPool2d(2), (28, 28)),
        (nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 1), ceil_mode=True), (29, 31)),
        (nn.MaxPool2d(3, dilation=2, stride=1), (40, 90)),
        (nn.MaxPool2d(100, stride=7), (120, 400)),
        (nn.AvgPool2d(3, stride=2, padding=1), (9, 11)),
    ],
)
def test_pooling_by_places_within_its_windows(module, size):
    x = torch.randint(0, 3, (2, 3, *size)).double()
    plain, saving = (x.clone().requires_grad_() for _ in range(2))
    expected, found = module(plain), memory_saving.pooled(module, saving[None])[0]
    gradient = torch.rand_like(expected)
    expected.backward(gradient)
    found.backward(gradient)
    assert torch.equal(found, expected) and torch.equal(saving.grad, plain.grad)


# -- what makes a layer more than it looks like, and must not change what is computed


def assert_faithful(make, x, settings=None):
    """A network and an economical one that is made alike: the same numbers in float64, gradients that are not 0."""
    torch.manual_seed(0)
    plain = make().double()
    torch.manual_seed(0)
    economical = make().double()
    economical.runner = settings or MemorySaving()
    expected, found = results(plain, x), results(economical, x)
    assert all(part.any() for part in expected[1])
    assert_same(found, expected, exact=False)
    return economical


def vectors(steps=6, batch=40):
    torch.manual_seed(2)
    return torch.rand(steps, batch, 8, dtype=torch.float64) * 4


def dense(neuron):
    return Sequential(nn.Linear(8, 16), neuron, nn.Linear(16, 2))


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_hook_sees_whole_tensors_and_may_change_the_spikes(everywhere):
    def doubled(module, args, out):
        if not isinstance(module, LIF):
            return None
        assert out[0].shape == (6, 40, 16)
        return out[0] * 2, out[1]

    def make():
        net = dense(LIF(engine="eager"))
        if not everywhere:
            net[1].register_forward_hook(doubled)
        return net

    with contextlib.ExitStack() as after:
        if everywhere:
            after.callback(nn.modules.module.register_module_forward_hook(doubled).remove)
        assert_faithful(make, vectors())


class Noisy(Neuron):
    def __init__(self):
        super().__init__(surrogate=ATan(), engine="eager")

    def step(self, x, state):
        v = 0.5 * state.v + x + 0.3 * torch.randn_like(x)
        spike = self.spike(v - 1.0)
        return spike, type(state)(v - spike)


class Mixing(Noisy):
    def step(self, x, state):
        v = 0.5 * state.v + x
        spike = self.spike(v - v.mean(0))
        return spike, type(state)(v - spike)


class Restless(Noisy):
    def step(self, x, state):
        v = 0.5 * state.v + x
        spike = self.spike(v - 1.0)
        return spike, type(state)(v - spike)

    def initial_state(self, x):
        return self.State(torch.rand_like(x))


@pytest.mark.parametrize(
    "kind, why", [(Noisy, "computed again"), (Mixing, "computed again"), (Restless, "initial_state is its own")]
)
def test_a_step_that_is_not_the_same_again_is_left_alone(kind, why):
    net = assert_faithful(lambda: dense(kind()), vectors())
    report = optimize_memory_usage(net)
    assert f"{kind.__name__} '1' is left as it is" in report.items[-1].note and why in report.items[-1].note


def test_a_buffer_changed_before_backward_is_an_error():
    net = Sequential(LIF(tau=torch.tensor(2.0), engine="eager"), nn.MaxPool1d(2)).double()
    x = vectors().requires_grad_()
    (expected,) = torch.autograd.grad(net(x)[0].pow(2).sum(), x)
    net.runner = MemorySaving()

    def backward_after(change):
        out, _ = net(x)
        with torch.no_grad():
            change()
        return torch.autograd.grad(out.pow(2).sum(), x)[0]

    def put(value):
        net[0].tau = torch.tensor(value, dtype=torch.float64)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        backward_after(lambda: net[0].tau.add_(1))
    put(2.0)
    with pytest.raises(RuntimeError, match="or replaced, between forward and backward"):
        backward_after(lambda: put(9.0))
    put(2.0)
    torch.testing.assert_close(backward_after(lambda: None), expected)


def test_second_derivatives_go_through():
    def penalty(net):
        x = vectors().requires_grad_()
        (d_x,) = torch.autograd.grad(net(x)[0].sum(), x, create_graph=True)
        return torch.autograd.grad(d_x.pow(2).sum(), [*net.parameters()])

    net = Sequential(nn.Linear(8, 16), PLIF(engine="eager")).double()
    expected = penalty(net)
    net.runner = MemorySaving()
    assert all(gradient.any() for gradient in expected)
    for found, wanted in zip(penalty(net), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_steps_refuse_a_batch_norm_that_learns_later():
    with pytest.raises(ValueError, match="no running statistics"):
        optimize_memory_usage(Sequential(nn.BatchNorm1d(8, track_running_stats=False), LIF()).eval(), steps=2)
    net = Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), LIF()).eval()
    optimize_memory_usage(net, steps=2)
    net(vectors().float())
    net.train()
    with pytest.raises(ValueError, match=r"batch norm that learns .*\('1'\)"):
        net(vectors().float())
    with torch.no_grad():
        net(vectors().float())  # nothing to checkpoint


def test_a_failed_call_leaves_what_was_switched_on():
    for before in (MemorySaving(pack=False), None):
        net = dense(LIF())
        net.runner = before
        with pytest.raises(ValueError, match=r"x of Linear '0' must be \[T, B, ..., 8\]"):
            optimize_memory_usage(net, torch.rand(3, 4, 5))
        assert net.runner == before


def spikes(*shape, dtype=torch.float32):
    return (torch.rand(shape) > 0.7).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1001])
def test_there_and_back(count, dtype):
    x = spikes(count, dtype=dtype)
    packed = bits.pack(x)
    assert packed.data.nbytes == -(-count // 8)
    assert torch.equal(bits.unpack(packed), x) and bits.unpack(packed).dtype == dtype


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(0, 2),
        lambda x: x.contiguous(memory_format=torch.channels_last),
        lambda x: x[1],  # begins in the middle of its memory
        lambda x: x[1:, None],
        lambda x: x.permute(3, 1, 0, 2),
    ],
)
def test_layouts_come_back_as_they_were(view):
    x = view(spikes(3, 5, 7, 2))
    back = bits.unpack(bits.pack(x))
    assert torch.equal(back, x) and back.stride() == x.stride()


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, float("nan"), float("inf"), 1 + 1e-6])
def test_what_is_no_spike_is_not_packed(value):
    x = spikes(100)
    x[37] = value
    assert bits.pack(x) is None


def test_any_model_keeps_its_spikes_as_bits_with_the_same_gradients():
    layers = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    x = spikes(100, 64)

    def gradients():
        out = layers(x * layers[0].bias.sum().sigmoid().ceil())
        return torch.autograd.grad(out.sin().sum(), [*layers.parameters()])

    plain = gradients()
    with packed_spikes() as packing:
        economical = gradients()
    assert all(torch.equal(a, b) for a, b in zip(plain, economical, strict=True))
    # x, which the product keeps, and the product, which the first layer keeps; not what the second layer keeps.
    assert packing.saved == 2 * (x.nbytes - x.numel() // 8)


def test_only_the_spikes_are_kept_as_bits_and_then_freed():
    layer = nn.Linear(4096, 4096)
    with MemoryTracker() as tracker:
        x = spikes(4096) + torch.zeros(4096, requires_grad=True)
        with bits.packed_input(x):
            out = layer(x)
        before = tracker.live
        del x
        assert before - tracker.live == 4 * 4096  # nothing else holds the spikes
        (gradient,) = torch.autograd.grad(out.sum(), [layer.weight])
    assert torch.equal(gradient, gradient[:1].expand_as(gradient)) and set(gradient.unique().tolist()) <= {0.0, 1.0}
