"""The same counts as NeuroBench's own package, where that and snnTorch are installed (`pip install neurobench`)."""

import pytest
import torch
from torch import nn

from snnkit.hardware import energy
from snnkit.neuron import Leaky
from snnkit.nn import Sequential

snntorch = pytest.importorskip("snntorch")
pytest.importorskip("neurobench")

from neurobench.metrics.static import ConnectionSparsity, Footprint  # noqa: E402
from neurobench.metrics.workload import ActivationSparsity, MembraneUpdates, SynapticOperations  # noqa: E402
from neurobench.models import SNNTorchModel  # noqa: E402


def theirs(net, x):
    """NeuroBench's figures for x [T, B, ...]."""
    model = SNNTorchModel(net)
    model.register_hooks()
    data = x.transpose(0, 1), torch.zeros(x.shape[1])
    with torch.no_grad():
        out = model(data[0])
    synapses, updates = SynapticOperations(), MembraneUpdates()
    found = {
        **synapses(model, out, data),
        "updates": updates(model, out, data),
        "activation": ActivationSparsity()(model, out, data),
        "connection": ConnectionSparsity()(model),
        "footprint": Footprint()(model),
    }
    model.cleanup_hooks()
    return found


def layers(kind):
    """(stateless layers, sample shape), a neuron to follow each but flattening and pooling."""
    if kind == "dense":
        return [nn.Linear(12, 20), "neuron", nn.Linear(20, 5), "neuron"], (12,)
    if kind == "conv":
        conv, second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, groups=2, bias=False)
        return [conv, "neuron", nn.MaxPool2d(2), second, "neuron", nn.Flatten(), nn.Linear(54, 3), "neuron"], (
            2,
            14,
            14,
        )
    conv = nn.Conv1d(3, 4, 2)
    return [conv, "neuron", nn.AvgPool1d(2), nn.Flatten(), nn.Linear(16, 4), "neuron"], (3, 9)


@pytest.mark.parametrize("kind", ["dense", "conv", "pooled by means"])
@pytest.mark.parametrize("data", ["spikes", "numbers", "ternary"])
@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_all_figures_are_those_of_neurobench(kind, data, reset):
    stack, shape = layers(kind)
    mine, other = [], []
    for i, layer in enumerate(stack):
        if layer == "neuron":
            mine.append(Leaky(0.5, 0.4, reset_mechanism=reset))
            last = i == len(stack) - 1
            other.append(snntorch.Leaky(0.5, 0.4, reset_mechanism=reset, init_hidden=True, output=last))
            continue
        if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            layer.weight.data *= 3.0
            layer.weight.data[torch.rand_like(layer.weight) < 0.3] = 0
        mine.append(layer)
        other.append(layer)
    x = torch.rand(6, 5, *shape)
    x = {"spikes": (x < 0.3).float(), "numbers": x, "ternary": (x * 3 - 1.5).round()}[data]
    x[:, :, 0] *= (x[:, :, 0] > 0.5).float()  # and zeros among the numbers
    expected = theirs(nn.Sequential(*other), x)
    found = energy.count(Sequential(*mine), x)
    assert found.operations.dense == expected["Dense"] > 0
    assert found.effective_macs == expected["Effective_MACs"]
    assert found.effective_acs == expected["Effective_ACs"]
    assert found.membrane_updates == expected["updates"] > 0
    assert found.activation_sparsity == pytest.approx(expected["activation"], abs=1e-12)
    assert round(found.connection_sparsity, 4) == pytest.approx(expected["connection"], abs=1e-4)
    assert 0.1 < found.activation_sparsity < 0.99 and expected["connection"] > 0.1
    # snnTorch keeps the constants of its neurons in buffers.
    buffers = sum(b.numel() * b.element_size() for b in nn.Sequential(*other).buffers())
    assert found.footprint == expected["footprint"] - buffers
