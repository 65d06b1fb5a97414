"""The references of notebook 11 do what the rules of the library do."""

import math

import pytest
import torch

from snnkit.course.nb11 import assign_labels, bounded, stdp_step
from snnkit.plasticity import PairSTDP
from snnkit.plasticity import assign_labels as assigned_by_library


@pytest.mark.parametrize(("bound", "mu"), [("hard", 0.0), ("soft", 1.0)])
def test_a_step_and_its_bounds_are_the_rule_of_the_library(bound, mu):
    torch.manual_seed(0)
    rule = PairSTDP(a_plus=0.2, a_minus=0.25, tau_plus=10e-3, tau_minus=30e-3, bound=bound)
    pre, post = (torch.rand(200, n).lt(0.1).double() for n in (6, 4))
    start = w = torch.rand(4, 6).double()
    x, y = torch.zeros(6).double(), torch.zeros(4).double()
    for pre_t, post_t in zip(pre, post, strict=True):
        x, y, increase, decrease = stdp_step(pre_t, post_t, x, y, math.exp(-0.1), math.exp(-1 / 30))
        w = bounded(w, rule.a_plus * increase, rule.a_minus * decrease, mu)
    want, _ = rule.run(pre[:, None], post[:, None], start)
    assert torch.allclose(w, want, rtol=0, atol=1e-12)
    assert (want - start).abs().min() > 1e-3


def test_labels_are_assigned_as_the_library_does():
    torch.manual_seed(0)
    counts = torch.rand(60, 30).lt(0.05).float() * torch.randint(1, 5, (60, 30))
    counts[:, 3], labels = 0, torch.randint(9, (60,))
    want = assigned_by_library(counts, labels, 10)
    assert torch.equal(assign_labels(counts, labels, 10), want)
    assert (want == -1).any() and len(want.unique()) > 5
