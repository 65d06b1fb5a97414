"""Moving nests of tensors. The meta device stands for a GPU here: tensors do move there, without values."""

import dataclasses
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest
import torch
from torch import nn

from snnkit.device import move_tensors_to_device
from snnkit.device.move import _Overlaps as Overlaps
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


def storages(tensors):
    return {t.untyped_storage()._cdata for t in tensors}


def test_only_what_overlaps_shares_memory():
    big = torch.rand(1000)
    first, second, inside, behind = move([big[:3], big[5:8], big[6:7], big[8:]], META)
    assert len(storages([second, inside])) == 1 and len(storages([first, second, behind])) == 3
    assert first.untyped_storage().nbytes() == 12 and second.untyped_storage().nbytes() <= 32
    assert second.shape == (3,) and inside.storage_offset() == second.storage_offset() + 1
    apart = move([big[:3], big[5:8]], META, share=False)
    assert [t.untyped_storage().nbytes() for t in apart] == [12, 12]


def test_values_of_what_is_shared():
    data = torch.arange(40, dtype=torch.uint8)
    parts = [data[3:9], data[16:32].view(torch.float32), data[20:24], data[5:7], data[0:0], data[32:40:2]]
    overlaps = Overlaps(parts)
    moved = [overlaps.moved(part, torch.device("cpu"), False) for part in parts]
    assert [m is None for m in moved] == [False, False, False, False, True, True]
    for part, copied in zip(parts[:4], moved[:4], strict=True):
        assert torch.equal(copied.view(torch.uint8), part.view(torch.uint8)) and copied.dtype == part.dtype


def test_a_storage_that_is_no_multiple_of_a_dtype():
    data = torch.zeros(10, dtype=torch.uint8)
    whole, numbers = move([data, data[:8].view(torch.float32)], META)
    assert numbers.dtype == torch.float32 and numbers.shape == (2,) and len(storages([whole, numbers])) == 1


def test_conjugates_and_negatives_keep_their_sign():
    z = torch.randn(3, dtype=torch.complex64)
    parts = [z, z.conj(), z.conj().imag, z.imag]
    assert parts[2].is_neg()
    overlaps = Overlaps(parts)
    assert [overlaps.moved(part, META, False) is None for part in parts] == [False, True, True, False]


class Named(tuple):
    def __new__(cls, name, parts):
        self = super().__new__(cls, parts)
        self.name = name
        return self


class Stubborn(dict):
    def update(self, *args):
        raise RuntimeError("no")


@dataclasses.dataclass
class Unset:
    x: object
    later: object = dataclasses.field(init=False)


def test_odd_containers():
    moved = move([Named("a", [torch.rand(1)]), Unset(torch.rand(1)), torch.rand(3).max(0)], META)
    assert type(moved[0]) is Named and moved[0].name == "a" and moved[0][0].is_meta
    assert moved[1].x.is_meta and not hasattr(moved[1], "later")
    assert type(moved[2]) is torch.return_types.max and moved[2].values.is_meta
    with pytest.raises(TypeError, match="a Stubborn, which can't be rebuilt from its parts: no"):
        move(Stubborn(a=torch.rand(1)), META)


def test_a_nest_too_deep():
    nest = [torch.rand(1)]
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(ValueError, match="nested too deeply"):
        move(nest, META)
    while isinstance(nest, list):  # taken apart by hand: the garbage collector recurses, too
        nest = nest[0]


def test_a_parameter_keeps_its_gradient():
    parameter = nn.Parameter(torch.rand(3))
    parameter.grad = torch.rand(3)
    moved = move([parameter], META)[0]
    assert moved.grad.is_meta and moved.is_leaf and moved.requires_grad
