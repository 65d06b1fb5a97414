"""A panel of curves that grows while the network learns."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from snnkit import checks
from snnkit.device.usage import evaluating
from snnkit.lab.viz.frontend import headless, in_notebook, live
from snnkit.lab.viz.live.curves import Point, Progress, Throttle, training_curves
from snnkit.lab.viz.live.renderers import NotebookRenderer, Renderer, TextRenderer
from snnkit.lab.viz.live.stop import StopRequest
from snnkit.tables import count_of, duration_of
from snnkit.train.history import History
from snnkit.train.metrics import BatchInfo

# Seconds from one to the next at least, and share of the time: at most a fiftieth in all. Reading the loss waits for an
# accelerator.
READINGS = (0.5, 0.003)
DRAWINGS = (0.5, 0.012)


@checks.arguments
class LivePanel:
    """Loss, accuracy, firing rates, speed and time left while ``train.fit`` runs, and a button that stops it:

        panel = LivePanel(10)
        train.fit(…, epochs=10, on_epoch=panel, on_batch=panel.on_batch)

    In JupyterLab and on Colab the panel is updated in place. In a terminal it is a line for each epoch and a bar below;
    in a file it is the lines alone. A headless run (SNNKIT_HEADLESS=1) shows one figure at the end. Drawing takes at
    most a fiftieth of the time, so large figures and slow machines get fewer updates.

    The button ends the training after the current update, as Ctrl-C and the notebook's own stop button (■) do: ``fit``
    returns the history with ``interrupted`` set. Without ``on_batch`` the panel is drawn after each epoch only, and the
    button acts there.

    Args:
        total_epochs: number of epochs. If there are more, the panel extends its axis.
        layers: name to index of the modules of an ``nn.Sequential`` whose firing rates to follow, e.g.
            {"hidden": 1, "output": 3}. Without it the history's output rate is shown.
        probe: [T, B, …], the encoded input on which the layers' rates are measured after each epoch: a run of the
            network on B samples, which is not counted in the fiftieth. About a hundred are enough.

    Attributes:
        rates: layer name to one rate per epoch, NaN for epochs that the panel has not seen.
        stopped: whether the button ended the run.
    """

    def __init__(self, total_epochs: int, layers: Mapping[str, int] | None = None, probe: Tensor | None = None) -> None:
        self.total_epochs = self._announced = checks.integer("total_epochs", total_epochs, at_least=1)
        if (layers is None) != (probe is None):
            raise ValueError("layers and probe must be given together, but one of them is missing")
        self.layers = dict(layers or {})
        self.probe = probe
        self.rates: dict[str, list[float]] = {name: [] for name in self.layers}
        self.stopped = False
        self._series: dict[str, Any] = {}
        self._updates: list[Point] = []
        self._progress = Progress(total_epochs)
        self._stop = StopRequest()
        self._renderer: Renderer | None = None  # during a run
        self._began = 0.0

    @property
    def figure(self) -> Any:
        """The curves so far, a plotly Figure; None before there is anything to draw."""
        done = len(self._series.get("train_loss", ()))
        # In a run of a second or two there are so few updates that lines between them would be made up.
        updates = self._updates if self._renderer or len(self._updates) > done else []
        reached = max(done, math.ceil(updates[-1][0]) if updates else 0)
        # A last epoch that is far away would squeeze the first ones: 10, 20, 40, …
        end = 10 * 2 ** max(0, math.ceil(math.log2(max(reached, 1) / 10)))
        end = min(end, self.total_epochs) if self._renderer else reached
        return training_curves(self._series, end, f"Training: epoch {done} of {self.total_epochs}", updates)

    def on_batch(self, update: Any) -> None:
        """After an update: for ``on_batch`` of ``train.fit``.

        Raises:
            KeyboardInterrupt: the button was pressed. ``fit`` takes it as the end of the training.
        """
        self.follow(update)
        self._obey()

    on_batch.shows_progress = True  # type: ignore[attr-defined]  # so that fit leaves out its own bar

    def __call__(self, history: Any, model: Any = None) -> None:
        """After an epoch: for ``on_epoch`` of ``train.fit``.

        Raises:
            KeyboardInterrupt: as ``on_batch``, unless this was the last epoch.
        """
        self.record(history, model)
        if len(self._series["train_loss"]) == self._announced:
            self.finish()
        self._obey()

    def record(self, history: Any, model: Any = None) -> None:
        """After an epoch, for trainers that stop in another way.

        Args:
            history: ``train.History``, or a dict of its series; it may also hold "rates" (see ``training_curves``).
            model: the ``nn.Sequential`` whose layers' rates are followed, if any.
        """
        series = vars(history) if isinstance(history, History) else history
        series = dict(checks.instance("history", series, Mapping, "a train.History or a dict of its series"))
        done = len(series.get("train_loss", ()))
        if not done:
            raise ValueError("history must have a train_loss with at least one epoch, but it has none")
        if self.layers:
            for name, rate in layer_rates(model, self.layers, self.probe).items():
                before = self.rates[name][: done - 1]
                self.rates[name][:] = [*before, *[math.nan] * (done - 1 - len(before)), rate]
            series = {key: value for key, value in series.items() if key != "output_rate"} | {"rates": self.rates}
        self._series = series
        self.total_epochs = self._progress.epochs = max(done, self.total_epochs)
        renderer = self._renderer or self._begin(each_update=False)
        renderer.epoch(series, self.total_epochs)
        self._draw(renderer)

    @checks.arguments
    def follow(self, update: BatchInfo) -> None:
        """After an update, for trainers that stop in another way: they call ``stop_requested()``."""
        if self._renderer is None:
            self._progress, self._updates = Progress(self.total_epochs), []
        self._progress.note(update)
        self.total_epochs = self._progress.epochs
        if self._renderer is None:
            words = self._read(update)  # first, so that the panel opens with it
            self._begin(each_update=True).update(self._progress.share, words)
        elif self._readings.due():
            with self._readings:
                self._renderer.update(self._progress.share, self._read(update))
            self._draw(self._renderer)

    def stop_requested(self) -> bool:
        """Whether the button has been pressed in this run."""
        return self._stop.requested()

    def finish(self) -> None:
        """End of the run: show the final figure. ``train.fit`` always calls it; a second call does nothing."""
        if self._renderer is None:
            return
        renderer, self._renderer = self._renderer, None
        done, run = len(self._series.get("train_loss", ())), self._progress
        whole = done >= self.total_epochs
        self.stopped = not whole and self._stop.requested()
        self._stop.end()
        if whole:
            message = f"Done: {count_of(done, 'epoch')} in {duration_of(time.perf_counter() - self._began)}."
        else:
            where = f"after epoch {done} of {self.total_epochs}"
            if run.update < run.updates:
                where = f"in epoch {run.epoch} of {self.total_epochs}, after update {run.update} of {run.updates}"
            message = f"{'Stopped' if self.stopped else 'Ended early'} {where}."
            message += " The network keeps what it has learned so far."
        renderer.end(message, self.figure)

    def _begin(self, *, each_update: bool) -> Renderer:
        self._began = time.perf_counter()
        self._stop.begin()
        self._readings, self._drawings = Throttle(*READINGS), Throttle(*DRAWINGS)
        if live():
            self._renderer = NotebookRenderer(self._stop, each_update=each_update)
        else:
            silent = headless() or in_notebook()
            self._renderer = Renderer() if silent else TextRenderer(each_update=each_update)
        return self._renderer

    def _read(self, update: Any) -> str:
        loss, metric, name = update.loss, update.metric, update.metric_name
        place = update.epoch + (update.batch + 1) / self._progress.updates
        self._updates.append((place, loss, metric, update.output_rate))
        if not self._series and name != "accuracy":
            self._series = {"metric": name}  # until an epoch is over
        return self._progress.words(loss, metric, name)

    def _draw(self, renderer: Renderer) -> None:
        if self._drawings.due():
            with self._drawings:
                renderer.draw(self.figure)

    def _obey(self) -> None:
        if self._renderer is not None and self._stop.requested():
            self.finish()
            raise KeyboardInterrupt("stopped by the button of the panel")


def layer_rates(model: Any, layers: Mapping[str, int], probe: Any) -> dict[str, float]:
    """Mean output per neuron and step of some modules of an ``nn.Sequential``: their firing rates, if they spike.

    The model runs on ``probe`` [T, B, …] in evaluation mode, without gradients.
    """
    if not callable(getattr(model, "record", None)):
        raise TypeError(
            f"model must be an nn.Sequential of snnkit to follow its layers, but it is {type(model).__name__}"
        )
    modules = len(list(model.children()))
    for name, index in layers.items():
        checks.integer(f"layers[{name!r}]", index, at_least=-modules, at_most=modules - 1)
    with evaluating(model):
        device = next((p.device for p in model.parameters()), probe.device)
        outputs = model.record(probe.to(device)).layers
    return {name: float(outputs[index].float().mean()) for name, index in layers.items()}
