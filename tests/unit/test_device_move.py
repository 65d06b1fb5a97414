"""Moving nests of tensors. The meta device stands for a GPU here: tensors do move there, without values."""

import dataclasses
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest
import torch
from torch import nn

from snnkit.device import move_tensors_to_device
from snnkit.device.move import move
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
    for layer in net:
        layer.register_buffer("table", net[0].weight.detach() if layer is net[0] else net[0].table)
    weight = net[0].weight
    moved = move([weight, net, {"again": net}, Frozen(net[0].bias), net[1].table], META)
    assert moved[1] is net and moved[2]["again"] is net
    assert net[0].weight is net[1].weight is moved[0] and moved[0].is_meta
    assert moved[3].x is net[0].bias and net[0].table is net[1].table is moved[4] and moved[4].is_meta


def test_a_parameter_without_a_module_stays_one():
    parameter = nn.Parameter(torch.rand(3), requires_grad=False)
    moved = move([parameter, parameter], META)
    assert isinstance(moved[0], nn.Parameter) and not moved[0].requires_grad and moved[0] is moved[1]


def test_views_of_one_memory_stay_views_of_one_memory():
    base = torch.rand(4, 6)
    lonely = torch.rand(100)[:3]
    moved = move((base, base[1:, ::2], base.t(), base.view(torch.int32), lonely), META)
    storages = {t.untyped_storage()._cdata for t in moved[:4]}
    assert len(storages) == 1
    assert [t.stride() for t in moved[:3]] == [(6, 1), (6, 2), (1, 6)] and moved[1].storage_offset() == 6
    assert moved[3].dtype == torch.int32
    assert moved[4].untyped_storage().nbytes() == 12  # not the hundred that it was cut from


def test_gradients_find_their_way_back():
    x = torch.rand(3, requires_grad=True)
    moved = move([x * 2, (x * 2)[1:]], META)
    assert all(t.requires_grad and t.grad_fn is not None for t in moved)


def test_containers_that_are_shared_stay_shared():
    inner = [torch.rand(2)]
    first, second = move([inner, {"again": inner}], META)
    assert first is second["again"] and first is not inner


def test_cycles_are_named():
    loop = [torch.rand(2)]
    loop.append({"back": (loop,)})
    with pytest.raises(ValueError, match=r"obj has a cycle: obj\[1\]\['back'\]\[0\] is a list that holds itself"):
        move_tensors_to_device(loop, "cpu")


def test_other_objects_are_handed_back():
    thing = object()
    assert move_tensors_to_device(thing, "cpu") is thing and move_tensors_to_device(Frozen, "cpu") is Frozen


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", 3.5])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match="device"):
        move_tensors_to_device([torch.rand(1)], device)


def test_bad_flag():
    with pytest.raises(TypeError, match="non_blocking must be True or False"):
        move_tensors_to_device([], "cpu", non_blocking=1)
