"""The references of notebook 10 are what its text and the library say."""

import pytest
import torch

from snnkit.course.nb10 import crossover, leaky, spike
from snnkit.neuron import Leaky
from snnkit.surrogate import ATan
from tests.course.answers.nb10 import line


def test_the_reference_is_the_neuron_of_the_library():
    torch.manual_seed(0)
    x = torch.rand(20, 4, 7)
    mem, spikes = torch.zeros(4, 7), []
    for current in x:
        fired, mem = leaky(mem, current, lambda u: ATan()(u, strict=True))
        spikes.append(fired)
    want, _ = Leaky(0.9, engine="eager")(x)
    assert torch.equal(torch.stack(spikes), want) and want.any()


def test_at_the_crossover_the_fixed_part_is_half():
    small, large = (4, 0.010), (64, 0.025)
    a, b = line(small, large)
    assert b * crossover(small, large) == pytest.approx(a)


def test_all_three_together_train_as_the_library_does():
    torch.manual_seed(0)
    weights = torch.randn(5, 6)
    smooth = ATan().primitive
    x, mem, count = torch.randn(3, 6), torch.zeros(3, 5), 0.0
    w = weights.clone().requires_grad_()
    for _ in range(8):
        fired, mem = leaky(mem, x @ w.T, lambda u: spike(u, smooth))
        count = count + fired
    v = weights.clone().requires_grad_()
    out, _ = Leaky(0.9, surrogate=ATan(), engine="eager")((x @ v.T).expand(8, 3, 5))
    assert torch.equal(count, out.sum(0)) and count.any()
    assert torch.allclose(
        *(torch.autograd.grad((c * torch.arange(5)).sum(), p)[0] for c, p in ((count, w), (out.sum(0), v))), atol=1e-5
    )
