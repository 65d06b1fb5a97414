"""The neurons that engine tests run through: every one of the catalogue, with its resets and kinds of parameters."""

import copy

import torch
from torch import nn

from snnkit.engine import state_dtype
from snnkit.neuron import (
    ALIF,
    IF,
    LI,
    LIF,
    PLIF,
    QIF,
    AdEx,
    Alpha,
    CubaLIF,
    Izhikevich,
    Leaky,
    OneToOne,
    Readout,
    Refractory,
    Synaptic,
)
from snnkit.surrogate import FastSigmoid, Sigmoid, SuperSpike, Triangle

# Layers are [B, N] = [3, 5]: a learnable [N] parameter is one per neuron, a buffer () one for all.
FEATURES = 5


def per_neuron(low: float, high: float) -> nn.Parameter:
    return nn.Parameter(torch.linspace(low, high, FEATURES))


ZOO = {
    "IF": lambda: IF(),
    "IF-soft": lambda: IF(v_reset=None),
    "IF-reset-negative": lambda: IF(v_threshold=0.8, v_reset=-0.2, detach_reset=True),
    "LIF": lambda: LIF(),
    "LIF-soft": lambda: LIF(v_reset=None),
    "LIF-rest": lambda: LIF(3.0, v_reset=-0.3, decay_input=False),
    "LIF-learnable-tau": lambda: LIF(per_neuron(1.5, 4.0), surrogate=Sigmoid()),
    "LIF-buffers": lambda: LIF(torch.tensor(2.5), v_threshold=torch.linspace(0.8, 1.2, FEATURES), detach_reset=True),
    "Leaky": lambda: Leaky(0.9),
    "Leaky-zero": lambda: Leaky(0.9, reset_mechanism="zero"),
    "Leaky-none": lambda: Leaky(0.5, reset_mechanism="none"),
    "Leaky-now": lambda: Leaky(0.9, reset_delay=False),
    "Leaky-zero-now": lambda: Leaky(0.8, 0.7, reset_mechanism="zero", reset_delay=False),
    "Leaky-learnable": lambda: Leaky(per_neuron(0.5, 0.95), nn.Parameter(torch.tensor(0.9)), surrogate=FastSigmoid()),
    "CubaLIF": lambda: CubaLIF(surrogate=SuperSpike(10.0)),
    "CubaLIF-learnable": lambda: CubaLIF(
        per_neuron(80.0, 200.0), nn.Parameter(torch.tensor(150.0)), v_leak=0.1, detach_reset=True
    ),
    "PLIF": lambda: PLIF(),
    "PLIF-soft-per-neuron": lambda: PLIF(3.0, v_reset=None, shape=(FEATURES,), decay_input=False),
    "ALIF": lambda: ALIF(tau=5.0, tau_adapt=20.0, beta=0.5),
    "ALIF-hard-learnable": lambda: ALIF(beta=nn.Parameter(torch.tensor(0.3)), v_reset=0.0, surrogate=Triangle()),
    "Izhikevich": lambda: Izhikevich(),
    "Izhikevich-learnable": lambda: Izhikevich(d=nn.Parameter(torch.tensor(6.0)), dt=0.5),
    "LI": lambda: LI(),
    "LI-learnable": lambda: LI(per_neuron(50.0, 300.0)),
    "QIF": lambda: QIF(),
    "QIF-soft-learnable": lambda: QIF(per_neuron(2.0, 6.0), a0=nn.Parameter(torch.tensor(0.8)), v_reset=None),
    "AdEx": lambda: AdEx(surrogate=SuperSpike(10.0)),
    "AdEx-learnable": lambda: AdEx(
        per_neuron(80.0, 200.0),
        adaptation_spike=nn.Parameter(torch.tensor(0.5)),
        v_peak=1.5,
        surrogate=SuperSpike(10.0),
    ),
    "Synaptic": lambda: Synaptic(0.8, 0.9),
    "Synaptic-zero": lambda: Synaptic(0.8, 0.9, reset_mechanism="zero"),
    "Synaptic-now-learnable": lambda: Synaptic(
        per_neuron(0.3, 0.9), nn.Parameter(torch.tensor(0.7)), reset_delay=False
    ),
    "Alpha": lambda: Alpha(0.9, 0.8),
    "Alpha-subtract-learnable": lambda: Alpha(
        per_neuron(0.8, 0.95), nn.Parameter(torch.tensor(0.5)), reset_mechanism="subtract"
    ),
    "Readout": lambda: Readout(0.9),
    "Readout-learnable": lambda: Readout(per_neuron(0.5, 0.95), decay_input=True),
    "OneToOne": lambda: OneToOne(LIF(), 0.5),
    "OneToOne-learnable": lambda: OneToOne(Refractory(Leaky(0.9), 1), per_neuron(-0.5, 0.5)),
    "Refractory": lambda: Refractory(LIF(), 2),
    "Refractory-adapts": lambda: Refractory(ALIF(tau=5.0, beta=nn.Parameter(torch.tensor(0.5))), 2),
}

STRENGTH = {"Izhikevich": 20.0, "CubaLIF": 1.5, "AdEx": 1.5, "Alpha": 1.5, "Refractory": 1.5}


def drive(neuron: nn.Module, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Random input of a strength at which the neuron fires now and then."""
    strength = STRENGTH.get(type(neuron).__name__, 1.0)
    return (torch.rand(*shape, dtype=torch.float64) * strength * 1.4).to(dtype)


def results(neuron: nn.Module, x: torch.Tensor, name: str, with_state: bool = True):
    """Output, final state, and the gradients of input, initial state and parameters, of one run in engine ``name``."""
    neuron = copy.deepcopy(neuron)
    neuron.engine = name
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    state = None
    if with_state:
        state = neuron.initial_state(torch.zeros(x.shape[1:], dtype=state_dtype(x), device=x.device))
        state = type(state)(*((part + 0.1).requires_grad_() for part in state))
    out, last = neuron(x, state)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out)
    loss = (out * weight).sum() + sum((part * 0.3).sum() for part in last)
    inputs = [x, *(state or ()), *neuron.parameters()]
    # The membrane of Alpha is only compared with its threshold, so nothing depends on its first value.
    gradients = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    return out.detach(), [part.detach() for part in last], gradients
