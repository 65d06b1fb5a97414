"""Data of every form in ``fit`` and ``evaluate``: pairs, data sets, loaders, recordings; targets; metrics."""

import functools
import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn as torch_nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from snnkit import data, encode, loss, neuron, nn, train
from snnkit.data import sounds
from snnkit.data.events import to_frames
from snnkit.train.batches import source_of

N, FEATURES, STEPS = 60, 6, 5
REPEAT = functools.partial(encode.repeat, steps=STEPS)


def table(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(N, FEATURES, generator=generator)
    return x, (x[:, :3].sum(1) > x[:, 3:].sum(1)).long()


def classifier(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(torch_nn.Linear(FEATURES, 8), neuron.LIF(), torch_nn.Linear(8, 2), neuron.LIF())


def regressor(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(torch_nn.Linear(FEATURES, 8), neuron.LIF(), torch_nn.Linear(8, outputs))


def fit(given, model=None, **options):
    model = model or classifier()
    settings = {"encode": REPEAT, "loss": loss.rate_mse, "epochs": 2, "seed": 3, "progress": False, "device": "cpu"}
    return model, train.fit(model, given, **settings | options)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Table(Dataset):
    """Single samples, with noise from PyTorch's generator."""

    def __init__(self, noise=0.0):
        self.x, self.y = table()
        self.noise = noise

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i] + self.noise * torch.rand(FEATURES), self.y[i]


class Tonic:
    """Looks like a data set, without being one of PyTorch."""

    def __init__(self):
        self.items = Table()

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Pairs(Dataset):
    """Any samples and targets, one by one."""

    def __init__(self, targets, samples):
        self.items = list(zip(samples, targets, strict=False))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Endless(IterableDataset):
    def __iter__(self):
        yield from zip(*table(), strict=True)


class Batches:
    """An iterable without a length."""

    def __iter__(self):
        x, y = table()
        yield from zip(x.split(16), y.split(16), strict=True)


# -- forms -------------------------------------------------------------------------------------------------------------


def test_the_same_samples_in_any_form_train_the_same_network():
    x, y = table()
    batches = list(zip(x.split(16), y.split(16), strict=True))
    expected, history = fit(batches)
    for form in (
        tuple(batches),
        DataLoader(TensorDataset(x, y), 16),
        DataLoader(Table(), 16),
        Batches(),
        [(a.numpy(), b.numpy()) for a, b in batches],
        [(a, b.tolist()) for a, b in batches],
        [(a, b.int()) for a, b in batches],
    ):
        model, again = fit(form)
        assert torch.equal(weights(model), weights(expected)), form
        assert again.train_loss == history.train_loss and again.train_accuracy == history.train_accuracy


def test_whole_sets_are_held_on_the_device_and_shuffled_by_the_seed():
    x, y = table()
    expected, _ = fit((x, y), batch_size=16)
    for form in ((x.numpy(), y.numpy()), [x, y], TensorDataset(x, y), (x, y.to(torch.int32)), (x, y.tolist())):
        model, _ = fit(form, batch_size=16)
        assert torch.equal(weights(model), weights(expected))
    assert not torch.equal(weights(fit((x, y), batch_size=16, seed=4)[0]), weights(expected))


@pytest.mark.parametrize("form", [Table, Tonic])
def test_a_data_set_is_read_in_batches_of_the_given_size(form):
    sizes = []
    _, history = fit(form(), batch_size=25, on_batch=lambda info: sizes.append((info.samples, info.batches)))
    assert sizes == [(25, 3), (25, 3), (10, 3)] * 2
    assert history.epochs == 2


def test_batches_of_a_loader_are_accumulated_as_those_of_a_pair():
    x, y = table()
    batches = list(zip(x.split(10), y.split(10), strict=True))
    whole, _ = fit([(x[:40], y[:40]), (x[40:], y[40:])], optimizer=None)
    parts, _ = fit(batches, accumulate=4)
    assert torch.allclose(weights(parts), weights(whole), atol=1e-6)
    infos = []
    fit(Batches(), accumulate=3, on_batch=infos.append)
    # Without a length the number of updates is known after the first epoch.
    assert [info.batches for info in infos] == [None, None, 2, 2] and [info.samples for info in infos[:2]] == [48, 12]


def test_recordings_are_lists_for_encode():
    recordings, labels = _recordings()
    seen = []

    def frames(batch):
        seen.append(len(batch))
        return torch.stack([to_frames(one, steps=STEPS) for one in batch], 1).flatten(2)

    torch.manual_seed(0)
    net = nn.Sequential(torch_nn.Linear(2 * 4 * 4, 2), neuron.LIF())
    _, history = fit((recordings, labels), net, encode=frames, batch_size=4)
    assert set(seen) == {4} and history.epochs == 2
    pairs = [(recordings[i : i + 4], labels[i : i + 4]) for i in range(0, 12, 4)]
    assert train.evaluate(net, pairs, encode=frames) == train.evaluate(net, (recordings, labels), encode=frames)

    class Set(Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, i):
            return recordings[i], int(labels[i])

    assert train.evaluate(net, Set(), encode=frames) == train.evaluate(net, (recordings, labels), encode=frames)


def _recordings():
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(12):
        t = torch.randint(0, 1000, (30,), generator=generator).sort().values
        x, y = (torch.randint(0, 4, (30,), generator=generator) for _ in "xy")
        made.append(data.events.Events(t, x, y, torch.rand(30, generator=generator) > 0.5, (4, 4), 1000))
    return made, torch.arange(12) % 2


def test_batches_of_a_data_set_are_pinned_for_a_gpu():
    for device in ("cpu", "cuda"):
        source = source_of(Table(), "data", torch.device(device), 10, 64)
        assert source.loader.pin_memory == (device == "cuda")


def test_samples_that_are_sequences_need_no_encoder():
    x, y = table()
    sequences = x.unsqueeze(1).repeat(1, STEPS, 1)
    assert torch.equal(
        weights(fit((sequences, y), encode=None)[0]),
        weights(fit((sequences, y), encode=lambda s: s.transpose(0, 1))[0]),
    )
    lengths = [(sequences[:8, :3], y[:8]), (sequences[8:16], y[8:16])]  # another number of steps in each batch
    assert fit(lengths, encode=None)[1].epochs == 2
    per_step = [(x, y.unsqueeze(1).repeat(1, x.shape[1])) for x, y in lengths]
    each = {"loss": lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())}
    assert fit(per_step, encode=None, **each)[1].epochs == 2
    with pytest.raises(ValueError, match=r"targets of one kind, .*float32 \[B, 3\], .*float32 \[B, 5\]"):
        fit([(x, y.float()) for x, y in per_step], encode=None, loss=lambda out, y: out.sum())
    with pytest.raises(ValueError, match=r"must be sequences \[B, T, ...\], but they are of the shape \[60, 6\]: give"):
        fit((x, y), encode=None)


# -- what can't be data ------------------------------------------------------------------------------------------------

X, Y = table()


@pytest.mark.parametrize(
    ("given", "options", "error", "words"),
    [
        ([{"x": X, "y": Y}], {}, TypeError, "must be a pair .*batch 1 is a dict with the keys 'x', 'y'"),
        ([{"x": X, "y": Y}], {}, TypeError, r"\(\(batch\['x'\], batch\['y'\]\) for batch in loader\)"),
        ([*zip(X, Y, strict=True)], {}, TypeError, "train_data must give batches, but it gives single samples: DataL"),
        ([*zip(X, Y.tolist(), strict=True)], {}, TypeError, "must give batches, but it gives single samples"),
        ([*zip(X[:2], Y, strict=False)], {}, TypeError, "must give batches, but it gives single samples"),
        (Endless(), {}, TypeError, "must give batches, but it gives single samples"),
        ((list(X), Y), {}, TypeError, r"but they are a list of 60 of the shape \[6\]: torch.stack"),
        ((list(X), Y.tolist()), {}, TypeError, r"but they are a list of 60 of the shape \[6\]: torch.stack"),
        (([*X[:-1], X[0, :4]], Y.tolist()), {}, TypeError, r"of several shapes, such as \[6\] and \[4\]: .*pad_"),
        ((np.array([*X.numpy(), np.zeros(4)], object)[1:], Y), {}, TypeError, "60 of several shapes, .*pad_sequence"),
        ((np.zeros(N, "i8,i8"), Y), {}, TypeError, "are a structured array: snnkit.data.events.from_numpy makes a rec"),
        (([np.zeros(3, "i8,i8")] * N, Y), {}, TypeError, "a list of structured arrays: snnkit.data.events.from_numpy"),
        ((np.zeros((N, 6), complex), Y), {}, TypeError, "array of shape .* with the dtype complex128"),
        (Pairs(X, [np.zeros(3, "i8,i8")] * N), {}, TypeError, "a batch: each is a structured array: .*from_numpy"),
        (Pairs(Y, [torch.zeros(i % 2 + 1) for i in Y]), {}, TypeError, "stack expects each tensor.* give a DataLoader"),
        ([(X, Y), (X, Y, Y)], {}, TypeError, "must be a pair .*batch 2 is a tuple of 3"),
        ([X, X, X], {}, TypeError, "must be a pair .*batch 1 is a Tensor"),
        (TensorDataset(X, Y, Y), {}, TypeError, "must be a pair .*batch 1 is a list of 3"),
        ([], {}, ValueError, "train_data must give at least one batch each time, but it gave none"),
        (iter([(X, Y)]), {}, ValueError, "train_data must last for 2 epochs, but a list_iterator is used up after one"),
        ([(X, Y), (X[:, :4], Y)], {}, ValueError, r"of one kind, but .* first .*\[B, 6\], .* batch 2 .*\[B, 4\]"),
        ([(X, Y), (X.double(), Y)], {}, ValueError, "samples of one kind, but those of the first are torch.float32"),
        ([(X, Y), (X, Y.float())], {}, ValueError, "targets of one kind"),
        ([(X, Y[:5])], {}, ValueError, r"batch 1 of train_data must have one target for each .*\[60, 6\] .*\[5\]"),
        ([(X[:0], Y[:0])], {}, ValueError, "batch 1 of train_data must hold at least one sample"),
        ((X, Y[:5]), {}, ValueError, "train_data must have one target for each sample"),
        ((X[:0], Y[:0]), {}, ValueError, "train_data must hold at least one sample, but it is empty"),
        ((X[:, 0], Y), {}, ValueError, r"samples of train_data must be \[N, ...\]"),
        ((X.long(), Y), {}, TypeError, "samples of train_data must be uint8 or floating point, but their dtype is"),
        ((X, Y.to(torch.complex64)), {}, TypeError, "targets of train_data must be a tensor or array of class labels"),
        ((X, ["cat"] * N), {}, TypeError, "targets of train_data must be a tensor or array of class labels"),
        ("digits", {}, TypeError, "train_data must be a pair .* a Dataset, a DataLoader or another iterable of pairs"),
        (X, {}, TypeError, "train_data must be a pair"),
        ({"x": X}, {}, TypeError, "train_data must be a pair"),
        (7, {}, TypeError, "train_data must be"),
        ([(X, Y)], {"batch_size": 8}, ValueError, "is a list, which makes .*; DataLoader.*, 8. makes some"),
        (DataLoader(Table(), 8), {"batch_size": 8}, ValueError, "batch_size must be left out, as .* a DataLoader"),
    ],
)  # fmt: skip
def test_what_can_not_be_data_is_named_and_nothing_is_learned_from_it(given, options, error, words):
    model = classifier()
    before = weights(model)
    with pytest.raises(error, match=words):
        fit(given, model, **options)
    if "batch 2" not in words and "one kind" not in words:
        assert torch.equal(weights(model), before)


# -- resuming ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(Table(noise=0.2), 16, shuffle=True),
        lambda: DataLoader(Table(), 16, shuffle=True, generator=torch.Generator().manual_seed(5)),
        lambda: DataLoader(Table(noise=0.2), 16, shuffle=True, num_workers=1),
        lambda: Table(noise=0.2),
        lambda: list(zip(X.split(16), Y.split(16), strict=True)),
    ],
)
def test_a_run_over_a_loader_is_resumed_to_the_bit(make, tmp_path):
    expected, history = fit(make(), epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit(make(), epochs=1, checkpoint=tmp_path / "run.pt")
        torch.manual_seed(99)  # another process has other numbers
        model, again = fit(make(), classifier(7), epochs=3, checkpoint=tmp_path / "run.pt", resume=True)
    assert torch.equal(weights(model), weights(expected)) and again.train_loss == history.train_loss


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Batches, "only the Batches knows its order"),
        (lambda: DataLoader(Endless(), 16), "only the Endless knows its order"),
        (lambda: DataLoader(Table(), 16, num_workers=1, persistent_workers=True), "persistent_workers keep"),
    ],
)
def test_where_a_resumed_run_may_differ_a_warning_says_why(make, reason, tmp_path):
    with pytest.warns(UserWarning, match=f"may see other batches of train_data than an unbroken one: {reason}"):
        fit(make(), epochs=1, checkpoint=tmp_path / "run.pt")


def test_settings_that_a_resumed_run_does_not_take_are_told(tmp_path):
    file = tmp_path / "run.pt"
    fit((X, Y), epochs=1, lr=0.1, batch_size=16, checkpoint=file)
    with pytest.warns(UserWarning, match=r"checkpoint .*run.pt exists, and will be replaced; resume=True goes on"):
        fit((X, Y), epochs=1, lr=0.1, batch_size=16, checkpoint=file)
    how = {"epochs": 2, "checkpoint": file, "resume": True}
    for change, words in (
        ({"lr": 0.01}, r"lr is 0.01, but it was 0.1 in the run to resume, and stays so"),
        ({"seed": 4}, "seed is 4, but it was 3 in the run to resume, and stays so"),
        ({"batch_size": 30}, "batch_size is 30, but it was 16 .* so this run goes on otherwise"),
    ):
        with pytest.warns(UserWarning, match=words):
            fit((X, Y), **{"lr": 0.1, "batch_size": 16} | how | change)
        how["epochs"] += 1


# -- targets and metrics -----------------------------------------------------------------------------------------------


def mean_squared(out, targets):
    return F.mse_loss(out.mean(0), targets)


def test_regression_per_sample_has_a_loss_and_no_accuracy():
    targets = X.sum(1, keepdim=True).double()  # comes to the dtype of the output
    model, history = fit((X, targets), regressor(), loss=mean_squared, test_data=(X, targets), epochs=30, lr=0.02)
    assert history.train_loss[-1] < history.train_loss[0] / 2
    assert history.train_accuracy == [] == history.test_accuracy and len(history.test_loss) == 30
    assert "accuracy" not in train.evaluate(model, (X, targets), encode=REPEAT, loss=mean_squared)
    assert " - " in repr(history).splitlines()[-1]
    assert train.History.from_dict(history.to_dict()) == history


def test_targets_per_time_step_reach_the_loss_time_first():
    sequences = torch.rand(N, STEPS, FEATURES)
    shapes = set()

    def seen(out, targets):
        shapes.add(tuple(targets.shape))
        return F.mse_loss(out, targets)

    fit((sequences, sequences.sum(2, keepdim=True)), regressor(), loss=seen, encode=None)
    assert shapes == {(STEPS, N, 1)}

    def per_step(out, targets):
        assert targets.shape == (STEPS, N)  # those of -100 do not count
        return F.cross_entropy(out.flatten(0, 1), targets.flatten())

    labels = (sequences.sum(2) > 3).long()
    model, _ = fit((sequences, labels), regressor(2), loss=per_step, encode=None)
    out, _ = model(sequences.transpose(0, 1))
    result = train.evaluate(model, (sequences, labels), encode=None)
    assert result["accuracy"] == pytest.approx((out.argmax(2) == labels.T).float().mean().item())
    with pytest.raises(ValueError, match=r"targets per time step must be \[B, T, ...\] with T = 5, .*\[60, 4\]"):
        fit((sequences, labels[:, :4]), regressor(2), loss=per_step, encode=None)
    with pytest.raises(ValueError, match=r"for each sample, targets.argmax\(1\) makes labels of these"):
        fit((sequences, F.one_hot(labels[:, 0])), regressor(2), loss=per_step, encode=None)
    labels[:, ::2] = -100
    measured = train.evaluate(model, (sequences, labels), encode=None, loss=per_step)
    counted = (labels >= 0).T
    assert measured["accuracy"] == pytest.approx((out.argmax(2) == labels.T)[counted].float().mean().item())


def mean_error(out, targets):
    return (out.mean(0) - targets).abs().mean()


def test_a_metric_takes_the_place_of_the_accuracy(capsys):
    targets = X.sum(1, keepdim=True)
    infos = []
    model, history = fit(
        (X, targets), regressor(), loss=mean_squared, metric=mean_error, test_data=(X, targets), progress=True,
        on_batch=infos.append, batch_size=16,
    )  # fmt: skip
    assert history.metric == "mean_error" and len(history.train_metric) == 2 == len(history.test_metric)
    assert history.train_accuracy == []
    out, _ = model(REPEAT(X))
    assert history.test_metric[-1] == pytest.approx(mean_error(out, targets).item(), rel=1e-5)
    assert (
        train.evaluate(model, (X, targets), encode=REPEAT, metric=mean_error)["mean_error"] == history.test_metric[-1]
    )
    assert infos[0].metric_name == "mean_error" and math.isnan(infos[0].accuracy) and infos[0].metric > 0
    assert "mean_error=" in capsys.readouterr().err
    assert "metric: mean_error" in repr(history) and "train metric" in repr(history)


def test_metrics_of_torchmetrics_collect_over_the_epoch():
    torchmetrics = pytest.importorskip("torchmetrics")
    metric = torchmetrics.F1Score("multiclass", num_classes=2, average="macro")
    model, history = fit((X, Y), metric=metric, batch_size=7, test_data=(X, Y))
    assert history.metric == "MulticlassF1Score"
    out, _ = model(REPEAT(X))
    assert history.test_metric[-1] == pytest.approx(metric(out.sum(0), Y).item())
    # Not the mean over batches, which is another number.
    assert train.evaluate(model, (X, Y), encode=REPEAT, metric=metric, batch_size=7)[
        "MulticlassF1Score"
    ] == pytest.approx(history.test_metric[-1])
    error = torchmetrics.MeanAbsoluteError()
    sequences = torch.rand(N, STEPS, FEATURES)
    per_step = (sequences, sequences.sum(2, keepdim=True))
    model, history = fit(per_step, regressor(), loss=F.mse_loss, encode=None, metric=error, test_data=per_step)
    out, _ = model(sequences.transpose(0, 1))
    assert history.test_metric[-1] == pytest.approx((out - per_step[1].transpose(0, 1)).abs().mean().item(), rel=1e-5)


@pytest.mark.parametrize(
    ("metric", "error", "words"),
    [
        (lambda out, y: math.nan, ValueError, "the result of metric must be finite, but it is nan"),
        (lambda out, y: torch.tensor(math.inf), ValueError, r"metric \(metric\) must be a finite number, .* inf"),
        (lambda out, y: out.sum(0), TypeError, r"result of metric must be a single number, but its shape is \[60, 2\]"),
        (lambda out, y: "good", TypeError, "the result of metric must be a number, but it is 'good'"),
        ("f1", TypeError, "metric must be a function or None, but it is 'f1'"),
    ],
)  # fmt: skip
def test_a_metric_must_give_a_finite_number(metric, error, words, tmp_path):
    with pytest.raises(error, match=words):
        fit((X, Y), metric=metric, checkpoint=tmp_path / "run.pt")
    assert not list(tmp_path.iterdir())


def test_the_accuracy_counts_as_the_loss_does():
    """Populations and labels that are ignored, of a partial of the loss."""
    x, y = table()
    y[::3] = -100
    model = nn.Sequential(torch_nn.Linear(FEATURES, 6), neuron.LIF(v_threshold=0.1))
    counted = functools.partial(loss.count_cross_entropy, population_size=3, ignore_index=-100)
    model, history = fit((x, y), model, loss=functools.partial(counted, weight=torch.tensor([1.0, 2.0])), batch_size=N)
    out, _ = model(REPEAT(x))
    right = (out.sum(0).unflatten(1, (2, 3)).sum(2).argmax(1) == y)[y >= 0].float().mean()
    assert 0 < history.train_accuracy[0] < 1
    measured = train.evaluate(model, (x, y), encode=REPEAT, loss=counted, device="cpu")
    assert measured["accuracy"] == pytest.approx(float(right))
    assert train.evaluate(model, (x[::3], y[::3]), encode=REPEAT, loss=counted, device="cpu")["accuracy"] == 0


@pytest.mark.parametrize(
    ("criterion", "answers"),
    [
        (loss.rate_cross_entropy, lambda out: out.sum(0).argmax(1)),
        (loss.membrane_max_cross_entropy, lambda out: out.amax(0).argmax(1)),
        (functools.partial(loss.membrane_max_cross_entropy, weight=torch.ones(2)), lambda out: out.amax(0).argmax(1)),
        (loss.first_spike_cross_entropy, lambda out: loss.first_spike_times(out).argmin(1)),
    ],
)
def test_the_accuracy_is_of_the_answer_that_the_loss_asks_for(criterion, answers):
    spiking = criterion is loss.first_spike_cross_entropy
    torch.manual_seed(1)
    x, y = torch.rand(40, FEATURES), torch.arange(40) % 2
    model = nn.Sequential(torch_nn.Linear(FEATURES, 2), neuron.LIF(v_threshold=0.2) if spiking else neuron.LI())
    noisy = encode.poisson(x, 20).transpose(0, 1)
    out, _ = model(noisy.transpose(0, 1))
    expected = float((answers(out) == y).float().mean())
    given = {"encode": None, "loss": criterion, "device": "cpu"}
    assert train.evaluate(model, (noisy, y), **given)["accuracy"] == pytest.approx(expected)
    if not spiking:
        assert (answers(out) != out.sum(0).argmax(1)).any() == (criterion is not loss.rate_cross_entropy)


def test_images_without_an_encoder_are_told_to_be_one_step():
    model = nn.Sequential(torch_nn.Flatten(), torch_nn.Linear(4, 2), neuron.LIF())
    with pytest.warns(UserWarning, match=r"these, \[3, 1, 2, 2\], have one time step: images need an encoder"):
        train.evaluate(model, (torch.rand(3, 1, 2, 2), torch.zeros(3).long()), encode=None, device="cpu")


def test_recordings_are_augmented_as_lists_and_tensors_must_stay_tensors():
    made, labels = sounds.record(1, channels=16, seed=0)
    sizes = []

    def counted(recordings):
        sizes.append(len(recordings))
        return recordings[::-1]

    def spikes(recordings):
        return torch.stack([torch.full((3, FEATURES), float(len(one.t) > 0)) for one in recordings], 1)

    fit((list(made), labels % 2), encode=spikes, augment=counted, batch_size=5, epochs=1)
    assert sizes == [5] * (len(labels) // 5)
    with pytest.raises(TypeError, match="the result of augment must be a tensor, but it is None"):
        fit(table(), augment=lambda x: None)
