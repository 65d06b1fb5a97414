"""Data modules: what they hold, how ranks share batches, what is held back; named data sets and one's own."""

import types

import pytest
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler

from snnkit import data, models
from snnkit.neuron import Leaky
from snnkit.nn import Recurrent, Sequential
from snnkit.train import lit

from .lit_runs import images, module, trainer, weights

pytestmark = pytest.mark.filterwarnings("ignore")


def attached(whole, rank=0, world=1, accumulate=1):
    """The module as one rank's trainer has it."""
    strategy = types.SimpleNamespace(root_device=torch.device("cpu"))
    whole.trainer = types.SimpleNamespace(
        global_rank=rank, world_size=world, accumulate_grad_batches=accumulate, callbacks=[], strategy=strategy
    )
    return whole


def labels_of(loader):
    return [label for batch in loader if batch.weight for label in batch.labels.tolist()]


def test_named_data_sets():
    digits = lit.DigitsDataModule(batch_size=32)
    train, test = digits.load()
    assert torch.equal(train[0], data.load("digits")[0]) and torch.equal(test[1], data.load("digits", "test")[1])
    assert len(digits.train_dataloader()) == -(-1442 // 32) and len(digits.test_dataloader()) == -(-355 // 32)
    few = lit.DigitsDataModule(batch_size=32, samples=50)
    assert labels_of(few.train_dataloader()) != sorted(labels_of(few.train_dataloader()))
    assert sorted(labels_of(few.train_dataloader())) == sorted(train[1][:50].tolist())


@pytest.mark.parametrize(("kind", "name"), [(lit.MNISTDataModule, "mnist"), (lit.FashionMNISTDataModule, "fashion")])
def test_one_rank_downloads_and_all_read(monkeypatch, kind, name, tmp_path):
    calls, there = [], []

    def load(asked, split, *, root, download):
        calls.append((asked, split, root, download))
        there.append(split)
        return images(20, 28)

    monkeypatch.setattr(data, "load", load)
    monkeypatch.setattr(data, "available", lambda asked, root: len(there) >= 2)
    whole = kind(root=tmp_path, batch_size=10)
    whole.prepare_data()
    assert calls == [(name, split, tmp_path, True) for split in ("train", "test")]
    whole.prepare_data()  # they are there now
    assert len(calls) == 2
    whole.setup()
    whole.setup()
    assert len(calls) == 4 and whole.train_dataloader().samples.shape == (20, 1, 28, 28)
    never = kind(root=tmp_path, batch_size=10, download=False)
    there.clear()
    never.prepare_data()
    never.setup()
    assert calls[4:] == [(name, split, tmp_path, False) for split in ("train", "test")]


def test_batch_sizes_of_a_rank_and_of_all():
    parts = [attached(lit.TensorDataModule(images(), batch_size=4), rank, 3).train_dataloader() for rank in range(3)]
    assert {len(part) for part in parts} == {-(-40 // 12)}
    assert sorted(label for part in parts for label in labels_of(part)) == sorted(images()[1].tolist())
    parts = [
        attached(lit.TensorDataModule(images(), global_batch_size=6), rank, 3).train_dataloader() for rank in range(3)
    ]
    assert {len(part) for part in parts} == {7} and {len(next(iter(part)).labels) for part in parts} == {2}
    with pytest.raises(ValueError, match=r"global_batch_size must be a multiple .* ranks, 3, .*but it is 8"):
        attached(lit.TensorDataModule(images(), global_batch_size=8), 0, 3).train_dataloader()


def test_evaluation_takes_each_sample_once_on_any_number_of_ranks():
    test = images(11, seed=1)
    for options in ({"global_batch_size": 6}, {"batch_size": 2}, {"batch_size": 4, "eval_batch_size": 5}):
        parts = []
        for rank in range(3):
            whole = attached(lit.TensorDataModule(images(), test, **options), rank, 3)
            parts.append(whole.test_dataloader())
        # All ranks together: batches of 6, 6 and 15.
        assert {len(part) for part in parts} == {1 if "eval_batch_size" in options else 2}
        assert sorted(label for part in parts for label in labels_of(part)) == sorted(test[1].tolist())


def test_samples_are_held_back_once_and_for_all():
    whole = lit.TensorDataModule(images(), images(5, seed=1), batch_size=8, validation=10)
    train, held = whole.train_dataloader(), whole.val_dataloader()
    assert (len(train.labels), len(held.labels)) == (30, 10)
    keys = {tuple(x.flatten().tolist()) for x in (*train.samples, *held.samples)}
    assert len(keys) == 40
    again = lit.TensorDataModule(images(), batch_size=8, validation=10).val_dataloader()
    other = lit.TensorDataModule(images(), batch_size=8, validation=10, seed=1).val_dataloader()
    assert torch.equal(again.samples, held.samples) and not torch.equal(other.samples, held.samples)
    own = lit.TensorDataModule(images(), batch_size=8, validation=images(7, seed=3))
    assert len(own.val_dataloader().labels) == 7 and len(own.train_dataloader().labels) == 40


def test_without_validation_of_its_own_it_is_that_of_the_test():
    whole = lit.TensorDataModule(images(), images(5, seed=1), batch_size=8)
    assert torch.equal(whole.val_dataloader().labels, whole.test_dataloader().labels)


def test_training_data_alone():
    whole = lit.TensorDataModule(images(), batch_size=8)
    run = trainer()
    run.fit(module(), whole)
    assert "train/loss" in run.callback_metrics and "val/loss" not in run.callback_metrics
    with pytest.raises(Exception, match="test_dataloader"):
        trainer().test(module(), whole)


def test_in_the_order_of_the_data():
    whole = lit.TensorDataModule(images(), batch_size=8, shuffle=False)
    assert labels_of(whole.train_dataloader()) == images()[1].tolist()


def test_gradients_are_accumulated_over_as_many_batches_throughout():
    whole = lit.TensorDataModule(images(), batch_size=8)
    assert attached(whole, accumulate=4).train_dataloader().accumulate == 4
    scheduler = GradientAccumulationScheduler({0: 1, 1: 2})
    with pytest.raises(ValueError, match="scheduling of GradientAccumulationScheduler must be constant"):
        trainer(scheduler, max_epochs=2).fit(module(), lit.TensorDataModule(images(), batch_size=8))


@pytest.mark.slow
def test_xor_in_time():
    """What a learner brings: sequences of one's own, a memory, two classes."""
    spikes, labels = data.xor_in_time(240, 12, delay=3, units=4, cue_steps=2, rate=1.0, seed=1)
    whole = lit.TensorDataModule((spikes.transpose(0, 1), labels), validation=40, batch_size=20)
    torch.manual_seed(0)
    net = Sequential(
        torch.nn.Linear(8, 24),
        Recurrent(Leaky(0.9, engine="eager"), 24),
        torch.nn.Linear(24, 2),
        Leaky(0.95, engine="eager"),
    )
    made = lit.SpikingModule(net, encoder="sequence", lr=1e-2, loss="count_cross_entropy", rates=False)
    run = trainer(max_epochs=25)
    run.fit(made, whole)
    assert run.callback_metrics["val/acc"] > 0.9


def test_frames_of_events():
    whole = lit.EventDataModule(steps=6, size=10, camera={"noise": 0.0}, batch_size=32)
    recordings, labels = data.events.record_digits("train", size=10, noise=0.0)
    frames = data.events.frames_of(recordings, steps=6)
    loader = whole.train_dataloader()
    assert torch.equal(loader.samples, frames) and torch.equal(loader.labels, labels)
    assert whole.test_dataloader().samples.shape == (355, 6, 2, 10, 10)
    few = (frames[:30], labels[:30])
    own = lit.TensorDataModule(few, few, batch_size=10)
    made = module(models.ConvNet(2, 10, widths=(2, 4, 8), engine="eager"), encoder="sequence")
    before = weights(made)
    trainer().fit(made, own)
    assert not torch.equal(weights(made), before)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, "batch_size, of each rank, or global_batch_size.* must be given.* None and None"),
        ({"batch_size": 4, "global_batch_size": 8}, ValueError, "they are 4 and 8"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"global_batch_size": 2.0}, TypeError, "global_batch_size must be an integer"),
        ({"batch_size": 4, "eval_batch_size": 0}, ValueError, "eval_batch_size must be at least 1"),
        ({"batch_size": 4, "validation": 0}, ValueError, "validation must be at least 1"),
        ({"batch_size": 4, "validation": images()[0]}, TypeError, r"validation must be a pair \(samples, labels\)"),
        ({"batch_size": 4, "shuffle": 1}, TypeError, "shuffle must be True or False"),
        ({"batch_size": 4, "seed": -1}, ValueError, "seed must be at least 0"),
        ({"batch_size": 4, "train": 3}, TypeError, r"train must be a pair \(samples, labels\), but it is of type int"),
        ({"batch_size": 4, "test": (images()[0], images()[1][:3])}, ValueError, "test: the images must be"),
        (
            {"batch_size": 4, "train": (images()[0].int(), images()[1])},
            TypeError,
            "samples of train must be uint8 or floating point, but their dtype is torch.int32",
        ),
    ],
)
def test_bad_input(options, error, words):
    with pytest.raises(error, match=words):
        lit.TensorDataModule(**{"train": images(), **options})


def test_bad_input_of_the_others():
    with pytest.raises(ValueError, match=r"validation must be less than 40, .* but it is 40"):
        lit.TensorDataModule(images(), batch_size=4, validation=40).setup()
    with pytest.raises(ValueError, match="samples must be at most 1442, all of digits, but it is 2000"):
        lit.DigitsDataModule(batch_size=4, samples=2000).setup()
    with pytest.raises(ValueError, match="samples must be at least 1"):
        lit.DigitsDataModule(batch_size=4, samples=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'batchsize'"):
        lit.DigitsDataModule(batchsize=4)
