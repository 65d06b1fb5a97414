"""What is put around a neuron: recurrent weights and a refractory period."""

import copy
import pickle

import pytest
import torch
from torch import nn

from snnkit import export
from snnkit.engine import explain
from snnkit.lab.challenge.scoring import neurons_of
from snnkit.lab.hardware import energy
from snnkit.neuron import (
    ALIF,
    IF,
    LI,
    LIF,
    CubaLIF,
    Leaky,
    MembraneState,
    Neuron,
    OneToOne,
    Recurrent,
    RecurrentState,
    Refractory,
    named_neurons,
)
from snnkit.nn import Sequential, detach


def drive(*shape, steps=30, strength=2.0):
    return torch.rand(steps, *shape, generator=torch.Generator().manual_seed(0)) * strength


# --- OneToOne ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["eager", "cpp", "auto"])
def test_one_to_one_is_recurrent_with_a_diagonal_matrix(engine):
    weight = torch.tensor([0.5, -0.5, 0.25])
    loop, once = Recurrent(Leaky(0.75, engine="eager"), 3), OneToOne(Leaky(0.75), nn.Parameter(weight), engine=engine)
    loop.weight.weight.data = torch.diag(weight)
    x = drive(2, 3)
    (out, state), (expected, wanted) = once(x), loop(x)
    assert torch.equal(out, expected) and 0 < out.mean() < 1
    assert torch.equal(state.mem, wanted.neuron.mem) and torch.equal(state.out, wanted.out)
    gradients = [
        torch.autograd.grad(value.sum(), p)[0] for value, p in ((out, once.weight), (expected, loop.weight.weight))
    ]
    torch.testing.assert_close(gradients[0], gradients[1].diagonal())


def test_one_to_one_takes_samples_of_any_shape():
    weight = torch.rand(2, 1, 1) - 0.5
    out, state = OneToOne(LIF(), weight)(drive(3, 2, 4, 5))
    assert out.shape == (30, 3, 2, 4, 5) and state.out.shape == state.v.shape == (3, 2, 4, 5)


# --- Refractory -------------------------------------------------------------------------------------------------------


def test_it_rests_for_exactly_so_many_steps():
    x = torch.full((12, 1, 1), 2.5)
    trains = {steps: Refractory(LIF(), steps)(x)[0].flatten().tolist() for steps in (0, 1, 3)}
    assert trains[0] == LIF()(x)[0].flatten().tolist() == [1.0] * 12
    assert trains[1] == [1.0, 0.0] * 6
    assert trains[3] == [1.0, 0.0, 0.0, 0.0] * 3


def test_the_membrane_stands_still_and_the_current_goes_on():
    neuron, x = Refractory(CubaLIF(), 4), torch.full((1, 1, 1), 3.0)
    state, plain = None, 0.0
    for _ in range(40):
        before = state
        out, state = neuron(x, state)
        plain = 0.8 * (plain + 3.0)
        assert state.i.item() == pytest.approx(plain, rel=1e-5)
        if before is not None and before.wait > 0:
            assert not out.any() and torch.equal(state.v, before.v) and state.wait == before.wait - 1
        else:
            assert state.wait == (4 if out.any() else 0)


def test_a_spike_that_is_not_fired_does_not_adapt():
    """The membrane would be above the threshold in every step."""
    plain, rests, x = (
        ALIF(tau=5.0, tau_adapt=50.0),
        Refractory(ALIF(tau=5.0, tau_adapt=50.0), 3),
        torch.full((8, 1, 1), 9.0),
    )
    out, state = rests(x)
    assert out.flatten().tolist() == [1, 0, 0, 0, 1, 0, 0, 0]
    per_step = torch.exp(torch.tensor(-1 / 50.0))
    torch.testing.assert_close(state.a, (per_step**7 + per_step**3).reshape(1, 1))
    assert plain(x)[1].a > 3 * state.a


def test_no_gradient_comes_from_a_step_of_rest():
    x = torch.full((4, 1, 1), 2.5, requires_grad=True)
    out, _ = Refractory(LIF(), 2)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert (gradient.flatten() != 0).tolist() == [True, False, False, True]


def test_a_neuron_that_makes_its_spikes_by_itself_rests_too():
    class Plain(Neuron):
        def step(self, x, state):
            v = state.v + x
            spike = (v > 1).to(v.dtype)
            return spike, MembraneState(v * (1 - spike))

    out, _ = Refractory(Plain(), 2)(torch.full((6, 1, 1), 1.5))
    assert out.flatten().tolist() == [1, 0, 0, 1, 0, 0]


def test_around_one_another():
    x = drive(2, 3)
    out, state = OneToOne(Refractory(LIF(), 2), 1.0)(x)
    assert type(state)._fields == ("v", "wait", "out") and 0 < out.mean() <= 1 / 3 + 0.05
    looped, _ = Recurrent(Refractory(LIF(), 2), 3)(x)
    assert 0 < looped.mean() <= 1 / 3 + 0.05


class Tupled(Neuron):
    State = tuple

    def step(self, x, state):
        return x, state


def test_a_state_without_names_is_refused():
    with pytest.raises(TypeError, match="neuron of OneToOne can't be a Tupled: its State is no NamedTuple"):
        OneToOne(Tupled())


# --- what the rest of the kit does with them --------------------------------------------------------------------------


@pytest.mark.parametrize("neuron", [Refractory(CubaLIF(), 2), OneToOne(Leaky(0.9)), OneToOne(Refractory(LIF(), 2))])
def test_their_states_are_copied_pickled_detached_and_handed_on(neuron):
    x = drive(2, 3)
    whole, last = neuron(x)
    first, state = neuron(x[:11].clone().requires_grad_())
    for copied in (pickle.loads(pickle.dumps(detach(state))), copy.deepcopy(detach(state)), detach(state)):
        assert type(copied) is type(state) is neuron.State and not copied[0].requires_grad
        second, end = neuron(x[11:], copied)
        assert torch.equal(torch.cat([first, second]), whole) and all(map(torch.equal, end, last))


@pytest.mark.parametrize("layer", [Refractory(LIF(), 2), OneToOne(LIF())])
def test_networks_programs_scores_and_energy_see_one_layer(layer):
    net, x = Sequential(nn.Linear(3, 4), copy.deepcopy(layer)), drive(2, 3, steps=6)
    assert [name for name, _ in named_neurons(net)] == ["1"] == list(neurons_of(net))
    program = export.export(net, x)
    torch.testing.assert_close(program.module()(x, export.resting_state(program, 2))[0], net(x)[0])
    assert type(layer).__name__ in str(explain(net, x))
    assert [one.name for one in energy.count(net, x).layers] == ["0 (Linear)", f"1 ({type(layer).__name__})"]


# --- Recurrent --------------------------------------------------------------------------------------------------------


def test_a_convolution_as_connection():
    torch.manual_seed(0)
    layer = Recurrent(LIF(), connection=nn.Conv2d(2, 2, 3, padding=1))
    x = drive(3, 2, 4, 5)
    out, state = layer(x)
    assert out.shape == x.shape and isinstance(state, RecurrentState) and state.out.shape == x.shape[1:]
    first, middle = layer(x[:13])
    second, end = layer(x[13:], middle)
    assert torch.equal(torch.cat([first, second]), out) and torch.equal(end.out, state.out)
    expected, inner, last = [], None, torch.zeros(3, 2, 4, 5)
    for x_t in x:
        spikes, inner = layer.neuron((x_t + layer.weight(last))[None], inner)
        last = spikes[0]
        expected.append(last)
    assert torch.equal(out, torch.stack(expected))
    out.sum().backward()
    assert layer.weight.weight.grad.abs().sum() > 0
    net = Sequential(nn.Conv2d(1, 2, 3, padding=1), layer)
    program = export.export(net, drive(3, 1, 4, 5, steps=4))
    given = drive(3, 1, 4, 5, steps=4)
    torch.testing.assert_close(program.module()(given, export.resting_state(program, 3))[0], net(given)[0])


BAD = [
    (lambda: Recurrent(LIF()), TypeError, "must have either features, .* or a connection .*, but it has none"),
    (lambda: Recurrent(LIF(), 3, connection=nn.Linear(3, 3)), TypeError, "but it has both"),
    (lambda: Recurrent(LIF(), connection=torch.ones(3)), TypeError, "connection of Recurrent must be a module"),
    (lambda: Recurrent(LIF(), connection=nn.Sequential(LIF())), TypeError, "must be stateless, but there are neurons"),
    (
        lambda: Recurrent(LIF(), connection=nn.Conv2d(2, 2, 3))(drive(3, 2, 4, 5)),
        ValueError,
        r"connection of Recurrent must keep the shape of a step, \[3, 2, 4, 5\], but it makes \[3, 2, 2, 3\]",
    ),
    (lambda: Recurrent(LIF(), connection=nn.GRU(3, 3))(drive(2, 3)), ValueError, "but it makes a tuple"),
    (lambda: OneToOne(IF(), torch.ones(4))(drive(2, 3)), ValueError, r"weight of OneToOne has shape \[4\], which does"),
    (lambda: Refractory(LI(), 2), TypeError, "LI is a readout"),
    (
        lambda: Refractory(IF(), 2)(drive(2, 3), MembraneState(torch.zeros(2, 3))),
        TypeError,
        "state of Refractory must be",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
