"""Sequences as lists of events: the same as their frames, in the first layer of a network and in training."""

import functools

import pytest
import torch
from torch import nn

from snnkit import engine, event_lists, event_products, train
from snnkit.data import events
from snnkit.engine import CompilationFailed
from snnkit.event_lists import EventList
from snnkit.loss import count_cross_entropy
from snnkit.neuron import LI, LIF
from snnkit.nn import Sequential, TimeBatched

RECORDINGS, LABELS = events.record_digits("train", samples=12)
FIRST = {
    "linear": lambda: (nn.Flatten(), nn.Linear(512, 70)),
    "linear without bias": lambda: (nn.Flatten(), TimeBatched(nn.Linear(512, 5, bias=False))),
    "conv": lambda: (nn.Conv2d(2, 4, 3, padding=1, stride=2),),
}


def both(**how):
    listed = events.to_list(RECORDINGS, **how)
    return listed, events.collate(zip(RECORDINGS, LABELS, strict=True), **how)[0]


def results(net, x):
    out, _ = net(x)
    return [out, *torch.autograd.grad(out.square().sum(), list(net.parameters()))]


def assert_equal(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("how", [{"steps": 16}, {"steps": 1}, {"window": 7000}, {"window": 10**6}])
def test_it_holds_the_counts_of_frames(how):
    listed, frames = both(**how)
    assert torch.equal(listed.dense(), frames) and listed.shape == frames.shape
    assert frames.max() > 1  # some places stand twice
    assert torch.equal(EventList.of(frames).dense(), frames)


def test_recordings_of_other_lengths_end_with_empty_steps():
    short = events.Events(
        *(torch.tensor([1, 2]) for _ in "txy"), torch.tensor([True, False]), (16, 16), duration=20_000
    )
    pair = [short, RECORDINGS[0]]
    found = events.to_list(pair, window=20_000).dense()
    assert torch.equal(found, events.collate(zip(pair, [0, 1], strict=True), window=20_000)[0])
    assert not found[1:, 0].any()


@pytest.mark.parametrize("compiler", [True, False])
@pytest.mark.parametrize("first", FIRST)
def test_a_first_layer_makes_of_it_what_it_makes_of_frames(first, compiler, monkeypatch):
    if not compiler:
        monkeypatch.setattr(event_products, "kernels", lambda: None)
    listed, frames = both(steps=8)
    net = Sequential(*FIRST[first](), LIF()).double()
    assert_equal(results(net, listed), results(net, frames.double()))
    with torch.no_grad():
        assert_equal([net(listed)[0]], [net(frames.double())[0]])


@pytest.mark.parametrize("count", [1, 5, 32])
def test_frames_are_made_a_few_at_a_time(count, monkeypatch):
    listed, frames = both(steps=7)  # 84 frames, so that the last part is another one
    assert listed.inputs == 512 and 84 % 5 and 84 % 32
    monkeypatch.setattr(event_lists, "_PART", count * 512 * 8)
    net, seen = Sequential(nn.Conv2d(2, 4, 3, stride=2)).double(), []
    net[0].register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    found = results(net, listed)
    assert seen[:2] == [count, count] and sum(seen) == 2 * 84  # backward makes them again
    assert_equal(found, results(net, frames.double()))


def test_a_hook_sees_frames_and_changes_what_comes_out():
    listed, frames = both(steps=4)
    net = Sequential(nn.Flatten(), nn.Linear(512, 3)).double()
    net[1].register_forward_hook(lambda module, inputs, out: out * inputs[0].sum(-1, keepdim=True))
    assert_equal(results(net, listed), results(net, frames.double()))


def test_second_derivatives_and_weights_that_are_not_finite():
    listed, frames = both(steps=4)
    net = Sequential(nn.Flatten(), nn.Linear(512, 3)).double()
    found = []
    for x in (listed, frames.double()):
        (d,) = torch.autograd.grad(net(x)[0].pow(3).sum(), net[1].weight, create_graph=True)
        found.append([d, torch.autograd.grad(d.square().sum(), net[1].weight)[0]])
    assert_equal(*found)
    with torch.no_grad():
        net[1].weight[1, 7] = float("inf")
    out = net(listed)[0]
    assert torch.isinf(out[..., 1]).any() and torch.isfinite(out[..., 0]).all()


def test_training_learns_as_from_frames():
    histories = []
    for encode in (functools.partial(events.to_list, steps=6), lambda part: dense(part, steps=6)):
        torch.manual_seed(0)
        net = Sequential(nn.Flatten(), nn.Linear(512, 10), LI())
        history = train.fit(net, (RECORDINGS, LABELS), encode=encode, loss=count_cross_entropy, epochs=3, batch_size=4)
        histories.append(history.train_loss)
    assert histories[0] == pytest.approx(histories[1], rel=1e-4)


def dense(recordings, steps):
    return events.to_list(recordings, steps=steps).dense()


BAD = {
    "starts must go from 0 to 3": ([0, 1, 2], [0, 1, 2]),
    "and never fall": ([0, 3, 2, 2, 3], [0, 1, 2]),
    r"starts must have T B \+ 1 = 5 numbers, but it has 3": ([0, 1, 3], [0, 1, 2]),
    "places must be from 0 to 5, but they are from 0 to 6": ([0, 1, 1, 2, 3], [0, 1, 6]),
    "places must be from 0 to 5, but they are from -1 to 2": ([0, 1, 1, 2, 3], [0, -1, 2]),
    "places must be a tensor of integers": ([0, 1, 1, 2, 3], [0.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("message", BAD)
def test_a_list_that_can_not_be_is_refused_by_name(message):
    starts, places = map(torch.tensor, BAD[message])
    shape = (2, 2, 6) if "from 0 to 3" not in message else (2, 1, 6)
    with pytest.raises((TypeError, ValueError), match=message):
        EventList(starts, places, shape)


@pytest.mark.parametrize("inference", [False, True])
def test_a_list_that_has_been_changed_is_checked_again(inference):
    with torch.inference_mode(inference):
        listed = EventList(torch.tensor([0, 1, 1, 2, 3]), torch.tensor([0, 4, 2]), (2, 2, 6))
        net = Sequential(nn.Linear(6, 3))
        listed.places += 1
        torch.testing.assert_close(net(listed)[0], net(listed.dense())[0])
        listed.places += 1
        with pytest.raises(ValueError, match="places must be from 0 to 5, but they are from 2 to 6"):
            net(listed)


@pytest.mark.parametrize("compiler", [True, False])
def test_explain_shows_it(compiler, monkeypatch):
    if not compiler:
        monkeypatch.setattr(event_products, "kernels", lambda: None)
    listed, frames = both(steps=8)
    net = Sequential({"flat": nn.Flatten(), "first": nn.Linear(512, 70), "lif": LIF(), "last": nn.Linear(70, 3)})
    explained = engine.explain(net, listed)
    first, last = explained.products
    assert first[:4] == ("first", (96, 512), (70, 512), "events" if compiler else "PyTorch")
    assert first.reason.startswith(f"a list of events, {frames.sum() / frames.numel():.1%} of all places")
    assert last.layer == "last" and [row.layer for row in explained] == ["lif"]
    (row,) = engine.explain(Sequential(nn.Conv2d(2, 4, 3)), listed).products
    assert (row.shape, row.way) == ((96, 2, 16, 16), "PyTorch") and "frames" in row.reason
    with pytest.raises(TypeError, match="x of LIF must be a tor"):
        engine.explain(Sequential(LIF()), listed)


def test_what_can_not_take_it_says_what_can():
    listed, _ = both(steps=4)
    with pytest.raises(TypeError, match=r"module 0 of Sequential must be Linear, Conv2d or Flatten .* is BatchNorm2d"):
        Sequential(nn.BatchNorm2d(2))(listed)
    with pytest.raises(ValueError, match=r"\(Linear\) must be \[T, B, 512\], .*; put torch.nn.Flatten\(\) before it"):
        Sequential(nn.Linear(512, 3))(listed)
    with pytest.raises(ValueError, match=r"\(Conv2d\) must be \[T, B, 1, H, W\]"):
        Sequential(nn.Conv2d(1, 3, 3))(listed)
    with pytest.raises(TypeError, match="x of LIF must be a tor"):
        Sequential(LIF())(listed)
    with pytest.raises(ValueError, match="exactly one of steps and window"):
        events.to_list(RECORDINGS)
    with pytest.raises(ValueError, match="whole numbers from 0 on"):
        EventList.of(torch.full((2, 3, 4), 0.5))
    with pytest.raises(ValueError, match="at least one recording"):
        events.to_list([], steps=3)


@pytest.mark.refused
def test_a_kernel_that_is_refused_is_said_and_left_to_pytorch(monkeypatch):
    def refused(*arguments):
        raise CompilationFailed("no such operation")

    event_lists._warn_of_refusal.cache_clear()
    monkeypatch.setattr(event_lists, "_on_triton", lambda x: True)
    monkeypatch.setattr(event_lists, "sum_rows", refused)
    listed, frames = both(steps=4)
    net = Sequential(nn.Flatten(), nn.Linear(512, 3)).double()
    with pytest.warns(UserWarning, match=r"left to PyTorch's operations: triton failed \(no such operation\)"):
        found = results(net, listed)
    assert_equal(found, results(net, frames.double()))
