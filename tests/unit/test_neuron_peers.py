"""Neurons beside those of snnTorch, Norse, SpikingJelly and Sinabs, where these are installed (``make peers``): spikes,
states and gradients on random input. What the peers compute is also in ``reference_neurons.py``."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from snnkit.neuron import (
    QIF,
    AdEx,
    Alpha,
    CubaLIF,
    Leaky,
    OneToOne,
    Readout,
    Recurrent,
    Refractory,
    Synaptic,
    beta_of,
)
from snnkit.surrogate import ATan, Sigmoid, SuperSpike

STEPS = 40


def drive(*shape, strength=1.0, seed=0):
    """Random input [T, ...] with a gradient, in float32, as the peers' spikes are."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(STEPS, *shape, generator=generator) * 1.6 * strength - 0.2 * strength).requires_grad_()


def stepped(cell, x, *state):
    """What a module gives that is called step by step, and gets back what it gave after its spikes."""
    outs = []
    for x_t in x:
        out, *state = cell(x_t, *state)
        outs.append(out)
    return torch.stack(outs), state


def recurrent(cell, x):
    """The same for one that also gets back its spikes."""
    outs, state = [], cell.reset_mem()
    for x_t in x:
        state = cell(x_t, *state)
        outs.append(state[0])
    return torch.stack(outs)


def same(ours, theirs, *leaves):
    """Outputs to the bit, and the gradients of a sum that weighs every step and neuron differently."""
    weight = torch.linspace(-1, 1, ours.numel()).reshape(ours.shape)
    gradients = [torch.autograd.grad((out * weight).sum(), leaves, retain_graph=True) for out in (ours, theirs)]
    assert torch.equal(ours, theirs) and 0 < ours.mean() < 1
    for mine, yours in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-5 * float(yours.abs().max()))
        assert yours.abs().sum() > 0


RESETS = [("subtract", True), ("subtract", False), ("zero", True), ("zero", False), ("none", True)]


@pytest.mark.parametrize(("reset", "delay"), RESETS)
def test_synaptic(reset, delay):
    snn = pytest.importorskip("snntorch")
    alpha, beta = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor([0.5, 0.25, 0.75]))
    theirs = snn.Synaptic(0.5, torch.tensor([0.5, 0.25, 0.75]), reset_mechanism=reset, reset_delay=delay)
    del theirs.alpha, theirs.beta
    theirs.alpha, theirs.beta = alpha, beta
    ours, x = Synaptic(alpha, beta, reset_mechanism=reset, reset_delay=delay, engine="eager"), drive(2, 3)
    (out, state), (spikes, (syn, mem)) = ours(x), stepped(theirs, x, *theirs.reset_mem())
    same(out, spikes, x, alpha, beta)
    torch.testing.assert_close(tuple(state), (mem, syn))


@pytest.mark.parametrize("reset", ["zero", "subtract", "none"])
def test_alpha(reset):
    snn = pytest.importorskip("snntorch")
    theirs = snn.Alpha(0.875, 0.75, reset_mechanism=reset)
    ours, x = Alpha(0.875, 0.75, reset_mechanism=reset, engine="eager"), drive(2, 3)
    (out, state), (spikes, (exc, inh, mem)) = ours(x), stepped(theirs, x, *theirs.reset_mem())
    same(out, spikes, x)
    torch.testing.assert_close(tuple(state), (mem, exc, inh))


@pytest.mark.parametrize("reset", ["subtract", "none"])
def test_lapicque_is_leaky(reset):
    """(Its zero also takes away the input of the step after a spike.)"""
    snn = pytest.importorskip("snntorch")
    resistance, capacity, dt, x = 5.0, 2.0, 1.0, drive(2, 3, strength=2.0)
    theirs = snn.Lapicque(R=resistance, C=capacity, time_step=dt, reset_mechanism=reset)
    ours = Leaky(1 - dt / (resistance * capacity), reset_mechanism=reset, engine="eager")
    same(ours(dt / capacity * x)[0], stepped(theirs, x, theirs.reset_mem())[0], x)


def test_leaky_without_a_reset_is_a_readout():
    snn = pytest.importorskip("snntorch")
    theirs, x, mem, membranes = snn.Leaky(0.75, reset_mechanism="none"), drive(2, 3), None, []
    for x_t in x:
        _, mem = theirs(x_t, mem)
        membranes.append(mem)
    torch.testing.assert_close(Readout(0.75)(x)[0], torch.stack(membranes))


@pytest.mark.parametrize("delay", [True, False])
def test_rleaky_from_all_to_all(delay):
    snn = pytest.importorskip("snntorch")
    torch.manual_seed(1)
    theirs = snn.RLeaky(0.75, linear_features=3, reset_delay=delay)
    ours, x = Recurrent(Leaky(0.75, reset_delay=delay, engine="eager"), 3, bias=True), drive(2, 3)
    ours.weight = theirs.recurrent
    same(ours(x)[0], recurrent(theirs, x), x, *theirs.recurrent.parameters())


@pytest.mark.parametrize("weight", [-0.5, [0.5, -0.25, 0.75]])
def test_rleaky_one_to_one(weight):
    snn = pytest.importorskip("snntorch")
    theirs, x = snn.RLeaky(0.75, V=torch.tensor(weight), all_to_all=False), drive(2, 3)
    ours = OneToOne(Leaky(0.75), theirs.V, engine="eager")
    same(ours(x)[0], recurrent(theirs, x), x, theirs.V)


def test_rleaky_with_a_convolution():
    snn = pytest.importorskip("snntorch")
    torch.manual_seed(1)
    theirs = snn.RLeaky(0.75, conv2d_channels=2, kernel_size=3)
    ours, x = Recurrent(Leaky(0.75, engine="eager"), connection=theirs.recurrent), drive(2, 2, 4, 5)
    same(ours(x)[0], recurrent(theirs, x), x, *theirs.recurrent.parameters())


def test_rsynaptic():
    snn = pytest.importorskip("snntorch")
    torch.manual_seed(1)
    theirs = snn.RSynaptic(0.5, 0.75, linear_features=3)
    ours, x = Recurrent(Synaptic(0.5, 0.75, engine="eager"), 3, bias=True), drive(2, 3)
    ours.weight = theirs.recurrent
    same(ours(x)[0], recurrent(theirs, x), x)


def test_inhibition_comes_after_the_step():
    snn = pytest.importorskip("snntorch")
    theirs, ours, x, outs = snn.Leaky(0.75, inhibition=True), Leaky(0.75), drive(4, 3).detach(), []
    spikes, _ = stepped(theirs, x, theirs.reset_mem())
    state = ours.initial_state(x[0])
    for x_t in x:
        out, state = ours.step(x_t, state)
        outs.append(out * F.one_hot(ours.membrane(state).argmax(1), 3))
    assert torch.equal(torch.stack(outs), spikes) and spikes.any()


# Norse 1.1 computes its surrogate with alpha = 1, whatever it is given, and the gradient of its counter, too.


def test_adex():
    norse = pytest.importorskip("norse.torch")
    x = drive(2, 3, strength=2.0)
    (out, state), (spikes, last) = AdEx(surrogate=SuperSpike(1.0), engine="eager")(x), norse.LIFAdEx()(x)
    same(out, spikes, x)
    torch.testing.assert_close(tuple(state), tuple(last), rtol=1e-5, atol=1e-6)


def test_recurrent_cuba_lif():
    norse = pytest.importorskip("norse.torch")
    torch.manual_seed(1)
    theirs = norse.LIFRecurrent(3, 5, autapses=True)
    ours, x = Recurrent(CubaLIF(surrogate=SuperSpike(1.0), detach_reset=True), 5), drive(2, 3, strength=4.0)
    ours.weight.weight = theirs.recurrent_weights
    same(ours(F.linear(x, theirs.input_weights))[0], theirs(x)[0], x, *theirs.parameters())


def test_refractory():
    norse = pytest.importorskip("norse.torch")
    from norse.torch.functional import lif_refrac

    x, state, outs = drive(2, 3, strength=2.0).detach(), None, []
    parameters = lif_refrac.LIFRefracParameters(rho_reset=torch.tensor(3.0))
    cell = norse.LIFRefracCell(p=parameters)
    for x_t in x:
        out, state = cell(x_t, state)
        outs.append(out)
    out, last = Refractory(CubaLIF(), 3, engine="eager")(x)
    assert torch.equal(out, torch.stack(outs)) and 0 < out.mean() < 1
    torch.testing.assert_close(tuple(last), (state.lif.v, state.lif.i, state.rho), rtol=1e-5, atol=1e-6)


def test_libox_is_a_readout():
    norse = pytest.importorskip("norse.torch")
    x = drive(2, 3)
    torch.testing.assert_close(Readout(1 - 1e-3 * 100.0, decay_input=True)(x)[0], norse.Lift(norse.LIBoxCell())(x)[0])


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("v_reset", [-0.1, None])
def test_qif(v_reset, detach):
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import neuron, surrogate

    x = drive(2, 3, strength=0.8)
    theirs = neuron.QIFNode(
        3.0, v_reset=v_reset, detach_reset=detach, surrogate_function=surrogate.Sigmoid(4.0), step_mode="m"
    )
    ours = QIF(3.0, v_reset=v_reset, detach_reset=detach, surrogate=Sigmoid(4.0), engine="eager")
    (out, state), spikes = ours(x), theirs(x)
    same(out, spikes, x)
    torch.testing.assert_close(state.v, theirs.v)


def test_neurons_without_spikes_are_readouts():
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import neuron

    x = drive(2, 3)
    for theirs, ours in (
        (neuron.NonSpikingLIFNode(4.0), Readout(1 - 1 / 4.0, decay_input=True)),
        (neuron.NonSpikingIFNode(), Readout(1.0)),
    ):
        torch.testing.assert_close(ours(x)[0], torch.stack(list(theirs(x))))


@pytest.mark.parametrize("norm", [False, True])
def test_expleak_is_a_readout(norm):
    layers = pytest.importorskip("sinabs.layers")
    x = drive(2, 3)
    theirs = layers.ExpLeak(20.0, norm_input=norm)(x.transpose(0, 1)).transpose(0, 1)
    torch.testing.assert_close(Readout(beta_of(20.0, 1.0), decay_input=norm)(x)[0], theirs)


def test_the_surrogate_of_snntorch_is_the_default():
    assert Synaptic(0.5, 0.5).surrogate == Alpha(0.5, 0.25).surrogate == ATan(2.0)
