"""Layers without neurons."""

import pytest
import torch

from snnkit.plasticity import PairSTDP, TripletSTDP


@pytest.mark.parametrize("engine", ["eager", "cpp"])
@pytest.mark.parametrize("bound", ["hard", "soft", None])
@pytest.mark.parametrize("rule", [PairSTDP, TripletSTDP])
@pytest.mark.parametrize(("posts", "pres"), [(5, 0), (0, 5), (0, 0)])
def test_a_layer_without_neurons_has_no_weights_to_change(engine, bound, rule, posts, pres):
    weight = torch.empty(posts, pres)
    learning = rule(engine=engine, bound=bound)
    whole, _ = learning.run(torch.ones(3, 2, pres), torch.ones(3, 2, posts), weight)
    step, _ = learning.step(torch.ones(2, pres), torch.ones(2, posts), weight)
    assert whole.shape == step.shape == weight.shape
