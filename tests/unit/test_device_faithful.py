"""What makes a layer more than it looks like, and must not change what an economical network computes."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from snnkit import device
from snnkit.device import optimize_memory_usage, restore_memory_usage, segment
from snnkit.device.economy import economise
from snnkit.device.plan import Settings, stages
from snnkit.neuron import LIF, PLIF, Neuron
from snnkit.nn import Sequential
from snnkit.surrogate import ATan


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that a few samples are cut into pieces, as a large batch is."""
    monkeypatch.setitem(segment._PIECE, "cpu", 2000)


def step_of(net, x):
    """Output and all gradients."""
    torch.manual_seed(1)
    x = x.clone().requires_grad_()
    out, _ = net(x)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * weight).sum(), [x, *net.parameters()])]


def assert_faithful(make, x, settings=None):
    """A network and an economical one that is made alike: the same numbers in float64, gradients that are not 0."""
    torch.manual_seed(0)
    plain = make().double()
    torch.manual_seed(0)
    economical = make().double()
    economise(economical, settings or Settings())
    expected, found = step_of(plain, x), step_of(economical, x)
    assert all(part.any() for part in expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
    return economical


def vectors(steps=6, batch=40):
    torch.manual_seed(2)
    return torch.rand(steps, batch, 8, dtype=torch.float64) * 4


def images():
    torch.manual_seed(2)
    return torch.rand(4, 10, 1, 8, 8, dtype=torch.float64) * 6


def dense(neuron):
    return Sequential(nn.Linear(8, 16), neuron, nn.Linear(16, 2))


def convolutions(pool):
    return Sequential(nn.Conv2d(1, 3, 3), LIF(engine="eager"), pool, nn.Flatten(), nn.Linear(27, 2))


def test_a_hook_on_a_neuron_may_change_the_spikes():
    def make():
        net = dense(LIF())
        net[1].register_forward_hook(lambda module, args, out: (out[0] * 2, out[1]))
        return net

    net = assert_faithful(make, vectors())
    assert [stage.spikes for stage in stages(net, Settings())] == [False, False, "unsure"]


def test_a_hook_on_a_pooling_may_change_the_spikes():
    def make():
        net = convolutions(nn.MaxPool2d(2))
        net[2].register_forward_hook(lambda module, args, out: out * 3)
        return net

    assert_faithful(make, images())


def test_a_hook_may_change_the_spikes_in_place():
    def make():
        net = dense(LIF())
        net[2].register_forward_pre_hook(lambda module, args: args[0].mul_(2))
        return net

    assert_faithful(make, vectors())


def test_a_hook_on_all_modules_may_change_the_spikes():
    def doubled(module, args, out):
        return (out[0] * 2, out[1]) if isinstance(module, LIF) else None

    handle = nn.modules.module.register_module_forward_hook(doubled)
    try:
        assert_faithful(lambda: dense(LIF(engine="eager")), vectors())
    finally:
        handle.remove()


class Drop(LIF):
    def forward(self, x, state=None, **options):
        return super().forward(F.dropout(x, 0.5), state, **options)


def test_a_neuron_with_a_forward_of_its_own():
    net = assert_faithful(lambda: dense(Drop(engine="eager")), vectors())
    assert [stage.neuron for stage in stages(net, Settings())] == [None] * 3


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
    report = optimize_memory_usage(net, free_caches=False)
    assert f"{kind.__name__} '1' is left as it is" in report.items[-1].note and why in report.items[-1].note


def test_an_elementwise_step_of_somebody_else_is_computed_again():
    class Own(Restless):
        initial_state = Neuron.initial_state

    net = assert_faithful(lambda: dense(Own()), vectors())
    assert [stage.neuron is not None for stage in stages(net, Settings())] == [False, True, False]
    assert optimize_memory_usage(net, free_caches=False).items[-1].note == ""


def test_a_forward_that_was_set_on_a_layer():
    def make(kind):
        def made():
            net = Sequential(
                nn.Conv2d(1, 3, 3),
                nn.BatchNorm2d(3),
                LIF(engine="eager"),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(27, 2),
            )
            layer = next(m for m in net.modules() if isinstance(m, kind))
            plain = layer.forward
            layer.forward = lambda x, *rest: plain(x * 2, *rest)
            return net

        return made

    for kind in (nn.MaxPool2d, nn.BatchNorm2d, LIF):
        assert_faithful(make(kind), images())


def test_a_buffer_changed_before_backward_is_an_error_or_without_effect():
    net = Sequential(LIF(tau=torch.tensor(2.0), engine="eager"), nn.MaxPool1d(2)).double()
    expected = step_of(net, vectors())
    economise(net, Settings())
    x = vectors().requires_grad_()

    def backward_after(change):
        out, _ = net(x)
        with torch.no_grad():
            change()
        weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        return torch.autograd.grad((out * weight).sum(), x)[0]

    def replaced():
        net[0].tau = torch.tensor(9.0, dtype=torch.float64)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        backward_after(lambda: net[0].tau.add_(1))
    net[0].tau = torch.tensor(2.0, dtype=torch.float64)
    torch.testing.assert_close(backward_after(replaced), expected[1])


@pytest.mark.parametrize("batch", [3, 40])
def test_layers_in_place_after_a_segment(batch):
    assert_faithful(
        lambda: Sequential(
            nn.Linear(8, 16), PLIF(engine="eager"), nn.MaxPool1d(2), nn.ReLU(inplace=True), nn.Linear(8, 2)
        ),
        vectors(batch=batch),
    )
    assert_faithful(lambda: Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU(inplace=True)), images())


def test_second_derivatives_say_what_to_do():
    net = Sequential(nn.Linear(8, 16), PLIF(engine="eager"))
    economise(net, Settings())
    x = vectors().float().requires_grad_()
    (d_x,) = torch.autograd.grad(net(x)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(d_x, torch.autograd.grad(net(x)[0].sum(), x)[0])
    with pytest.raises(RuntimeError, match=r"restore_memory_usage\(model\)"):
        d_x.pow(2).sum().backward()


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(16), nn.BatchNorm1d(16, track_running_stats=False)])
def test_steps_refuse_a_batch_norm_that_learns_later(norm):
    net = Sequential(nn.Linear(8, 16), norm, LIF()).eval()
    if norm.running_mean is None:
        with pytest.raises(ValueError, match="no running statistics"):
            optimize_memory_usage(net, steps=2)
        return
    optimize_memory_usage(net, steps=2, free_caches=False)
    net(vectors().float())
    net.train()
    with pytest.raises(ValueError, match=r"batch norm that learns .*\('1'\)"):
        net(vectors().float())
    with torch.no_grad():
        net(vectors().float())  # nothing to checkpoint


class Same(nn.Module):
    def forward(self, x):
        return x


def test_a_parametrized_model_is_not_broken():
    net = nn.Linear(8, 8)
    optimize_memory_usage(net, free_caches=False)
    parametrize.register_parametrization(net, "weight", Same())
    expected = net(vectors().float())
    with pytest.raises(ValueError, match="remove_parametrizations"):
        restore_memory_usage(net)
    assert torch.equal(net(vectors().float()), expected) and net.economy == Settings()
    parametrize.remove_parametrizations(net, "weight")
    assert type(restore_memory_usage(net)) is nn.Linear


def test_a_failed_call_leaves_what_was_switched_on():
    net = dense(LIF())
    optimize_memory_usage(net, pool=False, free_caches=False)
    before = net.economy
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        optimize_memory_usage(net, torch.rand(3, 4, 5))
    assert net.economy == before and device.optimize.economical_parts(net) == [(net, before)]
    plain = copy.deepcopy(restore_memory_usage(net))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        optimize_memory_usage(plain, torch.rand(3, 4, 5))
    assert type(plain) is Sequential
