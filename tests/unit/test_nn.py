"""Sequential threads state and batches time; a static input is computed once."""

import pytest
import torch
from torch import nn

from snnkit.neuron import LIF, MembraneState, Recurrent
from snnkit.nn import Once, Sequential, TimeBatched, detach, is_static


class Counting(nn.Linear):
    """A linear layer that counts the rows it multiplies."""

    rows = 0

    def forward(self, x):
        self.rows += x.shape[0]
        return super().forward(x)


def network():
    low = {"v_threshold": 0.1}
    return Sequential(
        nn.Linear(4, 6), LIF(**low), nn.Linear(6, 6), Recurrent(LIF(**low), 6), nn.Linear(6, 3), LIF(**low)
    )


def test_equals_a_loop_over_time():
    net, x = network().double(), torch.rand(7, 2, 4, dtype=torch.float64) * 9
    out, _ = net(x)
    state, outs = None, []
    for x_t in x:
        step, state = net(x_t.unsqueeze(0), state)
        outs.append(step)
    assert out.sum() > 0
    torch.testing.assert_close(torch.cat(outs), out, rtol=0, atol=0)


def test_static_input_is_computed_once():
    layer = Counting(4, 6)
    net = Sequential(layer, LIF())
    static = (torch.rand(2, 4) * 3).expand(25, 2, 4)
    out, _ = net(static)
    assert layer.rows == 2
    moving, _ = net(static.clone())
    assert layer.rows == 2 + 50
    torch.testing.assert_close(out, moving, rtol=0, atol=0)


def test_gradients_of_a_static_input_are_those_of_a_copy():
    weights = []
    for make in (lambda x: x.expand(6, 2, 4), lambda x: x.repeat(6, 1, 1)):
        torch.manual_seed(0)
        net, x = Sequential(nn.Linear(4, 3), LIF()).double(), torch.rand(2, 4, dtype=torch.float64) * 3
        net(make(x))[0].sum().backward()
        weights.append(net[0].weight.grad)
    torch.testing.assert_close(*weights)


@pytest.mark.parametrize(
    "module",
    [nn.Dropout(), nn.RReLU(), nn.AlphaDropout(), nn.FractionalMaxPool2d(2, 4), nn.FractionalMaxPool3d(2, 4)],
    ids=lambda module: type(module).__name__,
)
def test_random_layers_draw_anew_for_each_step_of_a_static_input(module):
    size = (1, 4) + (9,) * (3 if "3d" in type(module).__name__ else 2)
    x = (-torch.rand(size)).expand(3, *size)
    first, second, _ = TimeBatched(module)(x)
    assert not torch.equal(first, second)


def test_batch_norm_learns_the_same_from_a_static_input_as_from_a_copy():
    variances = []
    for batch in (1, 3):
        x = torch.rand(batch, 4, generator=torch.Generator().manual_seed(1)).expand(5, batch, 4)
        for sequence in (x, x.contiguous()):
            norm = nn.BatchNorm1d(4)
            Sequential(norm)(sequence)
            variances.append(norm.running_var)
            assert is_static(TimeBatched(norm.eval())(x))
    assert torch.equal(variances[0], variances[1]) and torch.equal(variances[2], variances[3])


def test_once_computes_a_static_input_once_even_in_training():
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(1)).double().expand(5, 3, 4)
    outs, variances = [], []
    for wrapper in (Once, TimeBatched):
        norm, rows = nn.BatchNorm1d(4).double(), []
        norm.register_forward_hook(lambda module, inputs, out, rows=rows: rows.append(len(inputs[0])))
        net = Sequential(wrapper(norm))
        outs.append(net(x)[0])
        variances.append((norm.running_var - 0.9) / 0.1)
        net(x.contiguous())
        assert rows == [3 if wrapper is Once else 15, 15]
    torch.testing.assert_close(*outs)
    # Unbiased variances of 3 and of 15 values.
    torch.testing.assert_close(variances[0], variances[1] * (3 - 1 / 5) / (3 - 1))


def test_once_keeps_the_mask_of_a_dropout_over_time():
    drop, x = Once(nn.Dropout(0.5)), torch.ones(1, 100).expand(2, 1, 100)
    assert torch.equal(*drop(x)) and is_static(drop(x))
    assert not torch.equal(*drop(x.contiguous()))


def test_a_module_in_two_places_has_two_states():
    lif = LIF()
    net, x = Sequential(lif, nn.ReLU(), lif), torch.rand(9, 2, 3) * 4
    out, state = net(x)
    assert len(net) == len(state) == len(list(net)) == 3 and net[2] is lif
    torch.testing.assert_close(out, lif(lif(x)[0])[0])
    assert not torch.equal(state[0].v, state[2].v)


def test_modules_may_be_replaced():
    net, x = Sequential(nn.Linear(3, 4), nn.ReLU()), torch.rand(5, 2, 3)
    setattr(net, "1", LIF())
    assert isinstance(net(x)[1][1], MembraneState)
    net.add_module("1", nn.ReLU())
    assert net(x)[1] == (None, None)


def test_nested_networks_thread_state():
    inner = Sequential(nn.Linear(6, 6), LIF())
    net = Sequential(nn.Linear(4, 6), inner, nn.Linear(6, 2))
    x = torch.rand(6, 2, 4) * 4
    whole, _ = net(x)
    first, state = net(x[:2])
    second, _ = net(x[2:], state)
    assert isinstance(state[1], tuple) and len(state[1]) == 2
    torch.testing.assert_close(torch.cat([first, second]), whole)


def test_detach_cuts_the_graph_and_keeps_the_structure():
    net, x = network(), torch.rand(3, 2, 4, requires_grad=True)
    _, state = net(x)
    cut = detach(state)
    assert state[1].v.requires_grad and not cut[1].v.requires_grad
    assert type(cut[3]) is type(state[3]) and not cut[3].neuron.v.requires_grad
    out, _ = net(torch.rand(3, 2, 4), cut)
    out.sum().backward()
    assert x.grad is None
    assert detach(None) is None
    with pytest.raises(TypeError, match="state must be a tensor, a tuple or None"):
        detach([1])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: Sequential(nn.Linear(1, 1), "LIF"), TypeError, "module 1 of Sequential must be a torch.nn.Module"),
        (lambda: TimeBatched(LIF()), TypeError, "module of TimeBatched must be stateless"),
        (lambda: network()(torch.rand(4)), ValueError, r"x must be a sequence \[T, B, ...\]"),
        (lambda: network()(torch.rand(0, 2, 4)), ValueError, "x must have at least one time step"),
        (lambda: network()(torch.rand(3, 2, 4), (None,)), ValueError, "Sequential must be a tuple of 6 entries"),
        (lambda: TimeBatched(nn.Flatten(0))(torch.rand(2, 4).expand(3, 2, 4)), ValueError, "must keep the batch dimen"),
        (lambda: Sequential(nn.LSTM(4, 2))(torch.rand(3, 2, 4)), TypeError, "LSTM must return a tensor, but .* tuple"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_gradients_reach_every_recorded_layer_of_a_static_input():
    net = Sequential(nn.Linear(4, 6), nn.ReLU(), LIF(), nn.Linear(6, 2))
    x = torch.rand(3, 4).expand(5, 3, 4)
    recording = net.record(x)
    torch.testing.assert_close(recording.out, net(x)[0])
    gradients = torch.autograd.grad(recording.out.square().sum(), recording.layers)
    for layer, d in zip(recording.layers, gradients, strict=True):
        assert d.shape == layer.shape and d.abs().sum() > 0


def test_a_plain_call_keeps_no_layer_alive():
    from snnkit.device import MemoryTracker

    net = Sequential(*(nn.Linear(100, 100) for _ in range(8)))
    x = torch.rand(4, 50, 100)
    with MemoryTracker() as ledger, torch.no_grad():
        net(x)
    assert ledger.peak <= 3 * 4 * 50 * 100 * 4  # input and output of one layer, and what is being made


def test_a_time_batched_of_ones_own_is_asked_itself():
    class Doubling(TimeBatched):
        def forward(self, x):
            return 2 * super().forward(x)

    layer = nn.Linear(4, 3)
    x = torch.rand(2, 4).expand(5, 2, 4)
    torch.testing.assert_close(Sequential(Doubling(layer))(x)[0], 2 * layer(x))
