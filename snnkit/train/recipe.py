"""Encoders, losses, optimizers and schedules by name, and the recipe: a network, its data and every hyperparameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from snnkit import checks, encode, loss, models
from snnkit.checks import choice, integer, number, shown
from snnkit.data import CLASSES, augment
from snnkit.engine import ENGINES
from snnkit.train.batches import as_sequence

if TYPE_CHECKING:
    from snnkit.train.metrics import BatchInfo

ENCODERS = ("repeat", "poisson", "latency", "constant_current_lif", "sequence")
LOSSES = (
    "rate_mse", "rate_cross_entropy", "count_cross_entropy", "count_mse", "membrane_max_cross_entropy", "membrane_mse",
    "tet_cross_entropy", "first_spike_cross_entropy", "first_spike_mse",
)  # fmt: skip
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
SCHEDULES = ("constant", "cosine", "one-cycle")
DATASETS = tuple(CLASSES)
PIXELS = {"digits": 8, "mnist": 28, "fashion": 28}
# Each kind of network, and the settings that only it has.
NETWORKS: dict[str, tuple[str, ...]] = {
    "conv": ("channels", "hidden"),
    "dense": ("hidden",),
    "norse": ("channels", "hidden"),
    "statistical": ("hidden", "populations"),
}
RISE = 0.1  # share of the updates in which the rate of "one-cycle" rises


def make_encoder(name: str, steps: int) -> Callable[[Tensor], Tensor]:
    """Samples [B, ...] to sequences [T, B, ...] of so many steps; "sequence" is for samples [B, T, ...]."""
    return as_sequence if name == "sequence" else partial(getattr(encode, name), steps=steps)


def make_optimizer(
    name: str, model: nn.Module, lr: float, *, fused: bool = True, capturable: bool = False
) -> torch.optim.Optimizer:
    """An optimizer of the parameters that are trained; SGD has a momentum of 0.9.

    ``fused``: on CPUs and CUDA, one pass over all weights, which can be stopped on the device from changing anything.
    Without it, a step of Adam takes three to ten times as long on a CPU.
    ``capturable``: of a CUDA graph, for the kinds that count their steps.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    fused = fused and all(p.device.type in ("cpu", "cuda") for p in parameters)
    options: dict[str, Any] = {"fused": True} if fused else {}
    if name == "sgd":
        options["momentum"] = 0.9
    elif capturable and fused:
        options["capturable"] = True
    return OPTIMIZERS[name](parameters, lr=lr, **options)


def make_scheduler(
    name: str, optimizer: torch.optim.Optimizer, epochs: int
) -> torch.optim.lr_scheduler.LRScheduler | None:
    """A schedule that is stepped after each epoch: for "cosine" to 0, half a cosine; None for the others."""
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs) if name == "cosine" else None


class OneCycle:
    """Sets the learning rate of the next update: ``train.fit(..., on_batch=OneCycle(optimizer, lr, updates))``.

    It rises linearly to ``lr`` in the first tenth of all ``updates`` and falls to 0 in the rest, half a cosine. It
    depends on the number of updates alone, so a resumed run continues with the right one. Source: the policy of Smith
    and Topin (2018, arXiv:1708.07120), without its cycle of momentum.

    Args:
        optimizer: all its groups get the same rate.
        lr: the highest.
        updates: of the whole run.
    """

    @checks.arguments
    def __init__(self, optimizer: torch.optim.Optimizer, lr: float, updates: int) -> None:
        self.optimizer, self.lr, self.updates = optimizer, lr, updates
        self._set(0)

    @checks.arguments
    def __call__(self, info: BatchInfo) -> None:
        """After an update, with a ``train.BatchInfo``."""
        if info.batches is None:
            raise ValueError("OneCycle must know how many batches an epoch has, but the loader has no length")
        self._set(info.epoch * info.batches + info.batch + 1)

    @checks.arguments
    def rate(self, update: int) -> float:
        """The learning rate of an update, counted from 0."""
        update += 1  # so that no update has a rate of 0
        top = RISE * self.updates
        if update < top:
            return self.lr * update / top
        return self.lr * (1 + math.cos(math.pi * (update - top) / (self.updates + 1 - top))) / 2

    def _set(self, update: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(update)


def _setting(about: str, default: Any = MISSING, **bounds: Any) -> Any:
    """A field of a recipe: its description, and its ``choices`` or the bounds of ``checks.number``."""
    metadata = {"about": about, **bounds}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


@checks.arguments
@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run computes. Impossible values are refused when it is made.

    Each setting is a field whose metadata describe and bound it; `snnkit train` has an option for each. "conv" is
    ``models.FashionConvNet``, "dense" ``models.mlp``, "norse" ``models.ConvNet`` (with 2.5 times the channels in the
    second convolution), and "statistical" ``models.StatisticalSNN``, which has its own encoding.
    """

    name: str = _setting("what it is called")
    about: str = _setting("what it is, with its source")
    dataset: str = _setting("Data set.", choices=DATASETS)
    network: str = _setting("Kind of network.", choices=tuple(NETWORKS))
    hidden: int = _setting("Neurons of the hidden layer.", at_least=1)
    steps: int = _setting("Time steps, T.", at_least=1)
    epochs: int = _setting("In all, including those before --resume.", at_least=1)
    batch_size: int = _setting("Samples per batch, of all ranks together.", at_least=1)
    optimizer: str = _setting("Optimizer.", choices=tuple(OPTIMIZERS))
    lr: float = _setting("Learning rate.", above=0)
    loss: str = _setting("Loss function.", choices=LOSSES)
    channels: int | None = _setting("Channels of the first convolution.", None, at_least=1)
    populations: int | None = _setting("Populations of the statistical net.", None, at_least=1)
    encoding: str = _setting("How images become sequences.", "repeat", choices=ENCODERS[:-1])
    gain: float = _setting(
        'Factor of images before they are encoded; above 1 for "repeat" and "constant_current_lif" only.', 1.0, above=0
    )
    samples: int | None = _setting("Use only the first so many training samples.", None, at_least=1)
    schedule: str = _setting(
        "Learning rate: cosine falls from epoch to epoch, one-cycle rises and falls with every update.",
        "constant",
        choices=SCHEDULES,
    )
    shift: int = _setting("Augmentation: move images by up to so many pixels.", 0, at_least=0)
    amp: bool = _setting("Mixed precision.", False)
    channels_last: bool | None = _setting("Channels-last memory format. Default: of convolutions.", None)
    compile: bool = _setting("The model under torch.compile.", False)
    graphed: bool | None = _setting("Whole updates as one CUDA graph. Default: on a GPU.", None)
    accumulate: int = _setting("Batches per update.", 1, at_least=1)
    engine: str = _setting("Engine of the neurons.", "auto", choices=ENGINES)
    seed: int = _setting("Seed of everything.", 0, at_least=0, at_most=2**32 - 1)

    def __post_init__(self) -> None:
        for setting in fields(self):
            name, value, bounds = setting.name, getattr(self, setting.name), dict(setting.metadata)
            del bounds["about"]
            if "choices" in bounds:
                choice(name, value, bounds["choices"])
            elif bounds and value is not None:
                (number if setting.type == "float" else integer)(name, value, **bounds)
        self._check_network()
        if self.encoding in ("poisson", "latency") and self.gain > 1:
            raise ValueError(f"gain must be at most 1 for the encoding {self.encoding!r}, but it is {self.gain}")
        if self.graphed and self.schedule == "one-cycle":
            raise ValueError("graphed must not be True with the schedule 'one-cycle', which changes every update")

    def _check_network(self) -> None:
        for name in ("channels", "hidden", "populations"):
            value, needed = getattr(self, name), name in NETWORKS[self.network]
            if needed and value is None:
                raise ValueError(f"{name} must be given for the {self.network} network, as {name}=8 (--{name} 8)")
            if not needed and value is not None:
                raise ValueError(f"{name} must be None for the {self.network} network, but it is {shown(value)}")
        if self.populations is not None and self.hidden % self.populations:
            raise ValueError(f"hidden must be a multiple of populations, {self.populations}, but it is {self.hidden}")
        if self.network == "statistical" and (self.encoding, self.gain) != ("repeat", 1.0):
            raise ValueError("encoding and gain must be left out, as the statistical network has its own encoding")

    def settings(self) -> dict[str, Any]:
        """All attributes, as plain values."""
        return asdict(self)

    def choices(self) -> dict[str, Any]:
        """The settings without ``name`` and ``about``: those that decide what is computed."""
        return {name: value for name, value in self.settings().items() if name not in ("name", "about")}

    def build(self) -> nn.Module:
        """The network with its initial weights, drawn from PyTorch's global generator."""
        size, classes, engine = PIXELS[self.dataset], len(CLASSES[self.dataset]), self.engine
        if self.network == "dense":
            return models.mlp((size * size, self.hidden, classes), engine=engine)
        if self.network == "statistical":
            assert self.populations is not None
            return models.StatisticalSNN(
                size * size, self.hidden, classes, populations=self.populations, steps=self.steps, engine=engine
            )
        assert self.channels is not None
        if self.network == "conv":
            return models.FashionConvNet(self.channels, self.hidden, classes, size=size, engine=engine)
        widths = (self.channels, self.channels * 5 // 2, self.hidden)
        return models.ConvNet(1, size, classes, widths=widths, engine=engine)

    def encoder(self, model: nn.Module) -> Any:
        """Images to sequences: as ``encoding`` says, except for the statistical network."""
        if isinstance(model, models.StatisticalSNN):
            return model.encode
        code = make_encoder(self.encoding, self.steps)
        return code if self.gain == 1.0 else lambda images: code(images * self.gain)

    def criterion(self) -> Any:
        """The loss function."""
        return getattr(loss, self.loss)

    def augmentation(self) -> Any:
        """What changes the training images, or None."""
        return augment.Shift(self.shift) if self.shift else None

    @checks.arguments
    def graphed_on(self, device: torch.device) -> bool:
        """Whether to capture updates on this device."""
        if self.graphed is None:  # "one-cycle" would need a new capture for each update
            return device.type == "cuda" and self.schedule != "one-cycle"
        return self.graphed

    def one_cycle(self, optimizer: torch.optim.Optimizer, samples: int) -> OneCycle | None:
        """What changes the learning rate after each update of a run on so many training samples, or None."""
        if self.schedule != "one-cycle":
            return None
        per_epoch = -(-samples // (self.batch_size * self.accumulate))
        return OneCycle(optimizer, self.lr, self.epochs * per_epoch)
