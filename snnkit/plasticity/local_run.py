"""What learning without labels has come to: fields, what each neuron stands for, and how it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import encode
from snnkit.data import to_unit
from snnkit.data._batches import check_positive_int, check_real
from snnkit.plasticity.competitive_layer import CompetitiveLayer, LayerState
from snnkit.plasticity.labels import vote

# Images that are shown at once where nothing is learned: their spikes in all steps are 20 MB for MNIST.
_AT_ONCE = 250


@dataclass(frozen=True)
class RateCode:
    """How images become spikes: at each step a pixel of brightness x in [0, 1] spikes with probability max_rate × x.

    Attributes:
        steps: T, 1 or more.
        max_rate: spikes per step of the brightest pixel, above 0 and at most 1.

    Raises:
        TypeError, ValueError: one of them is not.
    """

    steps: int = 20
    max_rate: float = 0.5

    def __post_init__(self) -> None:
        check_positive_int("steps", self.steps)
        check_real("max_rate", self.max_rate)
        if not 0 < self.max_rate <= 1:
            raise ValueError(f"max_rate must be above 0 and at most 1; got {self.max_rate!r}")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Spikes float32 [T, B, pixels] for images uint8 [B, ...]; ``generator`` is on their device."""
        return encode.poisson(to_unit(images).flatten(1), self.steps, generator=generator, max_rate=self.max_rate)


class Snapshot(NamedTuple):
    """The layer at one moment of learning.

    Attributes:
        images: how many had been shown.
        weight: [neurons, pixels], on the CPU.
        theta: how far each threshold was raised [neurons], on the CPU.
    """

    images: int
    weight: Tensor
    theta: Tensor


@dataclass
class LocalHistory:
    """One entry for each pass through the training images in each list; plain numbers.

    Attributes:
        images: shown so far.
        seconds: of learning in this pass, without looking at its results.
        spikes_per_image: of all neurons together, while learning.
        active: share of neurons that fired in this pass.
        similarity: how alike the fields are after it (``plasticity.similarity``).
        train_accuracy, test_accuracy: after it, with labels assigned from all training images.
    """

    images: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    spikes_per_image: list[float] = field(default_factory=list)
    active: list[float] = field(default_factory=list)
    similarity: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)

    @property
    def passes(self) -> int:
        """How many were finished."""
        return len(self.images)

    def add(self, **values: float) -> None:
        """Note a pass: a value for every list."""
        for name, column in vars(self).items():
            column.append(values[name])

    def rows(self) -> list[dict[str, Any]]:
        """A pass each, as a record has it."""
        columns = asdict(self)
        return [{"pass": i + 1} | {name: column[i] for name, column in columns.items()} for i in range(self.passes)]

    def __repr__(self) -> str:
        lines = [f"LocalHistory of {self.passes} pass{'es' * (self.passes != 1)}"]
        if self.passes:
            lines.append("pass  images  train acc  test acc  spikes/image  active  similarity  seconds")
        for row in self.rows():
            lines.append(
                f"{row['pass']:4d}  {row['images']:6d}  {row['train_accuracy']:9.2%}  {row['test_accuracy']:8.2%}  "
                f"{row['spikes_per_image']:12.2f}  {row['active']:6.1%}  {row['similarity']:10.2f}  "
                f"{row['seconds']:7.1f}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class LocalRun:
    """A layer that has learned, and how it went; made by ``learn_locally``.

    Attributes:
        layer: its neurons and rule.
        state: weights and thresholds, on the device on which they were learned.
        labels: class of each neuron, int64 [neurons], -1 for one that never fired; from training images only.
        classes: how many there are.
        code: how images become spikes.
        seed: of the spikes by which ``respond`` shows images.
        history: pass by pass.
        snapshots: moments of learning, the first before it and the last after it; empty if none were asked for.
    """

    layer: CompetitiveLayer
    state: LayerState
    labels: Tensor
    classes: int
    code: RateCode
    seed: int
    history: LocalHistory
    snapshots: tuple[Snapshot, ...] = ()

    @property
    def weights(self) -> Tensor:
        """[neurons, pixels]: a row is a neuron's receptive field."""
        return self.state.weight

    @property
    def thresholds(self) -> Tensor:
        """[neurons]: how far homeostasis has raised them."""
        return self.state.theta

    @property
    def accuracy(self) -> float:
        """Share of the test images that were recognised after the last pass."""
        return self.history.test_accuracy[-1]

    @property
    def seconds(self) -> float:
        """Of learning, all passes."""
        return sum(self.history.seconds)

    def respond(self, images: Tensor) -> Tensor:
        """How often each neuron fires for each of images uint8 [N, ...]: [N, neurons]. Nothing is learned.

        The same images get the same answer every time: the code's randomness starts anew.

        Raises:
            TypeError, ValueError: images are of another kind or size.
        """
        return respond(self.layer, self.state, self.code, images, self.seed)

    def predict(self, images: Tensor) -> Tensor:
        """The class that each of images uint8 [N, ...] is taken for, int64 [N]; -1 where no labelled neuron fired."""
        return vote(self.respond(images), self.labels, self.classes)

    def __repr__(self) -> str:
        neurons, pixels = self.weights.shape
        return f"LocalRun of {neurons} neurons on {pixels} pixels, test accuracy {self.accuracy:.2%}\n{self.history}"


def respond(layer: CompetitiveLayer, state: LayerState, code: RateCode, images: Tensor, seed: int) -> Tensor:
    """Spike counts [N, neurons] for images uint8 [N, ...]; they follow from ``seed``, the images and their order."""
    check_images(images, state.weight.shape[1])
    images = images.to(state.weight.device)
    generator = torch.Generator(images.device).manual_seed(seed)
    return torch.cat([layer.respond(code(some, generator), state) for some in images.split(_AT_ONCE)])


def check_images(images: Any, pixels: int) -> None:
    """TypeError or ValueError unless ``images`` are uint8 [N, ...] of so many pixels each, one at least."""
    if not isinstance(images, Tensor) or images.dtype != torch.uint8:
        what = images.dtype if isinstance(images, Tensor) else f"a {type(images).__name__}"
        raise TypeError(f"images must be a uint8 tensor [N, ...], as data.load gives them, not {what}")
    if images.dim() < 2 or not len(images) or images[0].numel() != pixels:
        raise ValueError(f"images must be [N, ...] with {pixels} pixels each, but their shape is {list(images.shape)}")
