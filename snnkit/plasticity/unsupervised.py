"""Learning without labels and without backward: neurons compete for images, and each specialises in some of them.

```python
run = learn_locally("digits", seed=0)
run.accuracy, run.weights, run.labels
```
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import checks, encode
from snnkit.data import CLASSES, load, resolve_device, to_unit
from snnkit.data.tensors import batches, seeded
from snnkit.plasticity.competition import Competition, CompetitiveLayer, LayerState, assign_labels, similarity, vote
from snnkit.plasticity.spike_timing import PairSTDP

#: How images become spikes: so many steps, in each of which the brightest pixel spikes with this probability.
STEPS, MAX_RATE = 20, 0.5

# Images that are shown at once where nothing is learned: their spikes in all steps are 20 MB for MNIST.
_AT_ONCE = 250

#: The layer for each data set; MNIST's for some 400 neurons. Potentials are larger there as the sum of weights is.
LAYERS: dict[str, CompetitiveLayer] = {
    "digits": CompetitiveLayer(),
    "mnist": CompetitiveLayer(
        Competition(threshold=40.0, inhibition=200.0, theta_plus=2.0, tau_theta=1000.0),
        PairSTDP(a_plus=0.01, a_minus=0.001, dt=5e-3),
        total=78.4,
    ),
}


class Snapshot(NamedTuple):
    """The layer at one moment of learning, on the CPU."""

    images: int  #: how many had been shown
    weight: Tensor  #: [neurons, pixels]
    theta: Tensor  #: how far each threshold was raised [neurons]


@dataclass(frozen=True)
class LocalRun:
    """The result of ``learn_locally``.

    Attributes:
        layer: its neurons and rule.
        state: weights and thresholds, on the device on which they were learned.
        labels: class of each neuron, int64 [neurons], -1 for one that never fired; from training images only.
        classes: how many there are.
        seed: of the spikes by which ``respond`` shows images.
        passes: a dict for each pass through the training images: "pass", its number; "images" shown so far; "seconds"
            of learning, without the evaluation; "spikes_per_image" of all neurons together, while learning; "active",
            the share of neurons that fired; "similarity" of the receptive fields after it; "train_accuracy" and
            "test_accuracy", with labels assigned from all training images.
        snapshots: moments of learning, the first before it and the last after it; empty if none were requested.
    """

    layer: CompetitiveLayer
    state: LayerState
    labels: Tensor
    classes: int
    seed: int
    passes: list[dict[str, Any]]
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def weights(self) -> Tensor:
        """[neurons, pixels]: a row is a neuron's receptive field."""
        return self.state.weight

    @property
    def accuracy(self) -> float:
        """Share of the test images with a right answer after the last pass."""
        return self.passes[-1]["test_accuracy"]

    @property
    def seconds(self) -> float:
        """Of learning, all passes."""
        return sum(row["seconds"] for row in self.passes)

    @checks.arguments
    def respond(self, images: Tensor) -> Tensor:
        """Spike counts of each neuron for each of images uint8 [N, ...]: [N, neurons]. Nothing is learned.

        The same images get the same response every time, as the random numbers start from ``seed`` again.
        """
        return _respond(self.layer, self.state, images, self.seed)

    def predict(self, images: Tensor) -> Tensor:
        """The predicted class of each of images uint8 [N, ...], int64 [N]; -1 if no labelled neuron fired."""
        return vote(self.respond(images), self.labels, self.classes)

    def __repr__(self) -> str:
        neurons, pixels = self.weights.shape
        return f"LocalRun of {neurons} neurons on {pixels} pixels, test accuracy {self.accuracy:.2%}"


@checks.arguments
def learn_locally(
    data: str = "digits",
    *,
    neurons: int = 100,
    passes: int = 4,
    batch_size: int = 16,
    samples: int | None = None,
    seed: int = 0,
    layer: CompetitiveLayer | None = None,
    snapshots: int = 0,
    device: str | torch.device = "auto",
    root: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> LocalRun:
    """Let a layer of spiking neurons learn from images alone; then find the class of each neuron.

    Every batch is shown once per pass, as random spikes; STDP, competition and homeostasis do the rest
    (``plasticity.CompetitiveLayer``). Labels have no part in it. After each pass the responses to all training images
    give every neuron its label, and the test images are classified by their neurons' votes. The same seed gives the
    same run on the same kind of device.

    Args:
        data: "digits" or "mnist" of ``data.load``.
        neurons: how many compete.
        passes: through the training images, each in another order.
        batch_size: images that are shown at once and whose changes add up.
        samples: how many of the training images, from the first on; None: all.
        seed: of weights, order and spikes.
        layer: neurons, rule and normalisation; None: that of ``LAYERS`` for the data set.
        snapshots: how many moments after the start to save, evenly spaced; 0: none, not even the start.
        device: on which to learn, as for ``data.to_device``.
        root: folder of the data set, as for ``data.load``.
        progress: show a bar.
    """
    checks.counts(neurons=neurons, passes=passes, batch_size=batch_size)
    checks.integer("snapshots", snapshots, at_least=0)
    layer = layer or LAYERS[checks.choice("data", data, LAYERS)]
    target = resolve_device(device)
    images, labels, test_images, test_labels = (
        part.to(target) for split in ("train", "test") for part in load(data, split, root=root)
    )
    if samples is not None:
        checks.integer("samples", samples, at_least=1, at_most=len(labels))
        images, labels = images[:samples], labels[:samples]
    classes = len(CLASSES[data])

    draw = seeded(seed)
    state = layer.initial_state(images[0].numel(), neurons, generator=draw, device=target)
    spikes = torch.Generator(target).manual_seed(_seed(draw))
    responding = _seed(draw)
    rows, total = [], passes * len(images)
    due = [total * k // snapshots for k in range(snapshots + 1)] if snapshots else []
    moments: list[Snapshot] = []

    def save(shown: int, state: LayerState) -> None:
        """The first batch that has reached each of the moments."""
        if due and shown >= due[0]:
            due[:] = [moment for moment in due if moment > shown]
            moments.append(Snapshot(shown, state.weight.to("cpu", copy=True), state.theta.to("cpu", copy=True)))

    save(0, state)
    from tqdm.auto import tqdm

    bar = tqdm(total=total, unit="image", disable=not progress)
    assigned = torch.full((neurons,), -1, device=target)
    for done in range(passes):
        fired, shown, clock = torch.zeros(neurons, device=target), done * len(images), time.perf_counter()
        for some, _ in batches(images, labels, batch_size, generator=draw):
            counts, state = layer.learn(_spikes(some, spikes), state)
            fired += counts.sum(0)
            shown += len(some)
            bar.update(len(some))
            save(shown, state)
        spikes_in_pass = float(fired.sum())  # waits for the device
        seconds = time.perf_counter() - clock
        responses = _respond(layer, state, images, responding)
        assigned = assign_labels(responses, labels, classes)
        answers = vote(_respond(layer, state, test_images, responding), assigned, classes)
        rows.append(
            {
                "pass": done + 1,
                "images": shown,
                "seconds": seconds,
                "spikes_per_image": spikes_in_pass / len(images),
                "active": float((fired > 0).float().mean()),
                "similarity": similarity(state.weight),
                "train_accuracy": _share(vote(responses, assigned, classes), labels),
                "test_accuracy": _share(answers, test_labels),
            }
        )
    bar.close()
    return LocalRun(layer, state, assigned, classes, responding, rows, tuple(moments))


def _spikes(images: Tensor, generator: torch.Generator) -> Tensor:
    """Spikes float32 [T, B, pixels] for images uint8 [B, ...]; ``generator`` is on their device."""
    return encode.poisson(to_unit(images).flatten(1), STEPS, generator=generator, max_rate=MAX_RATE)


def _respond(layer: CompetitiveLayer, state: LayerState, images: Tensor, seed: int) -> Tensor:
    """Spike counts [N, neurons] for images uint8 [N, ...]; they follow from ``seed``, the images and their order."""
    pixels = state.weight.shape[1]
    if images.dim() < 2 or not len(images) or images[0].numel() != pixels:
        raise ValueError(f"images must be [N, ...] with {pixels} pixels each, but their shape is {list(images.shape)}")
    images = images.to(state.weight.device)
    generator = torch.Generator(images.device).manual_seed(seed)
    return torch.cat([layer.respond(_spikes(some, generator), state) for some in images.split(_AT_ONCE)])


def _seed(draw: torch.Generator) -> int:
    """Another seed, for an independent stream of random numbers."""
    return int(torch.randint(2**62, (), generator=draw))


def _share(predicted: Tensor, labels: Tensor) -> float:
    return float((predicted == labels).float().mean())
