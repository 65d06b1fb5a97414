"""What layers cost: counted without running them."""

import pytest
import torch

from snnkit import encode, models, neuron, nn, viz


@pytest.fixture
def net():
    return models.FashionConvNet(4, 8, size=8)


def test_the_published_net_is_counted_on_meta():
    with torch.device("meta"):
        net = models.FashionConvNet()
    costs = viz.layer_costs(net, encode.repeat(torch.zeros(1, 1, 28, 28), 4))
    assert (costs.parameters, costs.neurons) == (13_014_656, 127_498)
    conv1, conv2, linear = (costs.layers[i] for i in (0, 4, 9))
    assert conv1.flops == 2 * 9 * 128 * 784
    assert conv2.flops == 4 * 2 * 9 * 128 * 128 * 196
    assert linear.flops == 4 * 2 * 6272 * 2048
    assert [layer.runs for layer in costs.layers[:4]] == [1, 1, 4, 4]
    assert costs.layers[2].shape == (128, 28, 28) and costs.layers[2].neurons == 128 * 28 * 28


def test_what_is_not_static_is_counted_at_each_step(net):
    x = encode.repeat(torch.zeros(2, 1, 8, 8), 3)
    once, often = viz.layer_costs(net, x), viz.layer_costs(net, x.contiguous())
    assert often.layers[0].flops == 3 * once.layers[0].flops and often.layers[0].runs == 3
    assert often.layers[4] == once.layers[4]
    assert (once.steps, once.batch) == (3, 2)


def test_counting_runs_nothing_and_leaves_the_net_alone(net):
    before = {key: value.clone() for key, value in net.state_dict().items()}
    engines = [m.engine for m in net if isinstance(m, neuron.IF)]
    viz.layer_costs(net, torch.rand(3, 2, 1, 8, 8))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert [m.engine for m in net if isinstance(m, neuron.IF)] == engines
    assert net[0].weight.device.type == "cpu"


def test_the_table_names_layers_and_sums_up(net):
    costs = viz.layer_costs(net, encode.repeat(torch.zeros(1, 1, 8, 8), 4))
    text, page = repr(costs), costs._repr_html_()
    for told in ("Conv2d 1 → 4, 3 × 3", "Once(BatchNorm2d)", "MaxPool2d 2 × 2", "Linear 16 → 8", "one sample, T = 4"):
        assert told in text and told in page
    assert text.splitlines()[-1].split()[:2] == ["all", f"{costs.parameters:,}"]
    assert page.count("<tr>") == len(net) + 2


def test_other_networks_have_tables_too():
    net = nn.Sequential(torch.nn.Linear(3, 2), neuron.Leaky(0.9), torch.nn.AvgPool1d(1))
    costs = viz.layer_costs(net, torch.rand(5, 2, 3))
    assert [layer.name for layer in costs.layers] == ["Linear 3 → 2", "Leaky", "AvgPool1d"]
    assert costs.flops == 5 * 2 * 2 * 3 * 2


def test_what_is_refused(net):
    with pytest.raises(TypeError, match=r"net must be a snnkit\.nn\.Sequential"):
        viz.layer_costs(torch.nn.Linear(2, 2), torch.rand(1, 1, 2))
    with pytest.raises(TypeError, match="x must be a tensor"):
        viz.layer_costs(net, [1.0])
