"""Moving nests of tensors. The meta device stands for a GPU here: tensors do move there, without values."""

import dataclasses
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest
import torch
from torch import nn

from snnkit.device import move_tensors_to_device
from snnkit.device import move_tensors_to_device as move
from snnkit.neuron import MembraneState

META = torch.device("meta")


class Pair(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    label: str = "a"
    derived: object = dataclasses.field(init=False, default=None)


@dataclasses.dataclass
class Plain:
    x: object


def test_every_kind_of_nest():
    x = torch.rand(3)
    nest = {
        "list": [x, 1, "text", None],
        "tuple": (x, (x,)),
        "named": Pair(x, MembraneState(x)),
        "frozen": Frozen(x),
        "plain": Plain([x]),
        "set": {x},
        "frozenset": frozenset([x]),
        3: OrderedDict(a=x),
        "default": defaultdict(list, a=x),
    }
    moved = move(nest, META)
    assert list(moved) == list(nest)
    there = moved["list"][0]
    assert there.is_meta and there.shape == (3,) and moved["list"][1:] == [1, "text", None]
    assert moved["tuple"][0] is moved["tuple"][1][0] is moved["named"].x is moved["named"].y.v is there
    assert isinstance(moved["named"].y, MembraneState) and isinstance(moved["frozen"], Frozen)
    assert moved["frozen"].x is moved["plain"].x[0] is there and moved["frozen"].label == "a"
    assert moved["set"] == {there} and moved["frozenset"] == frozenset([there])
    assert type(moved[3]) is OrderedDict and moved[3]["a"] is there
    assert moved["default"]["a"] is there and moved["default"]["new"] == []
    assert not x.is_meta and nest["list"][0] is x  # the nest itself is left alone


def test_what_is_there_is_not_copied():
    nest = {"a": [torch.rand(2), Frozen(torch.rand(1))], "b": ({torch.rand(1)}, "text"), "net": nn.Linear(2, 2)}
    assert move_tensors_to_device(nest, "cpu") is nest
    mixed = [torch.rand(2), torch.empty(2, device="meta")]
    moved = move(mixed, META)
    assert moved[1] is mixed[1] and moved[0] is not mixed[0]


def test_modules_move_in_place_and_share_their_parameters():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    weight = net[0].weight
    moved = move([weight, net, {"again": net}, Frozen(net[0].bias)], "cpu")
    assert moved[1] is net and moved[2]["again"] is net and moved[0] is net[1].weight and moved[3].x is net[0].bias
    assert move({"net": net}, META)["net"] is net and net[0].weight.is_meta


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", 3.5])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match="device"):
        move_tensors_to_device([torch.rand(1)], device)


def test_a_nest_too_deep():
    nest = [torch.rand(1)]
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(ValueError, match="nested too deeply, or holds itself"):
        move(nest, META)
    while isinstance(nest, list):  # taken apart by hand: the garbage collector recurses, too
        nest = nest[0]


def test_a_parameter_keeps_its_gradient():
    parameter = nn.Parameter(torch.rand(3))
    parameter.grad = torch.rand(3)
    moved = move([parameter], META)[0]
    assert moved.grad.is_meta and moved.is_leaf and moved.requires_grad
