"""Golden traces: what the published equations of the peers give, and what the peers themselves gave."""

import pytest
import torch

from snnkit.neuron import ALIF, IF, LI, LIF, PLIF, CubaLIF, Izhikevich, Leaky

from . import reference_neurons as reference


def run(neuron, xs):
    """Spikes and membrane per step in float64."""
    state, spikes, membrane = None, [], []
    for x in xs:
        out, state = neuron(torch.full((1, 1), x, dtype=torch.float64), state)
        spikes.append(out.item())
        membrane.append(state[0].item())
    return spikes, membrane


def inputs(strength=1.0, steps=200):
    generator = torch.Generator().manual_seed(3)
    return (torch.rand(steps, generator=generator, dtype=torch.float64) * 1.6 * strength - 0.2 * strength).tolist()


CASES = {
    "IF": (IF(), reference.if_or_lif, {}, 1.0),
    "IF soft": (IF(v_reset=None), reference.if_or_lif, {"reset": None}, 1.0),
    "LIF": (LIF(), reference.if_or_lif, {"tau": 2.0}, 1.5),
    "LIF soft": (LIF(3.0, v_reset=None), reference.if_or_lif, {"tau": 3.0, "reset": None}, 2.0),
    "LIF rest": (
        LIF(5.0, v_threshold=0.4, v_reset=-0.6, decay_input=False),
        reference.if_or_lif,
        {"tau": 5.0, "threshold": 0.4, "reset": -0.6, "decay_input": False},
        0.5,
    ),
    "PLIF": (PLIF(2.0).double(), reference.if_or_lif, {"tau": 2.0}, 2.0),
    "Leaky subtract": (Leaky(0.9), reference.leaky, {"beta": 0.9}, 1.0),
    "Leaky subtract now": (Leaky(0.9, reset_delay=False), reference.leaky, {"beta": 0.9, "delay": False}, 1.0),
    "Leaky zero": (Leaky(0.8, reset_mechanism="zero"), reference.leaky, {"beta": 0.8, "mechanism": "zero"}, 1.0),
    "Leaky zero now": (
        Leaky(0.8, 0.7, reset_mechanism="zero", reset_delay=False),
        reference.leaky,
        {"beta": 0.8, "threshold": 0.7, "mechanism": "zero", "delay": False},
        1.0,
    ),
    "Leaky none": (Leaky(0.5, reset_mechanism="none"), reference.leaky, {"beta": 0.5, "mechanism": "none"}, 1.0),
    "CubaLIF": (CubaLIF(), reference.cuba_lif, {}, 1.0),
    "CubaLIF other": (
        CubaLIF(250.0, 50.0, v_leak=0.1, v_th=0.8, v_reset=-0.1, dt=2e-3),
        reference.cuba_lif,
        {"tau_mem_inv": 250.0, "tau_syn_inv": 50.0, "leak": 0.1, "threshold": 0.8, "reset": -0.1, "dt": 2e-3},
        0.5,
    ),
    "LI": (LI(), reference.cuba_lif, {"threshold": float("inf")}, 1.0),
    "ALIF": (ALIF(beta=0.5), reference.alif, {"beta": 0.5}, 0.5),
    "Izhikevich": (Izhikevich(), reference.izhikevich, {}, 15.0),
    "Izhikevich chattering": (
        Izhikevich(c=-50.0, d=2.0, dt=0.5),
        reference.izhikevich,
        {"c": -50.0, "d": 2.0, "dt": 0.5},
        15.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_published_equation(name):
    neuron, equation, arguments, strength = CASES[name]
    xs = inputs(strength)
    spikes, membrane = run(neuron, xs)
    expected_spikes, expected_membrane = equation(xs, **arguments)
    if name == "LI":
        assert spikes == pytest.approx(expected_membrane)
    else:
        assert 3 < sum(expected_spikes) < 195, "a trace without spikes, or with nothing else, proves little"
        assert spikes == expected_spikes
    assert membrane == pytest.approx(expected_membrane, abs=1e-7)


def test_norse_with_constant_input():
    """Norse's own test of its LIF (x = 1), four digits."""
    spikes, membrane = run(CubaLIF(), [1.0] * 12)
    assert membrane == pytest.approx(
        [0.1, 0.27, 0.487, 0.7335, 0.9963, 0, 0.3951, 0.7717, 0, 0.4463, 0.8587, 0], abs=5e-5
    )
    assert [i + 1 for i, s in enumerate(spikes) if s] == [6, 9, 12]


def test_snntorch_with_constant_input():
    """snnTorch 1.0's Leaky (beta 0.9, input 0.4): reset in the next step, or at once."""
    spikes, membrane = run(Leaky(0.9), [0.4] * 6)
    assert membrane == pytest.approx([0.4, 0.76, 1.084, 0.3756, 0.73804, 1.064236], abs=1e-9)
    assert spikes == [0, 0, 1, 0, 0, 1]
    spikes, membrane = run(Leaky(0.9, reset_delay=False), [0.4] * 6)
    assert membrane == pytest.approx([0.4, 0.76, 0.084, 0.4756, 0.82804, 0.145236], abs=1e-9)
    assert spikes == [0, 0, 1, 0, 0, 1]


def test_at_the_threshold_the_conventions_differ():
    """Four quarters make one: SpikingJelly fires there, snnTorch and Norse only above."""
    assert run(IF(), [0.25] * 4)[0] == [0, 0, 0, 1]
    assert run(Leaky(1.0), [0.25] * 5)[0] == [0, 0, 0, 0, 1]
    # tau_mem_inv dt = 1: the membrane is the current.
    assert run(CubaLIF(1000.0, 1e-9), [0.5, 0.5, 0.25])[0] == [0, 0, 1]
