"""A neuron of the Triton engine in a compiled model is one operation, equal to the bit."""

import pytest
import torch
from torch import nn

from snnkit.neuron import LIF

pytestmark = [
    pytest.mark.usefixtures("interpreter"),
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),
]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_neuron_in_a_compiled_model_is_one_operation(dynamic):
    neuron = LIF(nn.Parameter(torch.linspace(1.5, 3.0, 4).reshape(4, 1, 1)), engine="triton")
    image = torch.rand(19, 2, 4, 3, 3) * 2
    channels_last = image.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (19, 2))
    seen = []

    def backend(graph, _):
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    model = torch.compile(neuron, fullgraph=True, backend=backend, dynamic=dynamic)
    for x in (image, channels_last):
        results = []
        for call in (model, neuron):
            leaf = x.detach().requires_grad_()
            out, state = call(leaf)
            gradients = torch.autograd.grad((out * 0.3).sum() + state.v.sum(), [leaf, neuron.tau])
            results.append((out, state.v, *gradients))
        assert results[0][0].stride() == results[1][0].stride()
        torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    assert any("snnkit.unroll" in name for name in seen)
