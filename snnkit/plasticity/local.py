"""Learning without labels and without backward: neurons compete for images, and each becomes a specialist of some.

```python
run = learn_locally("digits", seed=0)
run.accuracy, run.weights, run.labels
```
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit.data import CLASSES, load, resolve_device
from snnkit.data._batches import batches, check_data, check_positive_int, seeded
from snnkit.plasticity.competition import Competition
from snnkit.plasticity.competitive_layer import CompetitiveLayer, LayerState, similarity
from snnkit.plasticity.labels import assign_labels, vote
from snnkit.plasticity.local_run import LocalHistory, LocalRun, RateCode, Snapshot, check_images, respond
from snnkit.plasticity.pair import PairSTDP

Split = tuple[Tensor, Tensor]

#: The layer for each data set; MNIST's for some 400 neurons. Potentials are larger there as the sum of weights is.
LAYERS: dict[str, CompetitiveLayer] = {
    "digits": CompetitiveLayer(),
    "mnist": CompetitiveLayer(
        Competition(threshold=40.0, inhibition=200.0, theta_plus=2.0, tau_theta=1000.0),
        PairSTDP(a_plus=0.01, a_minus=0.001, dt=5e-3),
        total=78.4,
    ),
}


class LocalProgress(NamedTuple):
    """What ``on_progress`` is told after every batch.

    Attributes:
        images: shown so far, in all passes.
        of: how many will have been shown in the end.
        spikes_per_image: of all neurons together, in this batch.
        state: weights and thresholds as they are now.
    """

    images: int
    of: int
    spikes_per_image: float
    state: LayerState


def learn_locally(
    data: str | tuple[Split, Split] = "digits",
    *,
    neurons: int = 100,
    passes: int = 4,
    batch_size: int = 16,
    samples: int | None = None,
    seed: int = 0,
    layer: CompetitiveLayer | None = None,
    code: RateCode | None = None,
    snapshots: int = 0,
    device: str | torch.device = "auto",
    root: str | None = None,
    on_progress: Callable[[LocalProgress], object] | None = None,
) -> LocalRun:
    """Let a layer of spiking neurons learn from images alone; then ask which class each neuron stands for.

    Every batch is shown once per pass, as random spikes; STDP, competition and homeostasis do the rest
    (``plasticity.CompetitiveLayer``). Labels have no part in it. After each pass the responses to all training images
    give every neuron its label, and the test images are classified by their neurons' votes. The same seed gives the
    same run on the same kind of device.

    Args:
        data: "digits" or "mnist" of ``data.load``; or ((images, labels), (images, labels)) to learn from and to test
            with, images uint8 [N, ...] and labels int64 [N].
        neurons: how many compete.
        passes: through the training images, each in another order.
        batch_size: images that are shown at once and whose changes add up.
        samples: how many of the training images, from the first on; None: all.
        seed: of weights, order and spikes.
        layer: neurons, rule and normalisation; None: that of ``LAYERS`` for the data set.
        code: how images become spikes; None: ``RateCode()``.
        snapshots: how many moments after the start to keep, evenly spaced; 0: none, not even the start.
        device: on which to learn, as for ``data.to_device``.
        root: folder of the data set, as for ``data.load``.
        on_progress: called after every batch.

    Raises:
        TypeError, ValueError: an argument of another kind or out of its range; what ``data.load`` raises.
    """
    for name, value in (("neurons", neurons), ("passes", passes), ("batch_size", batch_size)):
        check_positive_int(name, value)
    if isinstance(snapshots, bool) or not isinstance(snapshots, int) or snapshots < 0:
        raise ValueError(f"snapshots must be a whole number of at least 0; got {snapshots!r}")
    if on_progress is not None and not callable(on_progress):
        raise TypeError(f"on_progress must be a function or None; got a {type(on_progress).__name__}")
    if code is not None and not isinstance(code, RateCode):
        raise TypeError(f"code must be a RateCode or None; got a {type(code).__name__}")
    layer, code = _layer(data, layer), code or RateCode()
    target = resolve_device(device)
    (images, labels), test, classes = _splits(data, samples, root)
    images, labels, test = images.to(target), labels.to(target), (test[0].to(target), test[1].to(target))

    draw = seeded(seed)
    state = layer.initial_state(images[0].numel(), neurons, generator=draw, device=target)
    spikes = torch.Generator(target).manual_seed(_seed(draw))
    asking = _seed(draw)
    history, album = LocalHistory(), _Album(snapshots, passes * len(images))
    album.show(0, state)
    assigned = torch.full((neurons,), -1, device=target)
    for done in range(passes):
        fired, shown, clock = torch.zeros(neurons, device=target), done * len(images), time.perf_counter()
        for some, _ in batches(images, labels, batch_size, generator=draw):
            counts, state = layer.learn(code(some, spikes), state)
            fired += counts.sum(0)
            shown += len(some)
            album.show(shown, state)
            if on_progress is not None:
                on_progress(LocalProgress(shown, album.of, float(counts.sum()) / len(some), state))
        total = float(fired.sum())  # waits for the device
        seconds = time.perf_counter() - clock
        answers = respond(layer, state, code, images, asking)
        assigned = assign_labels(answers, labels, classes)
        history.add(
            images=shown,
            seconds=seconds,
            spikes_per_image=total / len(images),
            active=float((fired > 0).float().mean()),
            similarity=similarity(state.weight),
            train_accuracy=_share(vote(answers, assigned, classes), labels),
            test_accuracy=_share(vote(respond(layer, state, code, test[0], asking), assigned, classes), test[1]),
        )
    return LocalRun(layer, state, assigned, classes, code, asking, history, tuple(album.pages))


class _Album:
    """Keeps the layer at evenly spaced moments: the first batch that has reached each."""

    def __init__(self, count: int, of: int) -> None:
        self.of = of
        self.due = [of * k // count for k in range(count + 1)] if count else []
        self.pages: list[Snapshot] = []

    def show(self, images: int, state: LayerState) -> None:
        if self.due and images >= self.due[0]:
            self.due = [moment for moment in self.due if moment > images]
            self.pages.append(Snapshot(images, state.weight.to("cpu", copy=True), state.theta.to("cpu", copy=True)))


def _layer(data: object, layer: CompetitiveLayer | None) -> CompetitiveLayer:
    if layer is None:
        if not isinstance(data, str):
            raise ValueError("layer must be given for images of your own, for its total and threshold depend on them")
        _check_name(data)
        return LAYERS[data]
    if not isinstance(layer, CompetitiveLayer):
        raise TypeError(f"layer must be a plasticity.CompetitiveLayer or None; got a {type(layer).__name__}")
    return layer


def _splits(data: object, samples: int | None, root: str | None) -> tuple[Split, Split, int]:
    """What to learn from, what to test with, and how many classes there are."""
    if isinstance(data, str):
        _check_name(data)
        train, test, classes = load(data, root=root), load(data, "test", root=root), len(CLASSES[data])
    else:
        if not (isinstance(data, tuple) and len(data) == 2 and all(isinstance(s, tuple) and len(s) == 2 for s in data)):
            raise TypeError(f"data must be a name or ((images, labels), (images, labels)); got a {type(data).__name__}")
        train, test = data
        for name, split in (("data[0]", train), ("data[1]", test)):
            check_data(split[0], split[1], name)
            check_images(split[0], train[0][0].numel())
            if int(split[1].min()) < 0:
                raise ValueError(f"{name}: the labels must be 0 or more; got {int(split[1].min())}")
        classes = 1 + int(max(train[1].max(), test[1].max()))
    if samples is not None:
        check_positive_int("samples", samples)
        if samples > len(train[0]):
            raise ValueError(f"samples must be at most {len(train[0])}, the number of training images; got {samples}")
        train = (train[0][:samples], train[1][:samples])
    return train, test, classes


def _check_name(data: str) -> None:
    if data not in LAYERS:
        raise ValueError(f"data must be one of {', '.join(map(repr, LAYERS))}, or images and labels; got {data!r}")


def _seed(draw: torch.Generator) -> int:
    """Another seed, so that what is random in one way owes nothing to what is in another."""
    return int(torch.randint(2**62, (), generator=draw))


def _share(predicted: Tensor, labels: Tensor) -> float:
    return float((predicted == labels).float().mean())
