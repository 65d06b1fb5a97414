"""The history of a training run, epoch by epoch: as lists, as TensorBoard's files, and through callbacks."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from torch import nn

from snnkit import checks, tables
from snnkit.checks import choice, flag, function, instance, mapping, pip_install, shown
from snnkit.files import expanded

if TYPE_CHECKING:
    from snnkit.train.metrics import MetricsSnapshot


@dataclass
class History:
    """One entry per finished epoch in each list; plain numbers, so ``to_dict()`` can be written as JSON.

    The training numbers are means over the batches of the epoch, while the weights changed. The test numbers are
    measured after the epoch. Without test data their lists are empty.

    Attributes:
        train_loss, test_loss: means per sample.
        train_accuracy, test_accuracy: fractions in [0, 1]; empty with a ``metric``, or for targets without classes.
        train_metric, test_metric: values of ``metric``, the name of what was measured in place of the accuracy.
        regulariser: mean of the regulariser per sample, which is not part of the losses above; empty without one.
        output_rate: mean output per neuron and step: the spike rate, if the output spikes.
        seconds: seconds of training, without the test.
        samples_per_second: in training.
        interrupted: stopped from the keyboard; the unfinished epoch is not listed.
    """

    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    output_rate: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    samples_per_second: list[float] = field(default_factory=list)
    train_metric: list[float] = field(default_factory=list)
    test_metric: list[float] = field(default_factory=list)
    regulariser: list[float] = field(default_factory=list)
    metric: str | None = None
    interrupted: bool = False

    @property
    def epochs(self) -> int:
        """The number of finished epochs."""
        return len(self.train_loss)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """Inverse of ``to_dict``. Raises TypeError or ValueError, naming the entry, for anything else."""
        history = cls()
        for name, value in mapping("history", values, "names and lists").items():
            if choice("an entry of history", name, vars(history)) == "interrupted":
                flag("interrupted of history", value)
            elif name == "metric":
                instance("metric of history", value, str, "a name", optional=True)
            else:
                for number in instance(f"{name} of history", value, list, "a list of numbers"):
                    if type(number) not in (int, float):
                        raise TypeError(f"{name} of history must be a list of numbers, but {shown(number)} is in it")
            setattr(history, name, copy.copy(value))
        return history

    def check_continued(self, metric: str | None, regularised: bool) -> None:
        """``check_measured`` for a run that goes on with these lists."""
        if self.epochs:
            check_measured(self.metric, bool(self.regulariser), metric, regularised)

    def __repr__(self) -> str:
        lines = [f"History of {tables.count_of(self.epochs, 'epoch')}{', interrupted' * self.interrupted}"]
        if self.epochs:
            what = f"  (metric: {self.metric})" if self.metric else ""
            name, width = ("metric", 12) if self.metric else ("acc", 9)
            heads = f"{'train ' + name:>{width}}  {'test ' + name:>{width - 1}}"
            lines.append(f"epoch  train loss  {heads}  output rate  seconds  samples/s{what}")
        kind, form = ("metric", ".4g") if self.metric else ("accuracy", ".2%")
        for i in range(self.epochs):
            train, test = (
                format(series[i], form) if i < len(series := getattr(self, f"{stage}_{kind}")) else "-"
                for stage in ("train", "test")
            )
            lines.append(
                f"{i + 1:5d}  {self.train_loss[i]:10.4f}  {train:>{width}}  {test:>{width - 1}}  "
                f"{self.output_rate[i]:11.4f}  {self.seconds[i]:7.1f}  {self.samples_per_second[i]:9.0f}"
            )
        return "\n".join(lines)


def check_measured(metric: str | None, regularised: bool, metric_now: str | None, regularised_now: bool) -> None:
    """ValueError where a resumed run has another metric (by its name), or a regulariser that the first had not."""
    given = ("given" if one else None for one in (regularised, regularised_now))
    for what, before, now in (("metric", metric, metric_now), ("regulariser", *given)):
        if before != now:
            raise ValueError(f"{what} must be {before}, as in the run that wrote it, but it is {now}")


def add_epoch(
    history: History,
    means: MetricsSnapshot,
    name: str | None,
    value: float,
    tested: Mapping[str, Any] | None,
    seconds: float,
    regularised: bool,
) -> None:
    """Add an epoch to ``history``.

    Args:
        means: of training.
        name, value: of the metric in training; None: nothing was measured.
        tested: result of ``evaluate``; None: there was no test.
        seconds: of training.
        regularised: whether there is a regulariser.
    """
    kind = "accuracy" if name == "accuracy" else "metric"
    history.metric = name if kind == "metric" else None
    for stage, measured in (("train", {"loss": means.loss, name: value}), ("test", tested or {})):
        if measured:
            getattr(history, f"{stage}_loss").append(measured["loss"])
        if name is not None and name in measured:
            getattr(history, f"{stage}_{kind}").append(measured[name])
    history.output_rate.append(means.rate)
    history.seconds.append(seconds)
    history.samples_per_second.append(means.samples / seconds)
    if regularised:
        history.regulariser.append(means.regulariser)


class CallbackList:
    """Several callbacks as one, called in order. ``name`` is that of the argument, for errors."""

    def __init__(self, name: str, *groups: Callable[..., Any] | Iterable[Callable[..., Any]] | None) -> None:
        lists = [group if isinstance(group, Iterable) else [group] for group in groups if group is not None]
        self.callbacks = [function(name, callback) for group in lists for callback in group]
        self.shows_progress = any(getattr(callback, "shows_progress", False) for callback in self.callbacks)

    def __len__(self) -> int:
        return len(self.callbacks)

    def __call__(self, *arguments: Any) -> None:
        for callback in self.callbacks:
            callback(*arguments)

    def finish(self) -> None:
        """Training is over: call the method ``finish`` of each callback, or of the object whose method it is."""
        for callback in self.callbacks:
            for listener in (callback, getattr(callback, "__self__", None)):
                if callable(method := getattr(listener, "finish", None)):
                    method()


# Tags of the lists of a history in TensorBoard: curves that belong together share the first word.
TAGS = {
    "train_loss": "loss/train",
    "test_loss": "loss/test",
    "train_accuracy": "accuracy/train",
    "test_accuracy": "accuracy/test",
    "train_metric": "metric/train",
    "test_metric": "metric/test",
    "regulariser": "loss/regulariser",
    "output_rate": "output_rate",
    "seconds": "speed/seconds_per_epoch",
    "samples_per_second": "speed/samples_per_second",
}


class TensorBoard:
    """Writes every epoch of a run into a folder: ``train.fit(..., on_epoch=TensorBoard("runs/mnist"))``.

    View it with ``tensorboard --logdir runs``, also while the training runs. The steps are epochs, from 1. A run that
    is resumed into the same folder writes all its epochs again; they replace the earlier ones, so the curves are
    continuous.

    Args:
        folder: created after the first epoch.
        settings: shown under "text", for instance ``recipe.settings()``.
    """

    @checks.arguments
    def __init__(self, folder: str | os.PathLike[str], settings: Mapping[str, Any] | None = None) -> None:
        self.folder = expanded(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"folder must be a folder for TensorBoard's files, but {str(self.folder)!r} is a file")
        self.settings = dict(settings or {})
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(f"TensorBoard needs its package ({error}): {pip_install('scale')}") from error
        self._class = SummaryWriter
        self._writer: Any = None
        self._written = 0

    @checks.arguments
    def __call__(self, history: History, model: nn.Module | None = None) -> None:
        """After an epoch, as ``on_epoch`` of ``fit``."""
        if self._writer is None:
            # purge_step makes TensorBoard forget what an earlier part of the run wrote from this step on.
            self._writer = self._class(str(self.folder), purge_step=1)
            if self.settings:
                text = json.dumps(self.settings, indent=1, ensure_ascii=False, default=str)
                self._writer.add_text("settings", "    " + text.replace("\n", "\n    "), 0)
        for epoch in range(self._written, history.epochs):
            for name, tag in TAGS.items():
                values = getattr(history, name)
                if epoch < len(values):
                    self._writer.add_scalar(tag, values[epoch], epoch + 1)
        self._written = history.epochs
        self._writer.flush()

    def finish(self) -> None:
        """Close the file, if there is one; ``fit`` calls it at the end."""
        if self._writer is not None:
            self._writer.close()
