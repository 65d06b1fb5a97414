"""The references of notebook 02 are what its text and the library say."""

import pytest
import torch

from snnkit.course.nb02 import MySpike, dead_neurons, gradient
from snnkit.surrogate import ATan, Triangle


@pytest.mark.parametrize("alpha", [0.5, 2.0, 50.0])
def test_the_reference_is_the_surrogate_of_the_library(alpha):
    u = torch.linspace(-3, 3, 61, dtype=torch.float64)
    torch.testing.assert_close(gradient(MySpike, u, alpha), ATan(alpha).derivative(u))


def test_the_reference_takes_one_slope_per_neuron():
    u = torch.tensor([0.1, 0.1], requires_grad=True)
    MySpike.apply(u, torch.tensor([2.0, 8.0])).sum().backward()
    wanted = [ATan(a).derivative(torch.tensor(0.1)).item() for a in (2.0, 8.0)]
    torch.testing.assert_close(u.grad, torch.tensor(wanted))


def test_the_same_membrane_is_dead_to_one_surrogate_and_not_to_another():
    u = torch.full((4, 2, 1), -3.0)
    assert dead_neurons(u, Triangle(1.0), 1e-3).tolist() == [True]
    assert dead_neurons(u, ATan(2.0), 1e-3).tolist() == [False]
