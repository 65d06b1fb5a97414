"""Tables of networks: every tensor once, of the right kind, and what .to() leaves behind; what layers cost."""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from snnkit import encode, models, neuron, nn as snn
from snnkit.lab import viz


class Constants(NamedTuple):
    tau: Tensor


@dataclass
class Settings:
    scale: Tensor


class Mixed(nn.Module):
    """One of each kind, and tensors in every sort of box."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("grid", torch.zeros(5, dtype=torch.float64), persistent=False)
        self.register_buffer("nothing", None)
        self.gain = torch.zeros(4)
        self.constants = Constants(torch.tensor(2.0))
        self.settings = Settings(torch.zeros(2))
        self.table = {"a": [torch.zeros(1)], "b": "text"}
        self.layers = [nn.Linear(2, 2)]
        self.name, self.width = "mixed", 3


def kinds(tree):
    return {part.path: part.kind for part in tree.parts if part.kind != "module"}


def test_every_tensor_is_there_with_its_kind():
    registered = {"weight": "parameter", "mean": "buffer", "grid": "unsaved buffer"}
    others = ["gain", "constants.tau", "settings.scale", "table['a'][0]", "layers[0].weight", "layers[0].bias"]
    assert kinds(viz.module_tree(Mixed())) == registered | dict.fromkeys(others, "plain attribute")


def test_what_is_told_to_stay_behind_does_and_all_else_moves():
    before = viz.module_tree(Mixed())
    moved = copy.deepcopy(Mixed()).to("meta")
    after = viz.module_tree(moved)
    on = {part.path: str(part.device) for part in after.parts if part.device is not None}
    assert on == {path: "cpu" if path in before.left_behind else "meta" for path in kinds(before)}
    assert set(moved.state_dict()) == {path for path, kind in kinds(after).items() if kind in ("parameter", "buffer")}
    far = [part.path for part in after.parts if "not on meta" in part.notes]
    assert sorted(far) == sorted(before.left_behind) and after.home == torch.device("meta")


@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(3, 2),  # keeps its parameters in a list as well
        nn.TransformerEncoderLayer(8, 2),
        neuron.PLIF(shape=(3, 1, 1)),
        neuron.ALIF(),
        neuron.Izhikevich(),
        neuron.Recurrent(neuron.CubaLIF(tau_mem_inv=torch.full((3,), 100.0)), 3),
        snn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), neuron.Leaky(torch.tensor([0.9, 0.8]).view(2, 1, 1))),
    ],
    ids=lambda module: type(module).__name__,
)
def test_sound_modules_leave_nothing_behind(module):
    tree = viz.module_tree(module)
    assert tree.left_behind == ()
    registered = [*module.named_parameters(), *module.named_buffers()]
    assert sorted(kinds(tree)) == sorted(name for name, _ in registered)
    assert tree.bytes() == sum(t.numel() * t.element_size() for _, t in registered)


def test_a_shared_module_and_a_shared_parameter_count_once():
    layer = nn.Linear(3, 3)
    tree = viz.module_tree(nn.Sequential(layer, nn.ReLU(), layer))
    assert list(kinds(tree)) == ["0.weight", "0.bias"]
    assert [part.notes for part in tree.parts if part.path == "2"] == [("the same as 0",)]
    tied = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)])
    tied[1].weight = tied[0].weight
    tree = viz.module_tree(tied)
    assert tree.bytes() == 36 and tree.parts[-1].notes == ("the same as 0.weight",)


def test_lists_of_what_is_registered_and_boxes_that_contain_themselves():
    net = nn.Module()
    net.first = nn.Linear(2, 2)
    net.order, net.self_reference = [net.first, net.first], [net]
    assert viz.module_tree(net).left_behind == ()
    net.box = [torch.zeros(2)]
    net.box.append(net.box)
    assert viz.module_tree(net).left_behind == ("box[0]",)


def test_lazy_and_frozen_parameters():
    lazy, known = nn.LazyLinear(3), nn.Linear(2, 2)
    known.bias.requires_grad_(False)
    tree = viz.module_tree(nn.ModuleList([lazy, known]))
    parts = {part.path: part for part in tree.parts}
    assert parts["0.weight"].shape is None and parts["0.weight"].bytes == 0
    assert parts["0.weight"].notes == ("gets its shape in the first call",) and " ? " in repr(tree)
    assert parts["1.bias"].notes == ("frozen",) and parts["1.weight"].notes == ()


def state_paths(module, state):
    return [part.path for part in viz.module_tree(module, state).parts if part.kind == "state"]


def test_every_part_of_a_state_is_listed():
    net = snn.Sequential(nn.Linear(3, 4), neuron.CubaLIF(), neuron.Recurrent(neuron.LIF(), 4))
    _, state = net(torch.rand(2, 5, 3))
    assert state_paths(net, state) == ["state[1].v", "state[1].i", "state[2].neuron.v", "state[2].out"]
    assert viz.module_tree(net, state).bytes("state") == 4 * 5 * 4 * 4
    x = torch.rand(2, 5, 3)
    assert state_paths(net, {"one": neuron.LIF()(x)[1], "two": None}) == ["state['one'].v"]
    assert state_paths(net, x) == ["state"] and state_paths(net, None) == []


@pytest.fixture
def net():
    return models.FashionConvNet(4, 8, size=8)


def test_the_published_net_is_counted_on_meta():
    with torch.device("meta"):
        net = models.FashionConvNet()
    costs = viz.layer_costs(net, encode.repeat(torch.zeros(1, 1, 28, 28), 4))
    assert sum(layer.parameters for layer in costs) == 13_014_656 and sum(layer.neurons for layer in costs) == 127_498
    assert "13,014,656" in repr(costs).splitlines()[-1] and "<td style='text-align:left'>Conv2d" in costs._repr_html_()
    conv1, conv2, linear = (costs[i] for i in (0, 4, 9))
    assert conv1.flops == 2 * 9 * 128 * 784
    assert conv2.flops == 4 * 2 * 9 * 128 * 128 * 196
    assert linear.flops == 4 * 2 * 6272 * 2048
    assert [layer.runs for layer in costs[:4]] == [1, 1, 4, 4]
    assert costs[2].shape == (128, 28, 28) and costs[2].neurons == 128 * 28 * 28


def test_what_is_not_static_is_counted_at_each_step(net):
    x = encode.repeat(torch.zeros(2, 1, 8, 8), 3)
    once, often = viz.layer_costs(net, x), viz.layer_costs(net, x.contiguous())
    assert often[0].flops == 3 * once[0].flops and often[0].runs == 3 and often[4] == once[4]


def test_counting_runs_nothing_and_leaves_the_net_alone(net):
    before = {key: value.clone() for key, value in net.state_dict().items()}
    engines = [m.engine for m in net if isinstance(m, neuron.IF)]
    viz.layer_costs(net, torch.rand(3, 2, 1, 8, 8, requires_grad=True))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert [m.engine for m in net if isinstance(m, neuron.IF)] == engines
    assert net[0].weight.device.type == "cpu"


def test_what_is_in_a_module_is_further_to_the_right():
    module = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1, bias=False)))
    tree = viz.module_tree(module)
    names = [line.split("  par")[0].rstrip() for line in repr(tree).splitlines()[1:7]]
    assert names == ["Sequential", "  0: Linear", "    weight", "    bias", "  1: Sequential", "    0: Linear"]
    assert "\u2003\u2003\u2003weight<" in tree._repr_html_()
    assert [part.path for part in tree.parts][2] == "0.weight"
