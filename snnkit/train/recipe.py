"""A recipe: a network, its data and every hyperparameter, as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import encode, loss, models
from snnkit.data import CLASSES, augment
from snnkit.data._batches import check_positive_int, check_real
from snnkit.engine import check_engine
from snnkit.train.onecycle import OneCycle
from snnkit.train.seed import check_seed

# Each kind of network, and which settings are its own.
NETWORKS: dict[str, tuple[str, ...]] = {
    "conv": ("channels", "hidden"),
    "dense": ("hidden",),
    "norse": ("channels", "hidden"),
    "statistical": ("hidden", "populations"),
}
DATASETS = tuple(CLASSES)
ENCODINGS = ("repeat", "poisson", "latency", "constant_current_lif")
LOSSES = ("rate_mse", "rate_cross_entropy", "count_cross_entropy", "count_mse", "membrane_max_cross_entropy")
OPTIMIZERS = ("sgd", "adam")
SCHEDULES = ("constant", "cosine", "one-cycle")
PIXELS = {"digits": 8, "mnist": 28, "fashion": 28}


@dataclass(frozen=True)
class Recipe:
    """All that decides what a run computes. Impossible values are refused when it is made.

    Attributes:
        name, about: what it is called, and what it is, with its source.
        dataset: "digits", "mnist" or "fashion" of ``data.load``.
        network: "conv" (``models.FashionConvNet``), "dense" (``models.mlp``), "norse" (``models.ConvNet``) or
            "statistical" (``models.StatisticalSNN``).
        channels: of both convolutions of the conv net, or of the first of the norse net, whose second has 2.5 times as
            many; None for the others.
        hidden: neurons of the hidden layer.
        populations: of the statistical net; None for the others.
        steps: T.
        encoding: one of ENCODINGS, functions of ``snnkit.encode``. The statistical net has a code of its own.
        gain: what images in [0, 1] are multiplied by before they are encoded; above 1 it is for codes of any current
            only ("repeat", "constant_current_lif", of which the latter is silent up to 1).
        epochs, batch_size: as in ``fit``.
        samples: how many of the training samples, from the first on; None: all.
        optimizer: "sgd" or "adam".
        lr, weight_decay: of the optimizer.
        momentum: of SGD.
        schedule: "constant"; "cosine": the learning rate falls to 0 from epoch to epoch, half a cosine; "one-cycle": it
            rises and falls with every update (``train.onecycle``).
        loss: one of LOSSES.
        shift, flip, degrees: augmentation: pixels to move by, whether to mirror, degrees to turn by.
        amp, channels_last, compile, clip, accumulate: as in ``fit``.
        graphed: as in ``fit``, but not with "one-cycle", for which each update would have to be recorded anew; None:
            where the device is a GPU and it can be had.
        engine: of the neurons.
        seed: of everything.
    """

    name: str
    about: str
    dataset: str
    network: str
    hidden: int
    steps: int
    epochs: int
    batch_size: int
    optimizer: str
    lr: float
    loss: str
    channels: int | None = None
    populations: int | None = None
    encoding: str = "repeat"
    gain: float = 1.0
    samples: int | None = None
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"
    shift: int = 0
    flip: bool = False
    degrees: float = 0.0
    amp: bool = False
    channels_last: bool = False
    compile: bool = False
    graphed: bool | None = None
    clip: float | None = None
    accumulate: int = 1
    engine: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("name", "about"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a text; got {getattr(self, name)!r}")
        _check_choice("dataset", self.dataset, DATASETS)
        _check_choice("network", self.network, tuple(NETWORKS))
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("loss", self.loss, LOSSES)
        _check_choice("encoding", self.encoding, ENCODINGS)
        self._check_code()
        for name in ("steps", "epochs", "batch_size", "accumulate"):
            check_positive_int(name, getattr(self, name))
        if self.samples is not None:
            check_positive_int("samples", self.samples)
        for name in ("channels", "hidden", "populations"):
            value, has = getattr(self, name), name in NETWORKS[self.network]
            if has and value is None:
                raise ValueError(f"{name} must be given for the {self.network} network, as {name}=8 (--{name} 8)")
            if has:
                check_positive_int(name, value)
            elif value is not None:
                raise ValueError(f"{name} must be None, as the {self.network} network has no such thing; got {value!r}")
        if self.populations is not None and self.hidden % self.populations:
            raise ValueError(f"hidden must be a multiple of populations; got {self.hidden} and {self.populations}")
        _check_number("lr", self.lr, above=0.0)
        _check_number("weight_decay", self.weight_decay)
        _check_number("momentum", self.momentum, below=1.0)
        _check_number("degrees", self.degrees, below=180.0)
        if self.clip is not None:
            _check_number("clip", self.clip, above=0.0)
        if isinstance(self.shift, bool) or not isinstance(self.shift, int) or self.shift < 0:
            raise ValueError(f"shift must be an int of at least 0; got {self.shift!r}")
        for name in ("flip", "amp", "channels_last", "compile"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.graphed is not None and not isinstance(self.graphed, bool):
            raise TypeError(f"graphed must be True, False or None; got {self.graphed!r}")
        if self.graphed and self.schedule == "one-cycle":
            raise ValueError("graphed must not be True with the schedule 'one-cycle', which changes every update")
        check_engine(self.engine)
        check_seed(self.seed)

    def _check_code(self) -> None:
        _check_number("gain", self.gain, above=0.0)
        if self.network == "statistical" and (self.encoding, self.gain) != ("repeat", 1.0):
            raise ValueError(
                "encoding and gain must stay as they are, as the statistical network has a code of its own"
            )
        if self.encoding in ("poisson", "latency") and self.gain > 1:
            raise ValueError(f"gain must be at most 1 for the encoding {self.encoding!r}, of [0, 1]; got {self.gain}")

    def settings(self) -> dict[str, Any]:
        """All attributes, as plain values."""
        return asdict(self)

    def choices(self) -> dict[str, Any]:
        """The settings without ``name`` and ``about``: those that decide what is computed."""
        return {name: value for name, value in self.settings().items() if name not in ("name", "about")}

    def build(self) -> nn.Module:
        """The network with its initial weights, drawn from PyTorch's global generator."""
        size, classes = PIXELS[self.dataset], len(CLASSES[self.dataset])
        if self.network == "conv":
            assert self.channels is not None
            return models.FashionConvNet(self.channels, self.hidden, classes, size=size, engine=self.engine)
        if self.network == "dense":
            return models.mlp((size * size, self.hidden, classes), engine=self.engine)
        if self.network == "norse":
            assert self.channels is not None
            widths = (self.channels, self.channels * 5 // 2, self.hidden)
            return models.ConvNet(1, size, classes, widths=widths, engine=self.engine)
        assert self.populations is not None
        return models.StatisticalSNN(
            size * size, self.hidden, classes, populations=self.populations, steps=self.steps, engine=self.engine
        )

    def encoder(self, model: nn.Module) -> Any:
        """Images to sequences: as ``encoding`` says, except for the statistical network, which has its own code."""
        if isinstance(model, models.StatisticalSNN):
            return model.encode
        code = partial(getattr(encode, self.encoding), steps=self.steps)
        return code if self.gain == 1.0 else partial(_amplified, code, self.gain)

    def criterion(self) -> Any:
        """The loss function."""
        return getattr(loss, self.loss)

    def augmentation(self) -> Any:
        """What changes the training images, or None."""
        steps: list[Any] = []
        if self.shift:
            steps.append(augment.Shift(self.shift))
        if self.degrees:
            steps.append(augment.Affine(self.degrees, scale=0.0))
        if self.flip:
            steps.append(augment.Flip())
        return augment.Compose(*steps) if len(steps) > 1 else (steps[0] if steps else None)

    def graphed_on(self, device: torch.device) -> bool:
        """Whether to record updates on this device."""
        if self.graphed is None:
            return device.type == "cuda" and self.schedule != "one-cycle"
        return self.graphed

    def optimizer_of(self, model: nn.Module, device: torch.device) -> torch.optim.Optimizer:
        """The optimizer of a model on a device: on CUDA fused, as ``fit`` wants it."""
        options: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        if device.type == "cuda":
            options["fused"] = True
        if self.optimizer == "sgd":
            return torch.optim.SGD(model.parameters(), momentum=self.momentum, **options)
        if device.type == "cuda":
            options["capturable"] = self.graphed_on(device)
        return torch.optim.Adam(model.parameters(), **options)

    def scheduler_of(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler | None:
        """What changes the learning rate after each epoch, or None."""
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs) if self.schedule == "cosine" else None

    def after_each_update(self, optimizer: torch.optim.Optimizer, samples: int) -> OneCycle | None:
        """What changes the learning rate after each update of so many training samples, or None."""
        if self.schedule != "one-cycle":
            return None
        per_epoch = -(-samples // (self.batch_size * self.accumulate))
        return OneCycle(optimizer, self.lr, self.epochs * per_epoch)


def _amplified(code: Callable[[Tensor], Tensor], gain: float, images: Tensor) -> Tensor:
    return code(images * gain)


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def _check_number(name: str, value: float, *, above: float | None = None, below: float = math.inf) -> None:
    """A finite number above ``above`` (None: at least 0) and below ``below``."""
    check_real(name, value)
    low = f"above {above:g}" if above is not None else "at least 0"
    if not (math.isfinite(value) and value < below and (value >= 0 if above is None else value > above)):
        high = "" if math.isinf(below) else f" and below {below:g}"
        raise ValueError(f"{name} must be a finite number {low}{high}; got {value!r}")
