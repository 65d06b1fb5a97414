"""Batches: order, structure, what happens when memory runs out; nests of tensors, moved to meta in place of a GPU."""

import dataclasses
import types
import warnings
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from snnkit import encode
from snnkit.device import batch_process, memory_limit, move_tensors_to_device as move, truncated
from snnkit.device.batch_processing import is_out_of_memory
from snnkit.models import mlp
from snnkit.neuron import MembraneState


class Answer(NamedTuple):
    twice: torch.Tensor
    text: dict


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


def test_structures():
    x = torch.arange(10.0)

    def fn(model, batch):
        return Answer(model(batch), {"more": (batch + 1, batch - 1)})

    answer = batch_process(Twice(), x, fn, 4, progress=False)
    assert isinstance(answer, Answer) and torch.equal(answer.twice, x * 2)
    assert torch.equal(answer.text["more"][1], x - 1)


def test_no_gradients_and_every_mode_as_before():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9), nn.BatchNorm1d(2))
    net[2].eval()
    seen = []
    out = batch_process(net, torch.rand(5, 2), lambda m, x: seen.append(m[1].training) or m(x), 2, progress=False)
    assert not out.requires_grad and seen == [False] * 3
    assert net.training and net[1].training and not net[2].training


def test_out_of_memory_halves_the_batch_and_loses_nothing():
    net, images = mlp((64, 200, 10)), torch.rand(50, 64)

    def fn(net, batch):
        sizes.append(len(batch))
        return net(encode.repeat(batch, 20))[0].mean(0)

    sizes: list[int] = []
    expected = fn(net.eval(), images)
    sizes.clear()
    with memory_limit(700_000) as tracker, pytest.warns(UserWarning, match="50 samples at once; going on with 25"):
        found = batch_process(net, images, fn, 50, progress=False)
    assert torch.equal(found, expected) and tracker.peak <= 700_000
    assert sizes == [50, 25, 25]  # the first did not fit; nothing was skipped or done twice


def test_auto_stays_within_the_limit_at_once():
    net, images = mlp((64, 200, 10)), torch.rand(500, 64)
    with memory_limit(2_000_000), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = batch_process(net, images, lambda net, b: net(encode.repeat(b, 20))[0].mean(0), progress=False)
    assert found.shape == (500, 10)


@pytest.mark.parametrize("batch_size", [4, "auto"])
def test_a_sample_that_does_not_fit_says_what_it_needs(batch_size):
    x = torch.rand(8, 1000)
    with memory_limit(1000), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(MemoryError, match=r"single sample does not fit on cpu.*needed 4000 bytes"):
            batch_process(Twice(), x, batch_size=batch_size, progress=False)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_all_words_for_too_little_memory_are_known(error):
    assert is_out_of_memory(error) and not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))


def test_other_errors_are_not_swallowed():
    net = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        batch_process(net, torch.rand(4, 5), batch_size=2, progress=False)
    assert net.training


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ((Twice(), torch.rand(0, 3)), ValueError, "inputs must have samples"),
        ((Twice(), torch.rand(3), lambda m, b: b.sum()), ValueError, "3 samples of its batch along dimension 0"),
        ((Twice(), torch.rand(3), lambda m, b: [1]), TypeError, "a result of fn must be a tensor"),
    ],
)
def test_bad_arguments(arguments, error, match):
    with pytest.raises(error, match=match):
        batch_process(*arguments, progress=False)


def test_truncated_backpropagation_cuts_the_graph_and_keeps_the_state():
    net, x = mlp((5, 4, 3)), torch.rand(7, 2, 5) * 5
    expected, last = net(x)
    chunks, state = [], None
    for out, state in truncated(net, x, 3):
        chunks.append(out)
        out.sum().backward()
        assert all(not part.mem.requires_grad for part in state if part is not None)
    assert [len(chunk) for chunk in chunks] == [3, 3, 1] and torch.equal(torch.cat(chunks), expected)
    assert torch.equal(state[-1].mem, last[-1].mem)
    by_chunks = net[1].weight.grad.clone()
    net.zero_grad()
    net(x)[0].sum().backward()
    assert not torch.allclose(by_chunks, net[1].weight.grad)  # the past beyond a chunk is not blamed


def test_images_are_not_taken_for_time():
    """Without a function, a spiking network would see the samples as steps, and batches would change the answer."""
    net, images = mlp((64, 20, 10)), torch.rand(6, 64)
    with pytest.raises(ValueError, match=r"fn must be given for a spiking network.*dimension 0 is time"):
        batch_process(net, images, progress=False)
    sequences = encode.repeat(images, 5)
    out = batch_process(net, sequences, batch_size=4, dim=1, out_dim=1, progress=False)
    torch.testing.assert_close(out, net(sequences)[0])


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
        "deque": deque([x, 1], maxlen=5),
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
    assert moved["deque"] == deque([there, 1]) and moved["deque"].maxlen == 5
    assert not x.is_meta and nest["list"][0] is x  # the nest itself is left alone


@pytest.mark.parametrize("kind", [UserDict, UserList, types.MappingProxyType])
def test_containers_of_unknown_classes_are_named(kind):
    x = torch.rand(3)
    held = kind([x] if kind is UserList else {"a": x})
    with pytest.warns(UserWarning, match=f"tensors in a {kind.__name__} are not moved"):
        assert move([held], META)[0] is held
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        move([UserDict(a=1), "text", range(3), np.ones(2), iter([x])], META)


def test_what_is_there_is_not_copied():
    nest = {"a": [torch.rand(2), Frozen(torch.rand(1))], "b": ({torch.rand(1)}, "text"), "net": nn.Linear(2, 2)}
    assert move(nest, "cpu") is nest
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
