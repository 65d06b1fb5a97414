"""Batches: order, structure, and what happens when memory runs out."""

import warnings
from typing import NamedTuple

import pytest
import torch
from torch import nn

from snnkit import encode
from snnkit.device import batch_process, memory_limit, truncated
from snnkit.models import mlp


class Answer(NamedTuple):
    twice: torch.Tensor
    text: dict


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("batch_size", [1, 3, 10, 100, "auto"])
def test_order_and_completeness(batch_size):
    x = torch.arange(10.0).view(10, 1)
    assert torch.equal(batch_process(Twice(), x, batch_size=batch_size, progress=False), x * 2)


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


def test_other_errors_are_not_swallowed():
    net = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        batch_process(net, torch.rand(4, 5), batch_size=2, progress=False)
    assert net.training


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ((Twice(), torch.rand(0, 3)), ValueError, "inputs must have samples"),
        ((Twice(), 5), TypeError, "inputs must be"),
        ((Twice, torch.rand(3)), TypeError, "model must be a torch.nn.Module, but it is the class"),
        ((Twice(), torch.rand(3), "fn"), TypeError, "fn must be"),
        ((Twice(), torch.rand(3), None, 0), ValueError, "batch_size must be at least 1"),
        ((Twice(), torch.rand(3), None, "all"), TypeError, "batch_size must be an integer"),
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


@pytest.mark.parametrize("steps, error", [(0, ValueError), (1.0, TypeError)])
def test_truncated_refuses_at_once(steps, error):
    with pytest.raises(error, match="steps must be"):
        truncated(mlp((5, 4)), torch.rand(3, 2, 5), steps)


def test_images_are_not_taken_for_time():
    """Without a function, a spiking network would see the samples as steps, and batches would change the answer."""
    net, images = mlp((64, 20, 10)), torch.rand(6, 64)
    with pytest.raises(ValueError, match=r"fn must be given for a spiking network.*dimension 0 is time"):
        batch_process(net, images, progress=False)
    sequences = encode.repeat(images, 5)
    out = batch_process(net, sequences, batch_size=4, dim=1, out_dim=1, progress=False)
    torch.testing.assert_close(out, net(sequences)[0])
