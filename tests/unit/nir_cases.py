"""Random networks and random NIR graphs, and what the tests of interop share."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn

from snnkit.interop import Graph, Scale, SumPool2d, from_nir, to_nir
from snnkit.neuron import IF, LI, LIF, PLIF, CubaLIF, Leaky, Neuron, OneToOne, Readout, Recurrent, Synaptic
from snnkit.nn import Residual, Sequential, TimeBatched
from snnkit.surrogate import ATan, SuperSpike, Triangle

DT = 1e-3
STEPS = 12


def written(model, x, dt=DT):
    """Its graph, without the warnings about thresholds and shapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return to_nir(model, x, dt)


def read(graph, dt=DT, **options):
    """The network of a graph, ready for a quick run."""
    return quick(from_nir(graph, dt, **options))


def quick(model):
    for module in model.modules():
        if isinstance(module, Neuron):
            module.engine = "eager"
    return model


@torch.no_grad()
def run(model, x):
    return model(x)[0]


def assert_same(back, net):
    """The same modules with the same settings, names, parameters and buffers."""
    assert repr(back) == repr(net)
    state, wanted = back.state_dict(), net.state_dict()
    assert list(state) == list(wanted)
    assert all(state[name].shape == wanted[name].shape and torch.equal(state[name], wanted[name]) for name in wanted)
    learnable, other = ([(name, p.requires_grad) for name, p in one.named_parameters()] for one in (back, net))
    assert learnable == other
    back.load_state_dict(wanted, strict=True)


def sequence(shape, seed=0, dtype=torch.float32):
    """Random input [T, 2, ...] on a grid of eighths, so that membranes of integrators meet thresholds exactly."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 24, (STEPS, 2, *shape), generator=generator).to(dtype) / 8


# A value as a float, as one learned number, or as one per neuron.
def value(draw, low, high, shape):
    kind = draw(st.sampled_from(["float", "parameter", "each"]))
    number = draw(st.floats(low, high, allow_subnormal=False))
    if kind == "float":
        return number
    if kind == "parameter":
        return nn.Parameter(torch.tensor(number))
    per = (shape[0], 1, 1) if len(shape) == 3 else shape
    seed = draw(st.integers(0, 99))
    return torch.rand(per, generator=torch.Generator().manual_seed(seed)) * (high - low) + low


@st.composite
def neurons(draw, shape):
    def number(low, high):
        return value(draw, low, high, shape)

    kind = draw(st.sampled_from([IF, LIF, PLIF, Leaky, CubaLIF, LI, Synaptic, Readout]))
    gradient = {"surrogate": draw(st.sampled_from([ATan(), SuperSpike(30.0), Triangle()]))}
    reset = {**gradient, "detach_reset": draw(st.booleans())}
    if kind is IF:
        return IF(draw(st.sampled_from([0.5, 1.0, number(0.2, 2)])), draw(st.sampled_from([0.0, -0.25])), **reset)
    if kind is LIF:
        return LIF(number(1, 9), number(0.2, 2), number(-1, 0), decay_input=draw(st.booleans()), **reset)
    if kind is PLIF:
        of_w = draw(st.sampled_from([(), (1,)]))
        return PLIF(draw(st.floats(1.1, 9)), decay_input=draw(st.booleans()), shape=of_w, **reset)
    if kind is Leaky:
        beta = draw(st.sampled_from([0.0, 1.0, 0.9, number(0, 0.99)]))
        return Leaky(beta, number(0.2, 2), reset_mechanism="zero", reset_delay=draw(st.booleans()), **gradient)
    if kind is Synaptic:
        decays = number(0, 0.99), number(0, 0.99)
        return Synaptic(*decays, number(0.2, 2), reset_mechanism="zero", reset_delay=False, **gradient)
    if kind is Readout:
        beta = draw(st.sampled_from([0.0, 0.9, number(0, 0.99)]))
        return Readout(1.0) if draw(st.booleans()) else Readout(beta, decay_input=draw(st.booleans()))
    rates = {"tau_mem_inv": number(50, 400), "tau_syn_inv": number(50, 400), "v_leak": number(-0.5, 0.1), "dt": DT}
    if kind is LI:
        return LI(**rates)
    return CubaLIF(**rates, v_th=number(0.2, 1), v_reset=number(-0.5, 0.1), **gradient)


@st.composite
def networks(draw):
    """A Sequential of one to three layers of weights and neurons, and the shape of its samples."""
    torch.manual_seed(draw(st.integers(0, 999)))
    layers: list[nn.Module] = []
    front = draw(st.sampled_from(["vectors", "images", "series"]))
    if front == "images":
        start = (2, 6, 6)
        bias, groups = draw(st.booleans()), draw(st.sampled_from([1, 2]))
        cells = draw(neurons((4, 6, 6)))
        back = nn.Conv2d(4, 4, 3, padding=1, bias=bias)
        cells = draw(st.sampled_from([cells, Recurrent(cells, connection=back), OneToOne(cells, -0.5)]))
        layers += [nn.Conv2d(2, 4, 3, padding=1, bias=bias, groups=groups), cells]
        average = nn.AvgPool2d((2, 2), (2, 2), (0, 0))
        layers += [draw(st.sampled_from([average, SumPool2d(2), SumPool2d(2, 2)])), nn.Flatten()]
        width = 36
    elif front == "series":
        start = (2, 7)
        layers += [nn.Conv1d(2, 3, 3, stride=2, dilation=1), nn.Flatten()]
        width = 9
    else:
        start, width = (5,), 5
    for _ in range(draw(st.integers(1, 2))):
        size = draw(st.integers(1, 6))
        neuron = draw(neurons((size,)))
        recurrent = Recurrent(neuron, size, bias=draw(st.booleans()))
        alone = OneToOne(neuron, value(draw, -0.5, 0.5, (size,)))
        layers += [nn.Linear(width, size, bias=draw(st.booleans())), draw(st.sampled_from([neuron, recurrent, alone]))]
        width = size
    for layer in layers:
        if hasattr(layer, "weight") and not isinstance(layer, (Recurrent, OneToOne)):
            layer.weight.data += 0.3  # so that few networks are silent
    return quick(Sequential(*layers)), start


@st.composite
def graphs(draw):
    """A ``Graph`` of two to six nodes of three numbers that branch and join: residual blocks, networks in networks."""
    torch.manual_seed(draw(st.integers(0, 999)))
    size = 3

    def layer():
        kind = draw(st.sampled_from(["linear", "neuron", "neuron", "recurrent", "block", "wrapped", "scale", "skip"]))
        if kind == "linear":
            return nn.Linear(size, size, bias=draw(st.booleans()))
        if kind == "neuron":
            return draw(neurons((size,)))
        if kind == "recurrent":
            return Recurrent(draw(neurons((size,))), size, bias=draw(st.booleans()))
        if kind == "block":
            block = Sequential(nn.Linear(size, size), nn.Dropout(0.25), draw(neurons((size,))))
            ends = [("input", "block"), ("block", "output"), ("input", "output")]
            skip = draw(st.sampled_from([None, nn.Linear(size, size), TimeBatched(nn.Linear(size, size))]))
            return draw(st.sampled_from([block, Graph({"block": block}, ends), Residual(block, skip)]))
        if kind == "wrapped":
            return TimeBatched(nn.Linear(size, size))
        return Scale(torch.rand(size)) if kind == "scale" else nn.Identity()

    names = [f"n{i}" for i in range(draw(st.integers(2, 6)))]
    layers = {name: layer() for name in names}
    edges = []
    for i, name in enumerate(names):
        before = ["input", *names[:i]]
        edges += [(a, name) for a in draw(st.lists(st.sampled_from(before), min_size=1, max_size=3, unique=True))]
    ends = [name for name in names if name not in {a for a, _ in edges}]
    if draw(st.booleans()) and ("input", names[-1]) in edges:
        ends.append("input")
    return Graph(layers, [*edges, *((name, "output") for name in ends)])


def nir_neuron(nir, kind, shape, seed):
    """A NIR neuron whose numbers differ from neuron to neuron."""
    rng = np.random.default_rng(seed)

    def each(low, high):
        return rng.uniform(low, high, shape)

    reset = {"v_threshold": each(0.2, 1), "v_reset": each(-0.3, 0.1)}
    if kind == "IF":
        return nir.IF(r=each(500, 1500), **reset)
    leaky = {"r": each(0.5, 4), "v_leak": each(-0.2, 0.1)}
    if kind == "LI":
        return nir.LI(tau=each(2e-3, 2e-2), **leaky)
    if kind == "LIF":
        return nir.LIF(tau=each(2e-3, 2e-2), **leaky, **reset)
    synapse = {"tau_syn": each(2e-3, 1e-2), "tau_mem": each(2e-3, 2e-2), "w_in": each(1, 8)}
    if kind == "CubaLI":
        return nir.CubaLI(**synapse, **leaky)
    return nir.CubaLIF(**synapse, **leaky, **reset)
