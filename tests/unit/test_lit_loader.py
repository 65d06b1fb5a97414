"""Shared batches: every sample once an epoch, whatever the ranks, and gradients that are those of the whole."""

import itertools
import pickle

import pytest
import torch
from torch import nn

from snnkit.train.lit import Batch, SharedBatches
from snnkit.train.lit.data import seed_of


def shares(n=23, batch_size=6, world=1, **options):
    """The loaders of all ranks; each sample is its number."""
    samples = torch.arange(n, dtype=torch.float32)[:, None]
    labels = torch.arange(n)
    return [SharedBatches(samples, labels, batch_size, rank=rank, world=world, **options) for rank in range(world)]


def labels_of(loader):
    return [batch.labels.tolist() for batch in loader]


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("n", "batch_size"), [(23, 6), (24, 6), (1, 4), (6, 12), (29, 7)])
def test_no_sample_twice_and_none_left_out(world, n, batch_size):
    loaders = shares(n, batch_size, world)
    whole = labels_of(shares(n, batch_size)[0])
    for steps in zip(*loaders, strict=True):  # strict: the same number of batches on all ranks
        real = [batch.labels.tolist() for batch in steps if batch.weight > 0]
        sizes = [len(part) for part in real]
        assert max(sizes) - min(sizes) <= 1
        assert [label for part in real for label in part] == whole.pop(0)  # contiguous shares, in the order of ranks
        assert all(len(batch.labels) == 1 for batch in steps if batch.weight == 0)
        assert all(torch.equal(batch.samples[:, 0].long(), batch.labels) for batch in steps)
    assert not whole


def test_the_order_is_another_in_each_epoch_and_depends_on_nothing_else():
    loader, other = shares()[0], shares(world=2)[1]
    epochs = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        epochs.append([label for part in labels_of(loader) for label in part])
    assert len(set(map(tuple, epochs))) == 3 and all(sorted(order) == list(range(23)) for order in epochs)
    torch.manual_seed(99)
    other.set_epoch(2)
    assert set(labels_of(other)[0]) <= set(epochs[2][:6])
    assert [label for part in labels_of(shares(seed=1)[0]) for label in part] != epochs[0]
    loader.set_epoch(0)
    assert [label for part in labels_of(loader) for label in part] == epochs[0]


def test_without_shuffling_batches_are_views_in_order():
    loader = shares(shuffle=False)[0]
    first = next(iter(loader))
    assert labels_of(loader) == [list(range(i, min(i + 6, 23))) for i in range(0, 23, 6)]
    assert first.samples.data_ptr() == loader.samples.data_ptr()


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
    expected = labels_of(whole)
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
    assert begun + labels_of(second) == expected
    assert labels_of(second) == expected  # once only: the next walk is a whole one
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
    assert {label for loader in more for part in labels_of(loader) for label in part} == rest


def test_another_epoch_begins_at_its_beginning():
    loader = shares()[0]
    loader.load_state_dict(loader.state_dict() | {"batches": 4})
    loader.set_epoch(1)
    assert len(labels_of(loader)) == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 22}, "a run with samples in all 23; it can't be resumed with 22"),
        ({"batch_size": 8}, "batch_size 6 .of all ranks together.; it can't be resumed with 8"),
        ({"seed": 1}, "seed 0; it can't be resumed with 1"),
    ],
)
def test_a_place_in_another_run_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        shares(**changes)[0].load_state_dict(shares()[0].state_dict())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"rank": 2, "world": 2}, ValueError, "rank must be at most 1"),
        ({"rank": True}, TypeError, "rank must be an integer"),
        ({"world": 0}, ValueError, "world must be at least 1"),
        ({"accumulate": 0}, ValueError, "accumulate must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, ValueError, "one label each"),
        ({"samples": None}, TypeError, "must be a tensor"),
    ],
)
def test_bad_input(options, error, words):
    arguments = {"samples": torch.zeros(4, 2), "labels": torch.zeros(4, dtype=torch.int64), "batch_size": 2, **options}
    with pytest.raises(error, match=words):
        SharedBatches(**arguments)


def test_seeds_differ_from_their_neighbours():
    numbers = [seed_of("a", 0), seed_of("b", 0), seed_of("a", 1), seed_of("a", 0, 1), seed_of("a", 1, 0)]
    assert len(set(numbers)) == 5 and seed_of("a", 0) == numbers[0]
    assert all(0 <= number < 2**64 for number in numbers)
    assert isinstance(next(iter(shares()[0])), Batch)
