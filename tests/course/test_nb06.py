"""The references of notebook 06 are what its text says."""

import pytest
import torch

from snnkit.course.nb06 import bytes_moved, one_resting_neuron, resting_step
from snnkit.measure.traffic import Traffic
from snnkit.neuron import LIF
from snnkit.neuron.base import MembraneState
from snnkit.surrogate import ATan


def test_the_floor_is_eight_and_twenty_bytes():
    assert bytes_moved([], 4, 4) == (0, 8, 20)
    assert bytes_moved([], 2, 2) == (0, 4, 10)
    assert bytes_moved([], 4, 1)[1] == 5


def test_operations_as_they_were_watched_can_be_counted():
    with Traffic() as seen:
        LIF(engine="eager").step(torch.rand(1), MembraneState(torch.zeros(1)))
    assert bytes_moved(seen.kernels)[0] == seen.bytes > 80


def test_the_reference_is_the_neuron_of_the_text():
    v = rest = torch.zeros(1)
    one = (0.0, 0.0)
    spikes = []
    for number in torch.rand(50, generator=torch.Generator().manual_seed(1)).tolist():
        spike, v, rest = resting_step(torch.tensor([number]), v, rest, ATan())
        expected, *one = one_resting_neuron(number, *one)
        assert spike.item() == expected
        assert (v.item(), rest.item()) == pytest.approx(tuple(one), abs=1e-6)
        spikes.append(expected)
    assert 5 < sum(spikes) < 20
