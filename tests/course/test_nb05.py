"""The references of notebook 05 are what its text and the library say."""

import torch

from snnkit.course import grade
from snnkit.course.nb05 import NestedSNN, lively, move_state, pack_light
from snnkit.neuron import LIF
from tests.course.answers import nb05


def test_a_moved_state_goes_on_where_it_stopped():
    x, cell = torch.rand(8, 2, 3), LIF()
    _, middle = cell(x[:4])
    torch.testing.assert_close(cell(x[4:], move_state(middle, "cpu"))[0], cell(x)[0][4:])


def test_in_the_last_check_some_neurons_fire_at_some_of_the_steps():
    net = NestedSNN((6, 5, 3), torch.arange(1.0, 7.0))
    x, spikes = lively(net), []
    for cell in net.cells:
        cell.register_forward_hook(lambda _, __, found: spikes.append(found[0]))
    net(x)
    assert len(spikes) == 2
    for rate in (layer.mean() for layer in spikes):
        assert 0.1 < rate < 0.9


def test_the_reference_to_05_3_is_a_view():
    assert pack_light(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), 7, "cpu").stride(0) == 0


def test_an_attribute_in_the_way_of_a_buffer_is_explained():
    assert "register_buffer" in grade("05.2", nb05._InTheWay).message
