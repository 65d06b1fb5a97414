"""Names of other libraries are answered with what they are here."""

import inspect
import re

import pytest
import torch
from torch import nn

from snnkit import neuron, surrogate
from snnkit.neuron import (
    IF,
    LIF,
    PLIF,
    AdEx,
    CubaLIF,
    Leaky,
    OneToOne,
    Readout,
    Recurrent,
    Refractory,
    Synaptic,
    foreign,
)
from snnkit.surrogate import ATan

CALLS = [
    (lambda: LIF(v_th=1.0), "LIF has no argument v_th: its threshold is v_threshold"),
    (lambda: LIF(threshold=1.0), "LIF has no argument threshold: its threshold is v_threshold"),
    (lambda: LIF(beta=0.9), r"LIF has no argument beta: .* tau = 1 / \(1 - beta\), with decay_input=False"),
    (lambda: LIF(tau_mem=9.0), "LIF has no argument tau_mem: its time constant in time steps is tau"),
    (lambda: PLIF(tau=9.0), "PLIF has no argument tau: its time constant in time steps is init_tau"),
    (lambda: LIF(surrogate_function=ATan()), "its spike function is surrogate"),
    (lambda: LIF(step_mode="m"), r"LIF has no argument step_mode: .* all steps x \[T, B, ...\]"),
    (lambda: LIF(backend="cupy"), 'LIF has no argument backend: engine="auto"'),
    (lambda: LIF(store_v_seq=True), "LIF has no argument store_v_seq: .* out, state = neuron"),
    (lambda: Leaky(tau=20.0), r"Leaky has no argument tau: its decay per step is beta: beta_of\(tau, dt\) is exp"),
    (lambda: Leaky(0.9, v_threshold=1.0), "Leaky has no argument v_threshold: its threshold is threshold"),
    (lambda: Leaky(0.9, v_reset=0.0), 'Leaky has no argument v_reset: reset_mechanism="zero" resets to zero'),
    (
        lambda: Leaky(beta=0.9, init_hidden=True),
        r"no argument init_hidden: state is passed in and out here: out, state =",
    ),
    (lambda: Leaky(beta=0.9, output=True), "Leaky has no argument output: the membrane is in the state"),
    (lambda: Leaky(beta=0.9, learn_beta=True), r"a number is learned if it is a Parameter: beta=torch.nn.Parameter"),
    (lambda: Leaky(beta=0.9, learn_threshold=True), "if it is a Parameter: threshold=torch.nn.Parameter"),
    (lambda: Leaky(beta=0.9, inhibition=True), "Leaky has no argument inhibition: a winner mixes neurons"),
    (lambda: Leaky(beta=0.9, graded_spikes_factor=2.0), "no argument graded_spikes_factor: multiply the output"),
    (lambda: Leaky(beta=0.9, state_quant=False), "no argument state_quant: states stay in float32; quantize.quantize"),
    (lambda: Leaky(beta=0.9, spike_grad=None), "Leaky has no argument spike_grad: its spike function is surrogate"),
    (lambda: CubaLIF(v_threshold=1.0), "CubaLIF has no argument v_threshold: its threshold is v_th"),
    (lambda: CubaLIF(tau=0.02), r"CubaLIF has no argument tau: its time constants are rates in 1/s: tau_mem_inv = 1"),
    (lambda: CubaLIF(p=None), "CubaLIF has no argument p: numbers are arguments of their own, without LIFParameters"),
    (lambda: CubaLIF(method="super"), "CubaLIF has no argument method: surrogate=SuperSpike"),
    (lambda: AdEx(v_threshold=1.0), "AdEx has no argument v_threshold: its threshold is v_th"),
    (lambda: Readout(0.9, norm_input=True), "its decay of the input is decay_input"),
    (lambda: Recurrent(Leaky(0.9), all_to_all=False), r"no argument all_to_all: .* are OneToOne\(neuron, weight\)"),
    (lambda: Recurrent(Leaky(0.9), V=1.0), r"Recurrent has no argument V: .* OneToOne\(neuron, weight\)"),
    (
        lambda: Recurrent(Leaky(0.9), linear_features=3),
        "Recurrent has no argument linear_features: its number of neurons is features",
    ),
    (lambda: Recurrent(Leaky(0.9), conv2d_channels=3), "connection=torch.nn.Conv2d"),
    (lambda: Refractory(LIF(), rho_reset=5), "Refractory has no argument rho_reset: its number of steps is steps"),
    (
        lambda: IF(tau_mem=2.0),
        "IF has no argument tau_mem; it has detach_reset, engine, surrogate, v_reset, v_threshold",
    ),
    (lambda: Leaky(), r"beta of Leaky must be given: the decay of its membrane per step, such as 0.9, or beta_of\("),
    (lambda: Synaptic(beta=0.9), "alpha of Synaptic must be given: the decay of its current per step"),
    (lambda: Readout(), "beta of Readout must be given"),
    (lambda: OneToOne(), r"neuron of OneToOne must be given: a Neuron such as LIF\(\)"),
    (lambda: Refractory(LIF()), "steps of Refractory must be given"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message[:60] for _, message in CALLS])
def test_an_argument_of_another_library(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def kinds():
    every = [getattr(neuron, name) for name in neuron.__all__]
    return [one for one in every if isinstance(one, type) and issubclass(one, nn.Module) and one is not neuron.Neuron]


def test_every_neuron_answers_and_says_what_is_required():
    for kind in kinds():
        with pytest.raises(TypeError, match=f"{kind.__name__} has no argument step_mode: a neuron is called"):
            kind(step_mode="m")
        for name, one in inspect.signature(kind).parameters.items():
            assert one.default is not one.empty or name in foreign.REQUIRED, (kind, name)


def test_no_hint_names_what_a_neuron_takes_itself_or_what_is_not_there():
    for kind in kinds():
        accepted = inspect.signature(kind).parameters
        with pytest.raises(TypeError, match=rf"no argument anything; it has {', '.join(sorted(accepted))}$"):
            kind(anything=1)
        named = [text.rpartition(" is ")[2] for text in foreign.hints(kind).values() if text.startswith("its ")]
        assert {name for name in named if name.isidentifier()} <= set(accepted), kind
    known = {*vars(surrogate), *neuron.__all__}
    texts = [*foreign.NAMES.values(), *foreign._INSTEAD.values(), *foreign._CONVERTED.values()]
    for called in re.findall(r"(?<![.\w])([A-Z]\w+)\(", " ".join(texts)):
        assert called in known or called in ("H",), called


def test_a_subclass_takes_what_its_author_lets_it_take():
    class Mine(LIF):
        def __init__(self, v_th=0.5, **options):
            super().__init__(v_threshold=v_th, **options)

    assert Mine(v_th=0.25).v_threshold == 0.25 and Mine(tau=3.0).tau == 3.0
    with pytest.raises(TypeError, match="LIF has no argument beta"):
        Mine(beta=0.9)

    class Own(neuron.Neuron):
        def __init__(self, threshold, decay):
            super().__init__(surrogate=ATan())
            self.number("threshold", threshold)
            self.number("decay", decay)

        def step(self, x, state):
            v = self.decay * state.v + x
            return self.spike(v - self.threshold), neuron.MembraneState(v)

    own = Own(threshold=nn.Parameter(torch.tensor(1.0)), decay=0.9)
    assert own.threshold is own._parameters["threshold"] and own(torch.ones(3, 2, 2))[0].any()
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'v_th'"):
        Own(v_th=1.0)


@pytest.mark.parametrize("name", foreign.NAMES)
def test_a_name_of_another_library(name):
    assert name not in neuron.__all__ and not hasattr(neuron, name)
    with pytest.raises(AttributeError, match=re.escape(f"there is no snnkit.neuron.{name}: {foreign.NAMES[name]}")):
        getattr(neuron, name)


def test_it_is_said_in_an_import_too_and_other_names_are_pythons():
    with pytest.raises(ImportError, match=r"there is no snnkit.neuron.Lapicque: it is Leaky\(1 - dt / \(R \* C\)\)"):
        from snnkit.neuron import Lapicque  # noqa: F401
    with pytest.raises(AttributeError, match=r"module 'snnkit.neuron' has no attribute 'Nothing'"):
        neuron.Nothing  # noqa: B018
