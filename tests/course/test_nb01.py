"""The references of notebook 01 are what its text and the library say."""

import torch

from snnkit.course.nb01 import Adaptive, fire, intervals, lif_step
from snnkit.neuron import LIF


def test_the_reference_steps_are_those_of_the_library():
    x = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)) * 3
    for v_reset in (0.0, None):
        v, spikes = torch.zeros(4), []
        for x_t in x:
            spike, v = fire(lif_step(x_t, v, 5.0), 1.0, v_reset)
            spikes.append(spike)
        wanted, state = LIF(tau=5.0, v_reset=v_reset)(x)
        assert torch.equal(torch.stack(spikes), wanted) and wanted.sum() > 5
        torch.testing.assert_close(v, state.v)


def test_the_adaptive_reference_tires_and_compiles():
    x = torch.full((200, 2), 2.5)
    eager, _ = Adaptive(engine="eager")(x)
    gaps = eager[:, 0].nonzero().squeeze(1).diff()
    assert gaps[-1] > 1.5 * gaps[0]


def test_intervals_follow_the_closed_form():
    found = intervals(lif_step, 1.5, 50.0)
    assert found[0] in (54, 55, 56) and len(set(found)) == 1
    assert intervals(lif_step, 0.99, 50.0) == []
