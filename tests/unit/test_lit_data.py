"""Batches that ranks share (every sample once an epoch, gradients that are those of the whole), and data modules."""

import itertools
import pickle
import types

import pytest
import torch
from torch import nn

from snnkit import data
from snnkit.train import lit
from snnkit.train.lit import SharedBatches

from .lit_runs import images

pytestmark = pytest.mark.filterwarnings("ignore")


def shares(n=23, batch_size=6, world=1, **options):
    """The loaders of all ranks; each sample is its number."""
    samples = torch.arange(n, dtype=torch.float32)[:, None]
    labels = torch.arange(n)
    return [SharedBatches(samples, labels, batch_size, rank=rank, world=world, **options) for rank in range(world)]


def batches_of(loader):
    return [batch.labels.tolist() for batch in loader]


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("n", "batch_size"), [(23, 6), (24, 6), (1, 4), (6, 12), (29, 7)])
def test_no_sample_twice_and_none_left_out(world, n, batch_size):
    loaders = shares(n, batch_size, world)
    whole, smallest = batches_of(shares(n, batch_size)[0]), n
    for steps in zip(*loaders, strict=True):  # strict: the same number of batches on all ranks
        real = [batch.labels.tolist() for batch in steps if batch.weight > 0]
        sizes = [len(part) for part in real]
        assert max(sizes) - min(sizes) <= 1
        assert [label for part in real for label in part] == whole.pop(0)  # contiguous shares, in the order of ranks
        assert all(len(batch.labels) == 1 for batch in steps if batch.weight == 0)
        smallest = min(smallest, *(len(batch.labels) for batch in steps))
        assert all(torch.equal(batch.samples[:, 0].long(), batch.labels) for batch in steps)
    assert not whole
    assert smallest == loaders[0].smallest_share(len(loaders[0]))


def test_the_order_is_another_in_each_epoch_and_depends_on_nothing_else():
    loader, other = shares()[0], shares(world=2)[1]
    epochs = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        epochs.append([label for part in batches_of(loader) for label in part])
    assert len(set(map(tuple, epochs))) == 3 and all(sorted(order) == list(range(23)) for order in epochs)
    torch.manual_seed(99)
    other.set_epoch(2)
    assert set(batches_of(other)[0]) <= set(epochs[2][:6])
    assert [label for part in batches_of(shares(seed=1)[0]) for label in part] != epochs[0]
    loader.set_epoch(0)
    assert [label for part in batches_of(loader) for label in part] == epochs[0]


@pytest.mark.parametrize(("world", "accumulate"), list(itertools.product([1, 2, 3, 5], [1, 2, 3])))
def test_the_mean_of_all_ranks_gradients_is_that_of_the_update(world, accumulate):
    n, batch_size = 23, 5  # three samples in the last batch, and fewer batches in the last update
    inputs, targets = torch.randn(n, 4, dtype=torch.float64), torch.arange(n) % 3
    net = nn.Linear(4, 3, dtype=torch.float64)

    def gradient(batch, factor):
        loss = nn.functional.cross_entropy(net(inputs[batch]), targets[batch])
        return torch.autograd.grad(loss * factor, net.weight)[0]

    batches = list(zip(*shares(n, batch_size, world, accumulate=accumulate), strict=True))
    for update in range(0, len(batches), accumulate):
        micro = batches[update : update + accumulate]
        rows = torch.cat([batch.labels for ranks in micro for batch in ranks if batch.weight > 0])
        # As Lightning: each loss divided by ``accumulate``, gradients averaged over ranks and added over batches.
        got = sum(gradient(batch.labels, batch.weight / accumulate) / world for ranks in micro for batch in ranks)
        torch.testing.assert_close(got, gradient(rows, 1.0), rtol=1e-12, atol=1e-14)


def test_it_goes_on_where_it_was():
    whole = shares()[0]
    whole.set_epoch(3)
    expected = batches_of(whole)
    first = shares()[0]
    first.set_epoch(3)
    walk = iter(first)
    begun = [next(walk).labels.tolist() for _ in range(2)]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert state["epoch"] == 3 and state["batches"] == 2

    second = shares()[0]
    second.load_state_dict(state)
    iter(second)  # an iterator that is made and not used, as Lightning does, takes nothing away
    second.set_epoch(3)
    assert begun + batches_of(second) == expected
    assert batches_of(second) == expected  # once only: the next walk is a whole one
    assert second.state_dict()["batches"] == len(second) == 4


def test_another_number_of_ranks_goes_on_with_the_rest():
    first = shares(world=2)
    walks = [iter(loader) for loader in first]
    for walk in walks:
        next(walk)
    rest = {label for walk in walks for batch in walk for label in batch.labels.tolist()}
    more = shares(world=3)
    state = shares(world=2)[0].state_dict() | {"batches": 1}
    for loader in more:
        loader.load_state_dict(state)
    assert {label for loader in more for part in batches_of(loader) for label in part} == rest


def attached(whole, rank=0, world=1, accumulate=1):
    """The module as one rank's trainer has it."""
    strategy = types.SimpleNamespace(root_device=torch.device("cpu"))
    counts = {"global_rank": rank, "world_size": world, "accumulate_grad_batches": accumulate}
    whole.trainer = types.SimpleNamespace(**counts, strategy=strategy, callbacks=[])
    whole.setup()
    return whole


def labels_of(loader):
    return [label for batch in loader if batch.weight for label in batch.labels.tolist()]


def test_named_data_sets():
    digits = attached(lit.DigitsDataModule(global_batch_size=32))
    train, test = digits.load()
    assert torch.equal(train[0], data.load("digits")[0]) and torch.equal(test[1], data.load("digits", "test")[1])
    assert len(digits.train_dataloader()) == -(-1442 // 32) and len(digits.test_dataloader()) == 2
    few = attached(lit.DigitsDataModule(global_batch_size=32, samples=50)).train_dataloader()
    assert labels_of(few) != train[1][:50].tolist() and sorted(labels_of(few)) == sorted(train[1][:50].tolist())


@pytest.mark.parametrize(("kind", "name"), [(lit.MNISTDataModule, "mnist"), (lit.FashionMNISTDataModule, "fashion")])
def test_one_rank_downloads_and_all_read(monkeypatch, kind, name, tmp_path):
    calls, there = [], []

    def load(wanted, split, *, root, download):
        calls.append((wanted, split, root, download))
        there.append(split)
        return images(20, 28)

    monkeypatch.setattr(data, "load", load)
    monkeypatch.setattr(data, "available", lambda wanted, root: len(there) >= 2)
    whole = kind(root=tmp_path, global_batch_size=10)
    whole.prepare_data()
    assert calls == [(name, split, tmp_path, True) for split in ("train", "test")]
    whole.prepare_data()  # they are there now
    assert len(calls) == 2
    attached(whole).setup()
    assert len(calls) == 4 and whole.train_dataloader().samples.shape == (20, 1, 28, 28)
    never = kind(root=tmp_path, global_batch_size=10, download=False)
    there.clear()
    never.prepare_data()
    assert len(calls) == 4


def test_ranks_share_a_batch():
    wholes = [lit.TensorDataModule(images(), global_batch_size=6) for _ in range(3)]
    parts = [attached(whole, rank, 3, accumulate=4).train_dataloader() for rank, whole in enumerate(wholes)]
    assert {len(part) for part in parts} == {7} and {len(next(iter(part)).labels) for part in parts} == {2}
    assert sorted(label for part in parts for label in labels_of(part)) == sorted(images()[1].tolist())
    assert parts[0].accumulate == 4
    with pytest.raises(ValueError, match=r"global_batch_size must be a multiple .* ranks, 3, .*but it is 8"):
        attached(lit.TensorDataModule(images(), global_batch_size=8), 0, 3).train_dataloader()


def test_evaluation_takes_each_sample_once_on_any_number_of_ranks(monkeypatch):
    monkeypatch.setattr("snnkit.train.lit.data._EVALUATED", 2)
    test = images(11, seed=1)
    wholes = [lit.TensorDataModule(images(), test, global_batch_size=6) for _ in range(3)]
    parts = [attached(whole, rank, 3).test_dataloader() for rank, whole in enumerate(wholes)]
    assert {len(part) for part in parts} == {2}  # all ranks together: batches of 6 and 5
    assert sorted(label for part in parts for label in labels_of(part)) == sorted(test[1].tolist())


def test_samples_are_held_back_once_and_for_all():
    def held_back(**options):
        return attached(lit.TensorDataModule(images(), global_batch_size=8, validation=10, **options))

    whole = held_back()
    train, held = whole.train_dataloader(), whole.val_dataloader()
    assert (len(train.labels), len(held.labels)) == (30, 10)
    assert len({tuple(x.flatten().tolist()) for x in (*train.samples, *held.samples)}) == 40
    assert torch.equal(held_back().val_dataloader().samples, held.samples)
    assert not torch.equal(held_back(seed=1).val_dataloader().samples, held.samples)


def whole_of(**options):
    return lit.TensorDataModule(**{"train": images(), "global_batch_size": 4, **options}).setup()


def resumed(**changes):
    return shares(**changes)[0].load_state_dict(shares()[0].state_dict())


@pytest.mark.parametrize(
    ("make", "options", "error", "words"),
    [
        (resumed, {"n": 22}, ValueError, "samples must be 23, as in the run to resume, but it is 22"),
        (resumed, {"batch_size": 8}, ValueError, "batch_size must be 6, as in the run to resume, but it is 8"),
        (resumed, {"seed": 1}, ValueError, "seed must be 0, as in the run to resume, but it is 1"),
        (whole_of, {"validation": 40}, ValueError, "validation must be less than 40, .* but it is 40"),
        (whole_of, {"test": (images()[0], images()[1][:3])}, ValueError, "test must have one target for each"),
    ],
)
def test_bad_input(make, options, error, words):
    with pytest.raises(error, match=words):
        make(**options)
